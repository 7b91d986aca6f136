"""Task children: staging, delivery of results, reuse of keys (chapter 13)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import same

FAILED = "decision_application_failed"
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@scenario(
    "children/results",
    cites=[
        *("CHD-050", "CHD-040", "CHD-041", "CHD-042", "CHD-035", "CHD-036", "CHD-021", "CHD-002", "ACT-005", "ACT-010")
    ],
)
async def test_results(lab: Lab) -> None:
    """A suspend resumes when all its members are terminal, with exactly their results, whatever they are."""
    correlation = lab.unique("order")
    workflow = await lab.client.workflow(correlation_key=correlation)
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    names = ("good", "bad", "gone")
    await first.suspend(*names, commands=[first.command(name, data=name) for name in names])
    waiting = await lab.client.workflow_until(workflow["workflow_id"], "waiting")
    assert (waiting["revision"], waiting["activation_id"]) == (1, None)
    claims = {}
    for _ in names:
        claim = await children.running()
        claims[claim.event["data"]] = claim
        assert claim.event["ldgworkflowid"] == workflow["workflow_id"]
        assert "ldgactivationid" not in claim.event
        assert "workflow_activation_id" not in claim.assignment
        task = (await lab.client.inspect(claim.task_id)).accepted()
        assert task["input"]["correlation_key"] == correlation
        if claim.event["data"] == "good":
            await claim.succeed({"rate": 1.0, "n": 1})
        elif claim.event["data"] == "bad":
            (await claim.settle(claim.failure("no_rate", "closed"))).accepted()
        else:
            await lab.client.cancel_task(claim.task_id)
            await claim.succeed("dropped")
    resumed = await worker.activation()
    assert resumed.frozen["revision"] == 1
    assert "wake" not in resumed.frozen
    confirmed = {"quiescence": "confirmed", "execution_may_have_started": True}
    expected: dict[str, dict[str, Any]] = {
        "good": {
            "kind": "succeeded",
            "attempt_id": claims["good"].attempt_id,
            **confirmed,
            "output": {"rate": 1.0, "n": 1},
        },
        "bad": {
            "kind": "failed",
            "attempt_id": claims["bad"].attempt_id,
            **confirmed,
            "failure": {"kind": "application", "error": {"kind": "no_rate", "message": "closed"}},
        },
        "gone": {"kind": "cancelled"},
    }
    assert set(resumed.frozen["inputs"]) == set(names)
    for name, outcome in expected.items():
        child = resumed.frozen["inputs"][name]
        assert same(child, {"task_id": claims[name].task_id, "state": outcome["kind"], "outcome": outcome})
    await resumed.complete()
    ended = await lab.client.workflow_until(workflow["workflow_id"], "succeeded")
    for claim in claims.values():
        assert ended["terminal_at"] >= (await lab.client.status(claim.task_id)).accepted()["terminal_at"]


@scenario(
    "children/finished-before-the-wait",
    cites=["CHD-033", "RACE-01", "CHD-051", "CHD-034", "RACE-03", "ACT-020", "WF-053"],
)
async def test_finished_before_the_wait(lab: Lab) -> None:
    """A child that ends while its parent runs leaves the context alone and satisfies a later suspend at once."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.go_on(commands=[first.command("early")])
    second = await worker.activation()
    child = await children.running()
    await child.succeed("before the wait")
    assert same((await second.context()).accepted(), second.frozen)
    assert second.frozen["inputs"] == {}
    await second.suspend("early")
    third = await worker.activation()
    assert third.output_of("early") == "before the wait"
    assert third.frozen["revision"] == 2


