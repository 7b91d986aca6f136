"""Workflows: submission, snapshot, terminal decisions, cancellation (chapters 09 and 12)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import same

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@scenario(
    "workflow/first-activation",
    cites=["WF-010", "WF-020", "WF-021", "ACT-001", "ACT-002", "ACT-004", "ACT-010", "WF-031"],
)
async def test_first_activation(lab: Lab) -> None:
    """A submission makes a running root whose first activation is a task with the submission's data."""
    data, correlation = {"month": 3, "rate": 1.0}, lab.unique("books")
    workflow = await lab.client.workflow(data=data, correlation_key=correlation, attempt_timeout_ms=120_000)
    assert (workflow["state"], workflow["revision"], workflow["terminal_at"]) == ("running", 0, None)
    activation = await (await lab.worker()).activation()
    assert activation.task_id == workflow["activation_id"] == activation.assignment["workflow_activation_id"]
    assert activation.event["ldgworkflowid"] == workflow["workflow_id"]
    assert "ldgparentworkflowid" not in activation.event
    assert same(activation.event["data"], data)
    assert activation.frozen == {
        "v": 1,
        "workflow_id": workflow["workflow_id"],
        "activation_id": activation.task_id,
        "revision": 0,
        "continuation": "start",
        "state": None,
        "inputs": {},
        "local_steps": [],
    }
    task = (await lab.client.inspect(activation.task_id)).accepted()
    assert same(task["input"]["data"], data)
    assert (task["input"]["correlation_key"], task["input"]["attempt_timeout_ms"]) == (correlation, 120_000)
    status = (await lab.client.status(activation.task_id)).accepted()
    assert (status["workflow_id"], status["workflow_activation_id"]) == (workflow["workflow_id"], activation.task_id)


@scenario("workflow/replay-and-conflict", cites=["WF-013", "WF-014", "WF-015", "WF-016", "LIM-002"])
async def test_replay_and_conflict(lab: Lab) -> None:
    """The same command returns the workflow as it is now, in every state; any other input conflicts."""
    command = lab.client.submission(data={"n": 1}, origin_trace=TRACE)
    first = (await lab.client.post("/v1/workflows", command)).accepted()
    workflow_id = first["workflow_id"]
    assert (await lab.client.post("/v1/workflows", command)).accepted() == first
    untraced = {name: value for name, value in command.items() if name != "origin_trace"}
    assert (await lab.client.post("/v1/workflows", untraced)).accepted() == first
    changes: dict[str, dict[str, Any]] = {
        "number class": {"data": {"n": 1.0}},
        "queue": {"queue": lab.unique("other")},
        "correlation": {"correlation_key": ""},
        "policy": {"retry_policy": {"max_attempts": 1, "retry_delay_ms": 5000}},
    }
    for name, change in changes.items():
        with lab.case(name):
            other = {**command, "input": {**command["input"], **change}}
            (await lab.client.post("/v1/workflows", other)).refused("conflict")
    activation = await (await lab.worker()).activation()
    await activation.complete("done")
    ended = await lab.client.workflow_until(workflow_id, "succeeded")
    assert (await lab.client.post("/v1/workflows", command)).accepted() == ended
    await (await lab.worker()).nothing()


@scenario("workflow/concurrent-first", cites=["WF-018", "WF-013", "WF-015"])
async def test_concurrent_first(lab: Lab) -> None:
    """Racing submissions under one key make one workflow with one activation."""
    key = lab.unique("race")
    answers = await asyncio.gather(*(lab.client.submit_workflow(key=key) for _ in range(8)))
    assert len({answer.accepted()["workflow_id"] for answer in answers}) == 1
    worker = await lab.worker(concurrency=2)
    await worker.claim()
    await worker.nothing()


