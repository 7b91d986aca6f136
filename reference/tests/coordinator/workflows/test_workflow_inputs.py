"""Children on a running coordinator: registration, results, delivery (chapter 13)."""

import asyncio

import pytest

from protocol3.programs.errors import ProgramError

TRACE = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
ORIGIN = {"traceparent": "00-" + "3" * 32 + "-" + "4" * 16 + "-01"}


async def test_a_suspend_resumes_with_the_results_of_its_members(flow, staged):
    """CHD-020 to CHD-022, CHD-030, CHD-050, ACT-005, ACT-006, CHD-040 to CHD-042."""
    root = await flow.submit(correlation_key="books/3")
    run = await flow.start()
    commands = [staged("rates:4"), staged("audit:4", kind="workflow", queue="audits")]
    await run.decide(
        "suspend", state={"batch": 4}, continuation="settle", commands=commands, until=["audit:4", "rates:4"]
    )
    waiting = await flow.until(root["workflow_id"], "waiting")
    assert (waiting["revision"], waiting["activation_id"]) == (1, None)

    task = await flow.start("rates")
    assert task.event["ldgworkflowid"] == root["workflow_id"]
    assert {"ldgactivationid", "ldgparentworkflowid"}.isdisjoint(task.event)
    assert "workflow_activation_id" not in task.assignment
    assert (await flow.task(task.task_id))["correlation_key"] == "books/3"
    await task.succeed([1, 1.0, -0.0])

    audit = await flow.start("audits")
    assert audit.event["ldgparentworkflowid"] == audit.event["ldgrootworkflowid"] == root["workflow_id"]
    context = await audit.context()
    assert (context["parent_workflow_id"], context["root_workflow_id"]) == (root["workflow_id"], root["workflow_id"])
    assert (context["revision"], context["continuation"], context["state"]) == (0, "start", None)
    child = await flow.status(audit.workflow_id)
    assert (child["parent_workflow_id"], child["correlation_key"]) == (root["workflow_id"], "books/3")
    await audit.decide("continue")
    await (await flow.start("audits")).decide("fail", error={"kind": "mismatch", "message": "row 7"})

    resumed = await flow.start()
    context = await resumed.context()
    assert (context["revision"], context["continuation"], context["state"]) == (1, "settle", {"batch": 4})
    assert list(context["inputs"]) == ["audit:4", "rates:4"]
    assert context["inputs"] == {
        "audit:4": {
            "kind": "workflow",
            "workflow_id": audit.workflow_id,
            "state": "failed",
            "outcome": {"kind": "failed", "error": {"kind": "mismatch", "message": "row 7"}},
        },
        "rates:4": {
            "task_id": task.task_id,
            "state": "succeeded",
            "outcome": {
                "kind": "succeeded",
                "attempt_id": task.owner["attempt_id"],
                "quiescence": "confirmed",
                "execution_may_have_started": True,
                "output": [1, 1.0, -0.0],
            },
        },
    }
    ends = [(await flow.status(audit.workflow_id))["terminal_at"], (await flow.task(task.task_id))["terminal_at"]]
    assert (await flow.task(resumed.task_id))["submitted_at"] >= max(ends)


async def test_outcomes_that_look_like_decisions_are_data(flow, staged):
    """DEC-001."""
    root = await flow.submit()
    await (await flow.start()).decide("suspend", commands=[staged("a")], until=["a"])
    decision = {"v": 1, "activation_id": "x", "revision": 0, "kind": "complete", "output": 1}
    await (await flow.start("rates")).succeed(decision)
    resumed = await flow.start()
    assert (await resumed.context())["inputs"]["a"]["outcome"]["output"] == decision
    assert (await flow.status(root["workflow_id"]))["state"] == "running"


async def test_a_child_that_ended_before_its_suspend_is_not_missed(flow, staged):
    """RACE-01, RACE-03, CHD-033, CHD-034: retained while the parent runs, delivered when it is named."""
    root = await flow.submit()
    await (await flow.start()).decide("continue", commands=[staged("a")])
    second = await flow.start()
    before = await second.context()
    await (await flow.start("rates")).succeed(7)
    await flow.settled()
    assert await second.context() == before
    assert await flow.status(root["workflow_id"]) == {
        **(await flow.status(root["workflow_id"])),
        "state": "running",
        "revision": 1,
        "activation_id": second.task_id,
    }
    await second.decide("suspend", until=["a"])
    third = await flow.start()
    assert (await third.context())["inputs"]["a"]["outcome"]["output"] == 7