@scenario("children/nobody-works-on-them", cites=["CHD-028", "CHD-052"])
async def test_nobody_works_on_them(lab: Lab) -> None:
    """Children exist without a worker for them, and their parent runs on beside them as often as it likes."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    first = await worker.activation()
    await first.go_on(commands=[first.command("one"), first.command("two")])
    second = await worker.activation()
    await second.go_on(commands=[second.command("three")])
    third = await worker.activation()
    snapshot = (await lab.client.workflow_status(workflow_id)).accepted()
    assert (snapshot["state"], snapshot["revision"]) == ("running", 2)
    assert third.frozen["inputs"] == {}
    children = await lab.worker(queue=lab.child_queue)
    for _ in range(3):
        assert (await children.claim()).event["ldgworkflowid"] == workflow_id


@scenario("children/frozen-over-retries", cites=["RACE-04", "CHD-058", "ACT-020", "CHD-053", "ACT-003"])
async def test_frozen_over_retries(lab: Lab) -> None:
    """A retried activation sees the inputs of its first attempt although more children have ended since."""
    await lab.client.workflow(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.suspend("one", commands=[first.command("one", data=1), first.command("two", data=2)])
    claims = sorted([await children.running(), await children.running()], key=lambda claim: claim.event["data"])
    await claims[0].succeed("one")
    second = await worker.activation()
    assert set(second.frozen["inputs"]) == {"one"}
    await claims[1].succeed("two")
    await second.break_down("io")
    again = await worker.activation()
    assert same(again.frozen, second.frozen)


@scenario("children/delivered-once-by-continue", cites=["CHD-052", "CHD-053", "CHD-054", "CHD-051", "CHD-014"])
async def test_delivered_once_by_continue(lab: Lab) -> None:
    """`continue` delivers a result once; an explicit suspend gets it again without running the child again."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.go_on(commands=[first.command("a")])
    child = await children.running()
    second = await worker.activation()
    assert second.frozen["inputs"] == {}
    await child.succeed("once")
    await second.suspend(state="suspend on nothing")
    third = await worker.activation()
    assert third.frozen["inputs"] == {}, "a suspend on nothing delivered results (CHD-051)"
    await third.go_on()
    fourth = await worker.activation()
    assert list(fourth.frozen["inputs"]) == ["a"]
    await fourth.go_on()
    fifth = await worker.activation()
    assert fifth.frozen["inputs"] == {}, "a consumed result was delivered again (CHD-053)"
    await fifth.suspend("a")
    sixth = await worker.activation()
    assert sixth.output_of("a") == "once"
    await children.nothing()
    await sixth.complete()
    await lab.client.workflow_until(sixth.workflow_id, "succeeded", revision=6)


@scenario("children/same-key-same-binding", cites=["CHD-011", "CHD-014", "LIM-001", "LIM-002", "CHD-010"])
async def test_same_key_same_binding(lab: Lab) -> None:
    """A command repeated under its key re-uses the child, defaults written out or not, in any state."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.go_on(commands=[first.command("job", data={"b": 1.0, "a": [1]})])
    child = await children.running()
    second = await worker.activation()
    explicit: dict[str, Any] = {
        "data": {"a": [1], "b": 1.0},
        "retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000},
        "attempt_timeout_ms": 300_000,
    }
    await second.suspend("job", commands=[second.command("job", kind="task", **explicit)])
    await lab.client.workflow_until(second.workflow_id, "waiting")
    await child.succeed("one child")
    third = await worker.activation()
    assert third.child("job")["task_id"] == child.task_id
    await third.suspend("job", commands=[third.command("job", **explicit)])
    fourth = await worker.activation()
    assert fourth.child("job")["task_id"] == child.task_id
    await children.nothing()


@scenario("children/same-key-other-binding", cites=["CHD-012", "DEC-040", "DEC-041", "DEC-046", "CHD-010", "LIM-001"])
async def test_same_key_other_binding(lab: Lab) -> None:
    """Another kind, program, queue, data, policy or timeout under a used key rejects the whole decision."""
    changes: dict[str, dict[str, Any]] = {
        "kind": {"kind": "workflow"},
        "queue": {"queue": lab.unique("elsewhere")},
        "number class": {"data": {"n": 1.0}},
        "policy": {"retry_policy": {"max_attempts": 4, "retry_delay_ms": 5000}},
        "timeout": {"attempt_timeout_ms": 300_001},
    }
    worker = await lab.worker()
    for name, change in changes.items():
        with lab.case(name):
            await lab.client.workflow()
            first = await worker.activation()
            await first.go_on(commands=[first.command("job", data={"n": 1})])
            second = await worker.activation()
            other = second.command("job", **{"data": {"n": 1}, **change})
            await second.suspend(commands=[second.command("new", queue=lab.unique("new")), other])
            outcome = await lab.client.outcome_until(second.workflow_id, "failed")
            assert outcome["error"]["kind"] in (FAILED, "decision_invalid")
            assert (await lab.client.workflow_status(second.workflow_id)).accepted()["revision"] == 1


@scenario("children/trace", cites=["CHD-003", "TRC-017", "TRC-016", "DLV-044"])
async def test_trace(lab: Lab) -> None:
    """A child continues the processing trace of the settlement that spawned it, else the workflow's origin."""
    processing = {"traceparent": "00-22222222222222222222222222222222-3333333333333333-01"}
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    for trace, expected in ((processing, processing), (None, TRACE)):
        await lab.client.workflow(origin_trace=TRACE)
        activation = await worker.activation()
        decision = activation.checkpoint("continue", {}, commands=[activation.command("traced")])
        (await activation.settle(activation.success(decision, processing_trace=trace))).accepted()
        child = await children.claim()
        task = (await lab.client.inspect(child.task_id)).accepted()
        assert task["origin_trace"]["traceparent"] == expected["traceparent"]
        later = await worker.activation()
        assert later.event["traceparent"].split("-")[1] == TRACE["traceparent"].split("-")[1]
        await lab.client.cancel_task(child.task_id)


