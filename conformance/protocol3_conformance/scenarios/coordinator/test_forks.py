"""Forks: branches of one package that start at once (chapter 14)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.worker import Worker
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import compact_size, same

TWICE = {"max_attempts": 2, "retry_delay_ms": 0}
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
ORIGIN = {"traceparent": "00-22222222222222222222222222222222-3333333333333333-01"}


@scenario(
    "forks/branches-run-beside",
    cites=["FRK-002", "FRK-003", "FRK-004", "FRK-005", "FRK-020", "CHD-022", "WF-032", "ACT-006", "WF-043"],
    profile="core forks",
)
async def test_branches_run_beside(lab: Lab) -> None:
    """Branches start while the parent goes on, with the parent's package, and a join gets all their outcomes."""
    correlation = lab.unique("fork")
    parent = await lab.client.workflow(data="of the parent", correlation_key=correlation, origin_trace=ORIGIN)
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    activation = await worker.activation()
    branches = [
        activation.branch("double:0", "double", queue=lab.child_queue, data={"n": 2.0}),
        activation.branch("triple:0", "triple", queue=lab.child_queue, data=3),
    ]
    receipt = (await activation.fork("calc:0", branches, processing_trace=TRACE)).accepted()
    assert receipt == {"key": "calc:0", "branch_keys": ["double:0", "triple:0"], "already_accepted": False}
    assert (await lab.client.workflow_status(parent["workflow_id"])).accepted() == parent
    assert same((await activation.context()).accepted(), activation.frozen)
    found = {}
    for _ in branches:
        branch = await children.activation()
        entry = branch.frozen["continuation"]
        found[entry] = branch
        assert branch.assignment["descriptor"] == activation.assignment["descriptor"]
        assert (branch.frozen["state"], branch.frozen["revision"], branch.frozen["inputs"]) == (None, 0, {})
        assert branch.event["traceparent"].split("-")[1] == TRACE["traceparent"].split("-")[1]
        for shown in (branch.frozen["parent_workflow_id"], branch.frozen["root_workflow_id"]):
            assert shown == parent["workflow_id"]
        assert branch.event["ldgparentworkflowid"] == branch.event["ldgrootworkflowid"] == parent["workflow_id"]
        status = (await lab.client.workflow_status(branch.workflow_id)).accepted()
        assert (status["correlation_key"], status["state"]) == (correlation, "running")
        assert status["parent_workflow_id"] == status["root_workflow_id"] == parent["workflow_id"]
    assert set(found) == {"double", "triple"}
    assert same(found["double"].event["data"], {"n": 2.0})
    (await activation.local("beside", "the parent still works")).accepted()
    await activation.suspend("triple:0", "double:0", continuation="collect")
    await found["double"].complete(4.0)
    await found["triple"].fail("odd", "three")
    joined = await worker.activation()
    expected = {
        "double:0": {
            "kind": "workflow",
            "workflow_id": found["double"].workflow_id,
            "state": "succeeded",
            "outcome": {"kind": "succeeded", "output": 4.0},
        },
        "triple:0": {
            "kind": "workflow",
            "workflow_id": found["triple"].workflow_id,
            "state": "failed",
            "outcome": {"kind": "failed", "error": {"kind": "odd", "message": "three"}},
        },
    }
    assert same(joined.frozen["inputs"], expected)
    await joined.complete()
    ended = await lab.client.workflow_until(parent["workflow_id"], "succeeded")
    for branch in found.values():
        assert ended["terminal_at"] >= (await lab.client.workflow_status(branch.workflow_id)).accepted()["terminal_at"]