@scenario(
    "workflow/complete",
    cites=["DEC-050", "WF-040", "WF-051", "WF-031", "ACT-008", "DEC-003", "CLI-088", "WF-065", "WF-066"],
)
async def test_complete(lab: Lab) -> None:
    """`complete` ends the workflow with its output; the activation's own result is the decision as settled."""
    for output in (None, {"total": 1.0, "rows": [1, 2]}):
        workflow = await lab.client.workflow()
        pending = (await lab.client.workflow_result(workflow["workflow_id"])).accepted()
        assert pending["outcome"] is None
        activation = await (await lab.worker()).activation()
        decision = activation.decision("complete", output=output)
        assert (await activation.decide(decision))["task_state"] == "succeeded"
        outcome = await lab.client.outcome_until(workflow["workflow_id"], "succeeded")
        assert same(outcome, {"kind": "succeeded", "output": output})
        ended = (await lab.client.workflow_status(workflow["workflow_id"])).accepted()
        assert (ended["revision"], ended["activation_id"]) == (1, None)
        settled = (await lab.client.result(activation.task_id)).accepted()["outcome"]["output"]
        assert same(settled, decision)


@scenario("workflow/fail", cites=["DEC-051", "DEC-052", "WF-052", "WF-040", "ERR-010", "LIM-020", "WF-065", "WF-066"])
async def test_fail(lab: Lab) -> None:
    """`fail` counts a revision and ends the workflow with exactly its error."""
    workflow = await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    kind, message = "k" * 128, "\u0001\n" + "m" * 4094
    await activation.fail(kind, message)
    outcome = await lab.client.outcome_until(workflow["workflow_id"], "failed")
    assert outcome == {"kind": "failed", "error": {"kind": kind, "message": message}}
    assert (await lab.client.workflow_status(workflow["workflow_id"])).accepted()["revision"] == 1


@scenario(
    "workflow/continue",
    cites=["CHD-052", "WF-051", "DEC-004", "ACT-009", "WF-053", "ACT-002", "ACT-004", "CHD-051", "WF-065"],
)
async def test_continue(lab: Lab) -> None:
    """`continue` and a suspend on nothing go on at once with the saved state and continuation, one revision each."""
    workflow = await lab.client.workflow(
        data="for ever",
        correlation_key=lab.unique("kept"),
        retry_policy={"max_attempts": 2, "retry_delay_ms": 1},
        attempt_timeout_ms=120_000,
    )
    worker = await lab.worker()
    first = await worker.activation()
    state = {"step": 1, "rate": 1.0, "zero": -0.0}
    await first.go_on(state=state, continuation="second")
    second = await worker.activation()
    assert second.task_id != first.task_id
    assert (second.frozen["revision"], second.frozen["continuation"], second.frozen["inputs"]) == (1, "second", {})
    assert same(second.frozen["state"], state)
    submitted = [(await lab.client.inspect(each.task_id)).accepted()["input"] for each in (first, second)]
    assert same(submitted[1], submitted[0]), "a later activation carries another submission (ACT-002)"
    assert second.event["data"] == "for ever"
    assert second.assignment["descriptor"] == first.assignment["descriptor"]
    await second.suspend(state=[2], continuation="third")
    third = await worker.activation()
    assert (third.frozen["revision"], third.frozen["continuation"], third.frozen["state"]) == (2, "third", [2])
    snapshot = (await lab.client.workflow_status(workflow["workflow_id"])).accepted()
    assert (snapshot["state"], snapshot["revision"], snapshot["activation_id"]) == ("running", 2, third.task_id)
    await third.complete()
    assert (await lab.client.workflow_until(workflow["workflow_id"], "succeeded"))["revision"] == 3


@scenario(
    "workflow/cancel-running",
    cites=["WF-060", "WF-062", "WF-031", "WF-066", "DRN-003", "DRN-006", "DRN-008", "DRN-009", "DRN-013", "ACT-048"],
)
async def test_cancel_running(lab: Lab) -> None:
    """Cancel answers `cancelling` at once, takes the activation's authority, and ends when its task has ended."""
    workflow = await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    cancelling = (await lab.client.cancel_workflow(workflow["workflow_id"])).accepted()
    assert (cancelling["state"], cancelling["activation_id"]) == ("cancelling", activation.task_id)
    (await activation.context()).refused("ownership_lost")
    (await activation.local("late")).refused("ownership_lost")
    assert (await lab.client.workflow_result(workflow["workflow_id"])).accepted()["outcome"] is None
    await lab.until(
        "the drain has requested cancellation of the activation",
        lambda: lab.client.status(activation.task_id),
        lambda seen: seen.accepted()["cancel_requested_at"] is not None,
        show=lambda seen: seen.value,
    )
    assert (await activation.complete("ignored"))["task_state"] == "cancelled"
    outcome = await lab.client.outcome_until(workflow["workflow_id"], "cancelled")
    assert outcome == {"kind": "cancelled"}
    ended = (await lab.client.workflow_status(workflow["workflow_id"])).accepted()
    assert ended["revision"] == 0
    task = (await lab.client.status(activation.task_id)).accepted()
    assert ended["terminal_at"] >= task["terminal_at"]
    assert (await lab.client.cancel_workflow(workflow["workflow_id"])).accepted() == ended