async def test_the_last_two_members_end_at_once(flow, staged):
    """RACE-02, CHD-057: one activation with both results."""
    await flow.submit()
    await (await flow.start()).decide("suspend", commands=[staged("a"), staged("b")], until=["a", "b"])
    first, second = await flow.start("rates"), await flow.start("rates")
    await asyncio.gather(first.succeed(1), second.succeed(1))
    resumed = await flow.start()
    assert set((await resumed.context())["inputs"]) == {"a", "b"}
    await flow.settled()
    assert await flow.nothing()


async def test_continue_delivers_each_child_once_and_suspend_again(flow, staged):
    """CHD-051 to CHD-055, RACE-04, REQ-C21: in order of their ends, to every attempt alike."""
    await flow.submit()
    await (await flow.start()).decide("continue", commands=[staged("a"), staged("b"), staged("c")])
    running = await flow.start()
    tasks = {run.task_id: run for run in [await flow.start("rates") for _ in range(3)]}
    first, second, third = tasks.values()
    await second.succeed("one")
    await first.succeed("two")
    await flow.settled()
    await running.decide("continue")

    delivered = await flow.start()
    inputs = (await delivered.context())["inputs"]
    assert [result["outcome"]["output"] for result in inputs.values()] == ["one", "two"]
    await third.succeed("three")
    await flow.settled()
    await delivered.settle(error="runtime")
    retried = await flow.start()
    assert (await retried.context())["inputs"] == inputs
    await retried.decide("continue")

    rest = await flow.start()
    assert [result["outcome"]["output"] for result in (await rest.context())["inputs"].values()] == ["three"]
    await rest.decide("continue")
    none = await flow.start()
    assert (await none.context())["inputs"] == {}
    await none.decide("suspend", until=list(inputs))
    assert (await (await flow.start()).context())["inputs"] == inputs


async def test_continue_takes_64_at_most(flow, staged):
    """CHD-052, LIM-020: the oldest ends first, the rest stays for the next one."""
    await flow.submit()
    await (await flow.start()).decide("continue", commands=[staged(f"a{n:02}") for n in range(64)])
    await (await flow.start()).decide("continue", commands=[staged("b")])
    running = await flow.start()
    for n in range(65):
        await (await flow.start("rates")).succeed(n)
    await running.decide("continue")
    delivered = await flow.start()
    outputs = [result["outcome"]["output"] for result in (await delivered.context())["inputs"].values()]
    assert sorted(outputs) == list(range(64))
    await delivered.decide("continue")
    rest = (await (await flow.start()).context())["inputs"]
    assert [result["outcome"]["output"] for result in rest.values()] == [64]


async def test_cancelled_and_failed_children_are_results(flow, staged):
    """CHD-035, CHD-036, FRK-020: neither the parent nor the sibling is touched."""
    root = await flow.submit()
    once = {"max_attempts": 1, "retry_delay_ms": 0}
    commands = [staged("a"), staged("b", kind="workflow", queue="b"), staged("c", queue="c", retry_policy=once)]
    await (await flow.start()).decide("suspend", commands=commands, until=["a", "b", "c"])
    task, child, lost = await flow.start("rates"), await flow.start("b"), await flow.start("c")
    assert await flow.cancel_task(task.task_id) == "active"
    await task.succeed("too late")
    assert (await flow.cancel(child.workflow_id))["state"] == "cancelling"
    await child.settle(error="runtime")
    await lost.settle(error="runtime")
    assert (await flow.until(root["workflow_id"], "running"))["revision"] == 1
    inputs = (await (await flow.start()).context())["inputs"]
    assert {key: inputs[key]["state"] for key in inputs} == {"a": "cancelled", "b": "cancelled", "c": "failed"}


async def test_registered_keys_are_reused_without_the_program_store(flow, programs, staged):
    """CHD-011, CHD-014, DEC-021, DEC-022: one resolution per program and decision, none for known keys."""
    await flow.submit()
    asked = programs.asked
    await (await flow.start()).decide("continue", commands=[staged("a"), staged("b"), staged("c", kind="workflow")])
    run = await flow.start()
    assert programs.asked == asked + 1
    programs.failure = ProgramError("unavailable", "down")
    await run.decide("continue", commands=[staged("b"), staged("a")])
    assert (await (await flow.start()).context())["revision"] == 2
    assert programs.asked == asked + 1