@scenario(
    "forks/replay-and-conflict",
    cites=["FRK-006", "FRK-007", "FRK-010", "LIM-001", "LIM-002", "FRK-017"],
    profile="core forks",
)
async def test_replay_and_conflict(lab: Lab) -> None:
    """An identical fork replays, whatever its trace; members, order and every branch field belong to the binding."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    one = activation.branch("one", data={"n": 1}, queue=lab.child_queue)
    two = activation.branch("two", queue=lab.child_queue)
    assert not (await activation.fork("f", [one, two])).accepted()["already_accepted"]
    explicit: dict[str, Any] = {
        "retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000},
        "attempt_timeout_ms": 300_000,
    }
    for branches in ([one, two], [{**one, **explicit}, two]):
        receipt = (await activation.fork("f", branches, processing_trace=TRACE)).accepted()
        assert receipt == {"key": "f", "branch_keys": ["one", "two"], "already_accepted": True}
    changes = {
        "order": [two, one],
        "fewer": [one],
        "more": [one, two, activation.branch("three")],
        "entrypoint": [{**one, "entrypoint": "other"}, two],
        "queue": [{**one, "queue": lab.queue}, two],
        "number class": [{**one, "data": {"n": 1.0}}, two],
        "policy": [{**one, "retry_policy": {"max_attempts": 1, "retry_delay_ms": 0}}, two],
        "timeout": [{**one, "attempt_timeout_ms": 60_000}, two],
    }
    for name, branches in changes.items():
        with lab.case(name):
            (await activation.fork("f", branches)).refused("conflict")
    children = await lab.worker(queue=lab.child_queue)
    for _ in range(2):
        await children.claim()
    await children.nothing()


@scenario(
    "forks/no-adoption", cites=["FRK-006", "FRK-010", "FRK-011", "FRK-012", "CHD-013", "CHD-010"], profile="core forks"
)
async def test_no_adoption(lab: Lab) -> None:
    """A fork takes over no child and a command no branch; fork keys and child keys are two namespaces."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    staged = first.command("staged", kind="workflow", queue=lab.child_queue)
    await first.go_on(commands=[staged])
    second = await worker.activation()
    taken = [second.branch("fresh", queue=lab.child_queue), second.branch("staged", queue=lab.child_queue)]
    (await second.fork("f", taken)).refused("conflict")
    receipt = (await second.fork("staged", [second.branch("mine", queue=lab.child_queue)])).accepted()
    assert not receipt["already_accepted"]
    (await second.fork("g", [second.branch("mine", queue=lab.child_queue)])).refused("conflict")
    starts = [(await children.activation()).frozen["continuation"] for _ in range(2)]
    assert sorted(starts) == ["branch", "start"], "the refused fork created a branch"
    await children.nothing()
    await second.suspend("mine", commands=[second.command("mine", kind="workflow", queue=lab.child_queue)])
    await lab.client.workflow_until(second.workflow_id, "failing")


@scenario("forks/authority", cites=["FRK-010", "FRK-015", "FRK-013", "FRK-014", "LOC-006"], profile="core forks")
async def test_authority(lab: Lab) -> None:
    """A new fork needs a live, dispatched owner; the original owner's replay does not, a later activation's does."""
    await lab.client.workflow()
    worker = await lab.worker()
    claim = await worker.claim()
    branches = [claim.branch("b", queue=lab.child_queue)]
    (await claim.fork("f", branches)).refused("ownership_lost")
    await claim.dispatch()
    stranger = {**claim.owner, "lease_id": lab.unique("lease")}
    command = {"owner": claim.owner, "fork": {"key": "f", "branches": branches}}
    (await lab.client.post("/v1/workflows/forks", {**command, "owner": stranger})).refused("ownership_lost")
    (await claim.fork("f", branches)).accepted()
    (await lab.client.post("/v1/workflows/forks", {**command, "owner": stranger})).refused("ownership_lost")
    frozen = (await claim.context()).accepted()
    decision = {"v": 1, "activation_id": claim.task_id, "revision": 0, "kind": "continue"}
    await claim.succeed({**decision, "state": None, "continuation": "later", "commands": []})
    assert (await claim.fork("f", branches)).accepted()["already_accepted"]
    (await claim.fork("new", [claim.branch("c")])).refused("ownership_lost")
    later = await worker.claim()
    (await later.fork("f", branches)).refused("ownership_lost")
    await later.dispatch()
    assert (await later.fork("f", branches)).accepted()["already_accepted"]
    await lab.client.cancel_workflow(frozen["workflow_id"])
    assert (await claim.fork("f", branches)).accepted()["already_accepted"]
    (await later.fork("new", [later.branch("c")])).refused("ownership_lost")


