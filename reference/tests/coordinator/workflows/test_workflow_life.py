"""From submission to the terminal outcome through scripted activations."""

import asyncio

import pytest

from protocol3.programs.errors import ProgramError


async def test_a_workflow_completes(flow):
    """WF-010, WF-020, WF-021, WF-031, ACT-004, ACT-007, ACT-010, DEC-050."""
    submitted = await flow.submit(correlation_key="books/3")
    assert submitted["state"] == "running"
    assert (submitted["revision"], submitted["correlation_key"], submitted["terminal_at"]) == (0, "books/3", None)
    assert "parent_workflow_id" not in submitted
    run = await flow.take()
    assert run.task_id == submitted["activation_id"] == run.assignment["workflow_activation_id"]
    assert run.event["ldgworkflowid"] == submitted["workflow_id"]
    assert run.event["ldgactivationid"] == run.task_id
    assert "ldgparentworkflowid" not in run.event
    assert run.event["data"] == {"month": 3}
    status = await flow.task(run.task_id)
    assert (status["workflow_id"], status["workflow_activation_id"]) == (submitted["workflow_id"], run.task_id)
    assert await run.context() == {
        "v": 1,
        "workflow_id": submitted["workflow_id"],
        "activation_id": run.task_id,
        "revision": 0,
        "continuation": "start",
        "state": None,
        "inputs": {},
        "local_steps": [],
    }
    await run.dispatch()
    await run.decide("complete", output=[1, 1.0])
    ended = await flow.until(submitted["workflow_id"])
    assert (ended["state"], ended["revision"], ended["activation_id"]) == ("succeeded", 1, None)
    result = await flow.result(submitted["workflow_id"])
    assert result == {"workflow": ended, "outcome": {"kind": "succeeded", "output": [1, 1.0]}}
    assert await flow.owed() == 0