@scenario("workflow/cancel-unclaimed", cites=["WF-060", "DRN-003", "WF-063", "WF-062"])
async def test_cancel_unclaimed(lab: Lab) -> None:
    """A workflow whose activation nobody claimed drains by itself; unknown workflows are not_found."""
    workflow = await lab.client.workflow()
    assert (await lab.client.cancel_workflow(workflow["workflow_id"])).accepted()["state"] == "cancelling"
    again = (await lab.client.cancel_workflow(workflow["workflow_id"])).accepted()
    assert again["state"] in ("cancelling", "cancelled")
    await lab.client.workflow_until(workflow["workflow_id"], "cancelled")
    assert (await lab.client.status(workflow["activation_id"])).accepted()["state"] == "cancelled"
    await (await lab.worker()).nothing()
    (await lab.client.cancel_workflow(lab.unique("absent"))).refused("not_found")
    extra = {"scope": lab.scope, "workflow_id": workflow["workflow_id"], "reason": "x"}
    (await lab.client.post("/v1/workflows/cancel", extra)).refused("invalid_input")


@scenario("workflow/cancel-terminal", cites=["WF-062", "RACE-09", "WF-050", "DRN-014"])
async def test_cancel_terminal(lab: Lab) -> None:
    """Cancelling an ended workflow returns the unchanged snapshot."""
    workflow = await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    await activation.complete(1)
    ended = await lab.client.workflow_until(workflow["workflow_id"], "succeeded")
    for _ in range(2):
        assert (await lab.client.cancel_workflow(workflow["workflow_id"])).accepted() == ended
    outcome = (await lab.client.workflow_result(workflow["workflow_id"])).accepted()["outcome"]
    assert outcome == {"kind": "succeeded", "output": 1}


@scenario(
    "workflow/cancel-while-failing", cites=["WF-061", "RACE-10", "WF-050", "DEC-051", "DEC-052", "WF-065", "WF-031"]
)
async def test_cancel_while_failing(lab: Lab) -> None:
    """A cancel during `failing` turns it into `cancelling`; the error is never reported."""
    workflow = await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    child_worker = await lab.worker(queue=lab.child_queue)
    await activation.go_on(commands=[activation.command("held")])
    child = await child_worker.running()
    second = await (await lab.worker()).activation()
    await second.fail("unbalanced", "never shown")
    failing = await lab.client.workflow_until(workflow["workflow_id"], "failing")
    assert (failing["revision"], failing["activation_id"]) == (2, second.task_id)
    cancelling = (await lab.client.cancel_workflow(workflow["workflow_id"])).accepted()
    assert (cancelling["state"], cancelling["revision"]) == ("cancelling", 2)
    await child.succeed()
    assert await lab.client.outcome_until(workflow["workflow_id"], "cancelled") == {"kind": "cancelled"}


@scenario(
    "workflow/other-scope", cites=["WF-042", "WF-063", "TASK-050", "EVT-011", "ACT-026"], profile="core any-scope"
)
async def test_other_scope(lab: Lab) -> None:
    """The right id under another scope is not_found on every route."""
    workflow = await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    other = lab.client_in(lab.other_scope)
    await other.workflow()  # in a scope that nobody has used, anything is unknown
    workflow_id = workflow["workflow_id"]
    (await other.workflow_status(workflow_id)).refused("not_found")
    (await other.workflow_result(workflow_id)).refused("not_found")
    (await other.cancel_workflow(workflow_id)).refused("not_found")
    (await other.send_event(workflow_id, "k", other.event())).refused("not_found")
    (await activation.context(scope=lab.other_scope)).refused("not_found")
    assert (await lab.client.workflow_status(workflow_id)).accepted()["state"] == "running"