@scenario(
    "forks/parent-dies",
    cites=["FRK-019", "RACE-26", "RACE-28", "FRK-018", "DRN-004", "DRN-007", "ACT-041"],
    profile="core forks",
)
async def test_parent_dies(lab: Lab) -> None:
    """A fork outlives the attempt that made it; when retries are exhausted its branches are drained."""
    parent = await lab.client.workflow(retry_policy=TWICE)
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    branches = [first.branch("b", queue=lab.child_queue)]
    (await first.fork("f", branches)).accepted()
    await first.break_down("runtime")
    branch = await children.activation()
    second = await worker.activation()
    assert (await second.fork("f", branches)).accepted()["already_accepted"]
    await children.nothing()
    await second.break_down("runtime")
    failing = await lab.client.workflow_until(parent["workflow_id"], "failing")
    assert failing["revision"] == 0
    await lab.client.workflow_until(branch.workflow_id, "cancelling", "cancelled")
    await branch.succeed(None)
    assert await lab.client.outcome_until(branch.workflow_id, "cancelled") == {"kind": "cancelled"}
    outcome = await lab.client.outcome_until(parent["workflow_id"], "failed")
    assert outcome["error"]["kind"] == "workflow_activation_failed"


@scenario("forks/unfinished-branch", cites=["FRK-018", "DEC-043", "DRN-004", "DRN-007"], profile="core forks")
async def test_unfinished_branch(lab: Lab) -> None:
    """A parent that completes while its branch is live fails, and the branch is cancelled."""
    parent = await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    (await activation.fork("f", [activation.branch("b", queue=lab.child_queue)])).accepted()
    branch = await (await lab.worker(queue=lab.child_queue)).activation()
    await activation.complete("too early")
    failing = await lab.client.workflow_until(parent["workflow_id"], "failing")
    assert failing["revision"] == 0
    await lab.client.workflow_until(branch.workflow_id, "cancelling")
    await branch.break_down()
    assert await lab.client.outcome_until(branch.workflow_id, "cancelled") == {"kind": "cancelled"}
    outcome = await lab.client.outcome_until(parent["workflow_id"], "failed")
    assert outcome["error"]["kind"] == "decision_application_failed"


@scenario(
    "forks/cancelled-parent",
    cites=["RACE-27", "FRK-013", "FRK-015", "DRN-004", "DRN-006", "WF-064"],
    profile="core forks",
)
async def test_cancelled_parent(lab: Lab) -> None:
    """Cancelling the parent drains its branches; the original owner's replay of the fork still succeeds."""
    parent = await lab.client.workflow()
    worker = await lab.worker()
    activation = await worker.activation()
    branches = [activation.branch("b", queue=lab.child_queue)]
    (await activation.fork("f", branches)).accepted()
    branch = await (await lab.worker(queue=lab.child_queue)).activation()
    await lab.client.cancel_workflow(parent["workflow_id"])
    assert (await activation.fork("f", branches)).accepted()["already_accepted"]
    (await activation.fork("g", [activation.branch("c")])).refused("ownership_lost")
    await lab.client.workflow_until(branch.workflow_id, "cancelling", "cancelled")
    await branch.succeed(None)
    await activation.succeed(None)
    await lab.client.workflow_until(branch.workflow_id, "cancelled")
    ended = await lab.client.workflow_until(parent["workflow_id"], "cancelled")
    assert ended["terminal_at"] >= (await lab.client.workflow_status(branch.workflow_id)).accepted()["terminal_at"]
    assert (await activation.fork("f", branches)).accepted()["already_accepted"]