async def test_checkpoints_carry_state_from_activation_to_activation(flow):
    """ACT-002, ACT-020, WF-051, DEC-003, DEC-012, REQ-B13."""
    submitted = await flow.submit(retry_policy={"max_attempts": 2, "retry_delay_ms": 0}, attempt_timeout_ms=90_000)
    run = await flow.start()
    await run.decide("continue", state={"step": 1.0}, continuation="second")
    second = await flow.start()
    assert second.task_id != run.task_id
    context = await second.context()
    assert (context["revision"], context["continuation"], context["state"]) == (1, "second", {"step": 1.0})
    assert second.event["data"] == {"month": 3}
    assert second.assignment["descriptor"] == run.assignment["descriptor"]
    await second.decide("suspend", state=[2], continuation="third")
    third = await flow.start()
    context = await third.context()
    assert (context["revision"], context["state"], context["inputs"]) == (2, [2], {})
    await third.decide("fail", error={"kind": "books_open", "message": "row 7"})
    ended = await flow.until(submitted["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("failed", 3)
    outcome = await flow.outcome(submitted["workflow_id"])
    assert outcome == {"kind": "failed", "error": {"kind": "books_open", "message": "row 7"}}


async def test_submissions_replay_and_conflict_without_the_program_store(flow, programs, refused):
    """WF-011, WF-013, WF-015, WF-016, WF-022."""
    first = await flow.submit()
    await flow.submit_task()
    programs.failure = ProgramError("unavailable", "down")
    assert await flow.submit(trace={"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}) == first
    assert await refused(flow.submit(queue="other")) == "conflict"
    run = await flow.take()
    await run.decide("complete", output=None)
    ended = await flow.until(first["workflow_id"])
    assert await flow.submit() == ended


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("not_found", "not_found"),
        ("invalid_input", "invalid_input"),
        ("incompatible", "invalid_input"),
        ("integrity", "unavailable"),
        ("io", "unavailable"),
        ("timed_out", "unavailable"),
    ],
)
async def test_a_program_that_cannot_be_resolved_creates_nothing(flow, programs, refused, kind, code):
    """WF-017."""
    programs.failure = ProgramError(kind, "no")
    assert await refused(flow.submit()) == code
    programs.failure = None
    assert (await flow.submit())["revision"] == 0


async def test_concurrent_submissions_create_one_workflow(flow):
    """WF-018, RACE-34: exactly one winner."""
    snapshots = await asyncio.gather(*(flow.submit() for _ in range(8)))
    assert len({snapshot["workflow_id"] for snapshot in snapshots}) == 1
    await flow.take()
    assert await flow.nothing()


async def test_a_competitor_decides_when_resolution_fails(flow, programs, refused):
    """WF-017: the replay rules apply to what was committed meanwhile."""
    inner = programs.resolve

    async def lose_the_race(program):
        programs.resolve = inner
        await flow.submit()
        raise ProgramError("unavailable", "down")

    programs.resolve = lose_the_race
    slow = await flow.submit()
    assert slow == await flow.submit()
    programs.resolve = lose_the_race
    assert await refused(flow.submit("other")) == "unavailable"


async def test_unknown_workflows_and_wrong_scopes(flow, refused):
    """WF-042, WF-063."""
    workflow_id = (await flow.submit())["workflow_id"]
    for call in (flow.status, flow.result, flow.cancel):
        assert await refused(call("wf_unknown")) == "not_found"
    assert await refused(flow.send("wf_unknown", "k")) == "not_found"
    flow.scope = flow.scope | {"namespace": "elsewhere"}
    for call in (flow.status, flow.result, flow.cancel):
        assert await refused(call(workflow_id)) == "not_found"
    await flow.submit("mine")
    assert await refused(flow.status(workflow_id)) == "not_found"


async def test_a_bad_decision_is_accepted_and_fails_the_workflow(flow):
    """DEC-002, DEC-040, WF-019, WF-052: the task succeeds, nothing is retried, the revision stays."""
    submitted = await flow.submit()
    run = await flow.start()
    assert (await run.succeed("done"))["task_state"] == "succeeded"
    ended = await flow.until(submitted["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("failed", 0)
    assert (await flow.outcome(submitted["workflow_id"]))["error"]["kind"] == "decision_invalid"
    assert (await flow.task(run.task_id, "task_result"))["outcome"]["output"] == "done"


async def test_a_failed_application_is_the_failure_of_the_workflow(flow):
    """ACT-041."""
    submitted = await flow.submit()
    run = await flow.start()
    await run.settle({"status": "failure", "kind": "books_open", "message": "row 7"})
    outcome = await flow.outcome(submitted["workflow_id"])
    assert outcome == {"kind": "failed", "error": {"kind": "books_open", "message": "row 7"}}


async def test_retries_of_an_activation_do_not_show(flow):
    """ACT-003, ACT-041, ACT-043, REQ-A21: same task and context, until the attempts are exhausted."""
    submitted = await flow.submit(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
    run = await flow.start()
    context = await run.context()
    await run.settle(error="runtime")
    assert await flow.status(submitted["workflow_id"]) == submitted
    again = await flow.start()
    assert (again.task_id, again.event["ldgattemptno"]) == (run.task_id, 2)
    assert again.event["id"] != run.event["id"]
    assert await again.context() == context
    await again.settle(error="runtime")
    ended = await flow.until(submitted["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("failed", 0)
    assert (await flow.outcome(submitted["workflow_id"]))["error"]["kind"] == "workflow_activation_failed"


async def test_an_activation_cancelled_on_its_own_fails_the_workflow(flow):
    """RACE-38, 4.3."""
    submitted = await flow.submit()
    assert await flow.cancel_task(submitted["activation_id"]) == "cancelled"
    ended = await flow.until(submitted["workflow_id"])
    assert ended["state"] == "failed"
    assert (await flow.outcome(submitted["workflow_id"]))["error"]["kind"] == "workflow_activation_cancelled"


async def test_an_unconfirmed_success_decides_once_it_is_confirmed(flow):
    """ACT-040, LOC-008: no context and no record after the settlement, no decision before the confirmation."""
    submitted = await flow.submit()
    run = await flow.start()
    decision = {"v": 1, "activation_id": run.task_id, "revision": 0, "kind": "complete", "output": 1}
    assert (await run.succeed(decision, quiescence="unconfirmed"))["task_state"] == "active"
    assert (await flow.status(submitted["workflow_id"]))["state"] == "running"
    assert await run.confirm() == "succeeded"
    assert await flow.outcome(submitted["workflow_id"]) == {"kind": "succeeded", "output": 1}