@pytest.mark.parametrize("kind", ["not_found", "invalid_input", "incompatible"])
async def test_a_child_program_that_does_not_exist_rejects_the_decision(flow, programs, staged, kind):
    """DEC step 5, DEC-041, DEC-045."""
    root = await flow.submit()
    run = await flow.start()
    programs.failure = ProgramError(kind, "no")
    await run.decide("continue", commands=[staged("a")])
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "decision_invalid"
    assert (await flow.status(root["workflow_id"]))["revision"] == 0
    assert await flow.nothing("rates")


async def test_a_program_store_that_is_down_delays_the_decision(flow, programs, staged, eventually):
    """DEC step 5, RCV-008: the workflow stays as it was and goes on when the store is back."""
    root = await flow.submit()
    run = await flow.start()
    programs.failure = ProgramError("timed_out", "slow")
    asked = programs.asked
    await run.decide("continue", commands=[staged("a")])
    await eventually(lambda: flow.status(root["workflow_id"]), lambda _: programs.asked > asked)
    assert (await flow.status(root["workflow_id"]))["state"] == "running"
    programs.failure = None
    assert (await (await flow.start()).context())["revision"] == 1


async def test_a_cancel_during_resolution_wins(flow, programs, staged):
    """RCV-007, RACE-06: resolution holds no lock, and its decision is discarded."""
    root = await flow.submit()
    run = await flow.start()
    asked, release, inner = asyncio.Event(), asyncio.Event(), programs.resolve

    async def held(program):
        asked.set()
        await release.wait()
        return await inner(program)

    programs.resolve = held
    await run.decide("suspend", commands=[staged("a")], until=["a"])
    await asked.wait()
    assert (await flow.cancel(root["workflow_id"]))["state"] == "cancelling"
    release.set()
    ended = await flow.until(root["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("cancelled", 0)
    assert await flow.nothing("rates")


async def test_traces_of_children_and_later_activations(flow, staged):
    """CHD-003, TRC-017: the settlement's trace if it had one, else the parent's origin; the parent keeps its own."""
    await flow.submit(trace=ORIGIN)
    run = await flow.start()
    await run.decide("continue", commands=[staged("a")], trace=TRACE)
    assert (await flow.start("rates")).event["traceparent"] == TRACE["traceparent"]
    again = await flow.start()
    assert again.event["traceparent"] == ORIGIN["traceparent"]
    await again.decide("continue", commands=[staged("b", kind="workflow")])
    assert (await flow.start("rates")).event["traceparent"] == ORIGIN["traceparent"]


async def test_oversized_results_fail_the_waiting_parent(flow, staged):
    """CHD-056, T8: nothing is trimmed; two results that fit alone do not fit together."""
    root = await flow.submit()
    await (await flow.start()).decide("suspend", commands=[staged("a"), staged("b")], until=["a", "b"])
    for _ in range(2):
        await (await flow.start("rates")).succeed("x" * 140_000)
    ended = await flow.until(root["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("failed", 1)
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "decision_application_failed"


async def test_a_result_that_alone_is_too_large(flow, staged):
    """CHD-056: it is not even loaded; named alone or with another."""
    root = await flow.submit()
    await (await flow.start()).decide("suspend", commands=[staged("a")], until=["a"])
    await (await flow.start("rates")).succeed("x" * 600_000)
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "decision_application_failed"


async def test_a_cancelled_child_is_small_whatever_it_reported(flow, staged):
    """CHD-040, CHD-056, TASK-206: a report that cancellation overruled is no part of the result."""
    await flow.submit()
    await (await flow.start()).decide("suspend", commands=[staged("a")], until=["a"])
    task = await flow.start("rates")
    await task.succeed("x" * 600_000, quiescence="unconfirmed")
    await flow.cancel_task(task.task_id)
    assert await task.confirm() == "cancelled"
    inputs = (await (await flow.start()).context())["inputs"]
    assert inputs == {"a": {"task_id": task.task_id, "state": "cancelled", "outcome": {"kind": "cancelled"}}}


async def test_seventeen_levels_and_no_more(flow, staged):
    """CHD-025, LIM-020: depth 16 is reached, and may own tasks but no workflow."""
    await flow.submit(queue="rates")
    for _ in range(16):
        run = await flow.start("rates")
        await run.decide("suspend", commands=[staged("a", kind="workflow")], until=["a"])
    deepest = await flow.start("rates")
    assert deepest.workflow_id != run.workflow_id
    await deepest.decide("continue", commands=[staged("t", queue="tasks")])
    await (await flow.start("tasks")).succeed(1)
    again = await flow.start("rates")
    await again.decide("continue", commands=[staged("b", kind="workflow")])
    assert (await flow.outcome(deepest.workflow_id))["error"]["kind"] == "decision_application_failed"