@scenario(
    "forks/invalid-requests",
    cites=["FRK-001", "FRK-010", "FRK-011", "JSON-080", "LIM-020", "LIM-010"],
    profile="core forks",
)
async def test_invalid_requests(lab: Lab) -> None:
    """Ill-formed forks are refused before identity is looked at and create nothing."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    good = activation.branch("good", queue=lab.child_queue)
    many = [activation.branch(f"b{number}", queue=lab.child_queue) for number in range(bound("BRANCHES") + 1)]
    cases: dict[str, list[Any]] = {
        "no branch": [],
        "65 branches": many,
        "same key twice": [good, good],
        "a program of its own": [{**good, "program": {"id": "x", "version": "1"}}],
        "no data": [{name: value for name, value in good.items() if name != "data"}],
        "empty entrypoint": [good, activation.branch("b", "")],
        "null policy": [{**good, "retry_policy": None}],
        "short timeout": [{**good, "attempt_timeout_ms": 59_999}],
    }
    for name, branches in cases.items():
        with lab.case(name):
            (await activation.fork("f", branches)).refused("invalid_input", 400)
    (await activation.fork("", [good])).refused("invalid_input")
    (await activation.fork("f", [good], processing_trace={"traceparent": "x"})).refused("invalid_input")
    zero = {**activation.owner, "generation": 0}
    command = {"owner": zero, "fork": {"key": "f", "branches": [good]}}
    (await lab.client.post("/v1/workflows/forks", command)).refused("invalid_input")
    limit = bound("FORK_REQUEST_BYTES")
    policy: dict[str, Any] = {
        "retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000},
        "attempt_timeout_ms": 300_000,
    }
    whole = {"key": "f", "branches": [{**good, **policy, "data": ""}]}
    room = limit - compact_size(whole)
    (await activation.fork("f", [{**good, "data": "x" * (room + 1)}])).refused("invalid_input", 400)
    (await activation.fork("f", [{**good, "data": "x" * room}])).accepted()
    children = await lab.worker(queue=lab.child_queue)
    await children.claim()
    await children.nothing()


@scenario("forks/ledger-bytes", cites=["FRK-010", "FRK-017", "LIM-012", "LIM-020"], profile="core forks")
async def test_ledger_bytes(lab: Lab) -> None:
    """The forks of an activation may fill their ledger to the last byte, and a replay takes nothing of it."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    policy: dict[str, Any] = {
        "retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000},
        "attempt_timeout_ms": 300_000,
    }
    limit = bound("FORK_REQUEST_BYTES")
    for number in range(bound("FORK_LEDGER_BYTES") // limit):
        branch = {**activation.branch(f"b{number}", queue=lab.child_queue), **policy, "data": ""}
        room = limit - compact_size({"key": f"f{number}", "branches": [branch]})
        branches = [{**branch, "data": "x" * room}]
        for known in (False, True):
            assert (await activation.fork(f"f{number}", branches)).accepted()["already_accepted"] is known
    (await activation.fork("small", [activation.branch("c")])).refused("invalid_input", 400)


async def full(lab: Lab) -> tuple[Activation, Worker, Worker]:
    """An activation that has forked as many branches as one may; its worker, and one for the branches."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    activation = await worker.activation()
    branches = [activation.branch(f"b{number:02}", queue=lab.child_queue) for number in range(bound("NEW_CHILDREN"))]
    (await activation.fork("all", branches)).accepted()
    return activation, worker, children


async def end_one(lab: Lab, children: Worker) -> None:
    """Let one branch complete, so that one live subworkflow less counts."""
    branch = await children.activation()
    await branch.complete()
    await lab.client.workflow_until(branch.workflow_id, "succeeded")


@scenario(
    "forks/budget-of-an-activation",
    cites=["FRK-010", "FRK-017", "CHD-023", "CHD-024", "LIM-020", "FRK-011", "DEC-040"],
    profile="core forks",
)
async def test_budget_of_an_activation(lab: Lab) -> None:
    """One activation may register 64 children, ended ones included; forks and its decision share the budget."""
    activation, _, children = await full(lab)
    await end_one(lab, children)
    (await activation.fork("more", [activation.branch("c", queue=lab.child_queue)])).refused("invalid_input", 400)
    await activation.go_on(commands=[activation.command("task", queue=lab.unique("other"))])
    failing = await lab.client.workflow_until(activation.workflow_id, "failing")
    assert failing["revision"] == 0


@scenario("forks/budget-over-attempts", cites=["FRK-017", "FRK-019", "CHD-024"], profile="core forks")
async def test_budget_over_attempts(lab: Lab) -> None:
    """What an attempt has registered counts for the next one of its activation, which may only replay it."""
    await lab.client.workflow(retry_policy=TWICE)
    worker = await lab.worker()
    first = await worker.activation()
    branches = [first.branch(f"b{number:02}", queue=lab.child_queue) for number in range(bound("NEW_CHILDREN"))]
    (await first.fork("all", branches)).accepted()
    await first.break_down("io")
    second = await worker.activation()
    assert (await second.fork("all", branches)).accepted()["already_accepted"]
    (await second.fork("more", [second.branch("c", queue=lab.child_queue)])).refused("invalid_input", 400)


@scenario("forks/known-children-cost-nothing", cites=["CHD-011", "CHD-024", "FRK-017"], profile="core forks")
async def test_known_children_cost_nothing(lab: Lab) -> None:
    """Neither a replayed fork nor the command of a known child uses up the budget of an activation."""
    await lab.client.workflow()
    worker = await lab.worker()
    first = await worker.activation()
    known = first.command("known")
    await first.go_on(commands=[known])
    second = await worker.activation()
    most = bound("NEW_CHILDREN")
    branches = [second.branch(f"b{number:02}", queue=lab.child_queue) for number in range(most - 1)]
    (await second.fork("all", branches)).accepted()
    assert (await second.fork("all", branches)).accepted()["already_accepted"]
    await second.go_on(commands=[known, second.command("new")])
    assert (await worker.activation()).frozen["revision"] == 2


@scenario(
    "forks/live-subworkflows",
    cites=["FRK-010", "CHD-023", "CHD-026", "CHD-027", "RACE-29", "LIM-020", "FRK-011", "DEC-040"],
    profile="core forks subworkflows",
)
async def test_live_subworkflows(lab: Lab) -> None:
    """A parent may own 64 live subworkflows; one that has ended makes room before its parent has heard of it."""
    activation, worker, children = await full(lab)
    await activation.go_on()
    second = await worker.activation()
    (await second.fork("full", [second.branch("c", queue=lab.child_queue)])).refused("invalid_input", 400)
    await end_one(lab, children)
    assert not (await second.fork("room", [second.branch("c", queue=lab.child_queue)])).accepted()["already_accepted"]
    await second.go_on(commands=[second.command("task", queue=lab.unique("other"))])
    third = await worker.activation()
    await third.go_on(commands=[third.command("flow", kind="workflow", queue=lab.unique("other"))])
    failing = await lab.client.workflow_until(third.workflow_id, "failing")
    assert failing["revision"] == 2


@scenario("forks/at-once", cites=["FRK-016", "FRK-011"], profile="core forks")
async def test_at_once(lab: Lab) -> None:
    """Racing identical forks make one set of branches; rivals under one key have one winner."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    for number in range(3):
        branches = [activation.branch(f"b{number}:{side}", queue=lab.child_queue) for side in range(2)]
        answers = await asyncio.gather(*(activation.fork(f"f{number}", branches) for _ in range(4)))
        assert sorted(answer.accepted()["already_accepted"] for answer in answers) == [False, True, True, True]
        rivals = [[activation.branch(f"r{number}", f"e{side}", queue=lab.child_queue)] for side in range(2)]
        outcomes = await asyncio.gather(*(activation.fork(f"r{number}", rival) for rival in rivals))
        assert sorted(answer.status for answer in outcomes) == [200, 409]
    children = await lab.worker(queue=lab.child_queue)
    for _ in range(9):
        await children.claim()
    await children.nothing()