@scenario("children/never-read-as-decisions", cites=["DEC-001", "CHD-021", "ACT-005"])
async def test_never_read_as_decisions(lab: Lab) -> None:
    """An ordinary child whose output looks like a decision is a result like any other."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.suspend("decoy", commands=[first.command("decoy")])
    child = await children.running()
    decoy = {"v": 1, "activation_id": child.task_id, "revision": 1, "kind": "complete", "output": "hijacked"}
    await child.succeed(decoy)
    second = await worker.activation()
    assert same(second.output_of("decoy"), decoy)
    await second.complete("mine")
    assert (await lab.client.outcome_until(second.workflow_id, "succeeded"))["output"] == "mine"


@scenario("children/oversized-results", cites=["CHD-056", "DEC-040", "LIM-021", "WF-052", "CHD-035"])
async def test_oversized_results(lab: Lab) -> None:
    """Results that do not fit the inputs together are never trimmed: the workflow fails."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    first = await worker.activation()
    await first.suspend("a", "b", commands=[first.command("a"), first.command("b")])
    for _ in range(2):
        child = await children.running()
        assert (await child.succeed("x" * 140_000))["task_state"] == "succeeded"
    outcome = await lab.client.outcome_until(first.workflow_id, "failed")
    assert outcome["error"]["kind"] == FAILED
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["revision"] == 1


@scenario(
    "children/sixty-four-inputs",
    cites=["CHD-052", "CHD-053", "CHD-050", "CHD-027", "LIM-020", "DEC-012", "TASK-129"],
)
async def test_sixty_four_inputs(lab: Lab) -> None:
    """`continue` delivers the 64 results that are oldest, then the rest; a suspend may name 64 members."""
    await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    most, more = bound("INPUTS"), 5
    keys = [f"k{number:02}" for number in range(most + more)]
    first = await worker.activation()
    await first.go_on(commands=[first.command(key, data=key) for key in keys[:most]])
    second = await worker.activation()
    await second.go_on(commands=[second.command(key, data=key) for key in keys[most:]])
    ended: list[tuple[int, bytes, str]] = []
    while len(ended) < len(keys):
        batch = [await children.claim() for _ in range(min(8, len(keys) - len(ended)))]
        for claim, reply in zip(batch, await asyncio.gather(*(claim.succeed() for claim in batch)), strict=True):
            ended.append((reply["receipt"]["accepted_at"], claim.task_id.encode(), claim.event["data"]))
    oldest = [key for _, _, key in sorted(ended)]
    third = await worker.activation()
    assert third.frozen["inputs"] == {}, "children that ended later got into frozen inputs"
    await third.go_on()
    fourth = await worker.activation()
    assert set(fourth.frozen["inputs"]) == set(oldest[:most])
    await fourth.go_on()
    fifth = await worker.activation()
    assert set(fifth.frozen["inputs"]) == set(oldest[most:])
    await fifth.suspend(*keys[:most])
    sixth = await worker.activation()
    assert set(sixth.frozen["inputs"]) == set(keys[:most])
    await sixth.complete()
    await lab.client.workflow_until(sixth.workflow_id, "succeeded", revision=6)
