"""Races in both orders, forced: a command against a background step, or against a command (chapter 18)."""

from __future__ import annotations

import asyncio

import pytest

from protocol3.contract.refusal import Refusal
from protocol3.coordinator.assembly import assemble, running
from protocol3.coordinator.controls.parts import ControlledParts

EVENTS = "/v1/workflows/events"
HOUR = 3_600_000


async def waiting(flow, **wait):
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    await run.decide("wait", wait={"kind": "event", "key": "paid", "timeout_ms": None} | wait)
    await flow.until(workflow_id, "waiting")
    return workflow_id


async def suspended(flow, staged, *keys):
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    await run.decide("suspend", commands=[staged(key) for key in keys], until=list(keys))
    await flow.until(workflow_id, "waiting")
    return workflow_id


async def code_of(call):
    try:
        await call
    except Refusal as refusal:
        return refusal.code
    return None


async def test_two_last_members_end_together(flow, staged, faults):
    """RACE-02: exactly one new activation, with both results."""
    workflow_id = await suspended(flow, staged, "a", "b")
    faults.add("completion.deliver")
    for _ in range(2):
        await (await flow.take("rates")).succeed("done")
    await faults.until_held()
    faults.release()
    run = await flow.start()
    assert sorted((await run.context())["inputs"]) == ["a", "b"]
    await flow.settled()
    assert await flow.nothing()
    assert (await flow.status(workflow_id))["state"] == "running"


async def test_a_decision_that_another_process_applied(flow, staged, faults, pool, programs):
    """RACE-05, RCV-004: the holder was too slow; what it does then changes nothing."""
    faults.add("decision.apply")
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    await run.decide("suspend", commands=[staged("c")], until=["c"])
    await faults.until_held()

    class Ignored:
        def succeeded(self, now: float) -> None: ...

        def unavailable(self) -> None: ...

    parts = ControlledParts()
    async with running(assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored(), parts=parts)):
        async with asyncio.timeout(20):
            while (await flow.status(workflow_id))["state"] != "waiting":
                await pool.execute("update obligation set ready_real = 0")  # the holder may look first, and again
                await asyncio.sleep(0.05)
    faults.release()
    await flow.take("rates")
    assert await flow.nothing("rates")
    assert (await flow.status(workflow_id))["revision"] == 1


@pytest.mark.parametrize("where", ["received", "committed"])
@pytest.mark.parametrize("kind", ["suspend", "fail"])
async def test_cancel_against_a_decision(flow, staged, faults, where, kind):
    """RACE-06, RACE-08, RACE-10, RACE-11: whoever commits first; the workflow ends cancelled in any order."""
    faults.add("decision.apply", where=where)
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    if kind == "suspend":
        await run.decide("suspend", commands=[staged("c")], until=["c"])
    else:
        await run.decide("fail", error={"kind": "no", "message": "no"})
    await faults.until_held()
    applied = where == "committed"
    assert (await flow.status(workflow_id))["revision"] == int(applied)
    assert (await flow.cancel(workflow_id))["state"] == "cancelling"
    faults.release()
    status = await flow.until(workflow_id)
    assert (status["state"], status["revision"]) == ("cancelled", int(applied))
    children = "select count(*) from child where workflow_id = $1"
    assert await flow.services.pool.fetchval(children, workflow_id) == int(applied and kind == "suspend")
    assert await flow.nothing("rates")


async def test_a_sender_that_waits_past_the_deadline(flow, clock, faults):
    """RACE-14, EVT-016: what counts is the time after the workflow was got hold of, for the holder as well."""
    workflow_id = await waiting(flow, timeout_ms=HOUR)
    faults.add(EVENTS, where="locked")
    holder = asyncio.create_task(code_of(flow.send(workflow_id, "paid")))
    await faults.until_held()
    faults.add(EVENTS, {"kind": "delay", "ms": 0})
    sender = asyncio.create_task(code_of(flow.send(workflow_id, "paid")))
    await faults.until_hits(1, 1)
    await clock.advance(HOUR)
    assert not sender.done()
    faults.release()
    assert await asyncio.gather(holder, sender) == ["obsolete_operation"] * 2
    assert (await (await flow.start()).context())["wake"]["kind"] == "timeout"


@pytest.mark.parametrize(("second", "answer"), [({}, "same"), ({"id": "other"}, "conflict")])
async def test_two_events_for_one_key(flow, faults, second, answer):
    """RACE-18, RACE-19: the second waits for the first; the same one is its repetition, another one a conflict."""
    workflow_id = await waiting(flow)
    faults.add(EVENTS, where="locked")
    first = asyncio.create_task(flow.send(workflow_id, "paid"))
    await faults.until_held()
    faults.add(EVENTS, {"kind": "delay", "ms": 0})
    sending = asyncio.create_task(flow.send(workflow_id, "paid", **second))
    await faults.until_hits(1, 1)
    assert not sending.done()
    faults.release()
    accepted = await first
    assert accepted["already_accepted"] is False
    if answer == "same":
        assert await sending == accepted | {"already_accepted": True}
    else:
        assert await code_of(sending) == "conflict"
    for _ in range(2):  # before and after it was consumed
        assert await code_of(flow.send(workflow_id, "paid", id="third")) == "conflict"
        await flow.until(workflow_id, "running")


async def test_cancel_while_a_wake_is_pending(flow, faults):
    """RACE-20: no activation; the receipt is still there, new events are too late."""
    workflow_id = await waiting(flow)
    faults.add("wait.fire")
    receipt = await flow.send(workflow_id, "paid")
    await faults.until_held()
    await flow.cancel(workflow_id)
    faults.release()
    assert (await flow.until(workflow_id))["state"] == "cancelled"
    assert await flow.nothing()
    assert await flow.send(workflow_id, "paid") == receipt | {"already_accepted": True}
    assert await code_of(flow.send(workflow_id, "more")) == "obsolete_operation"


async def test_cancel_after_the_wake(flow, faults):
    """RACE-20 the other way: the activation exists and is drained."""
    workflow_id = await waiting(flow)
    faults.add("wait.fire", where="committed")
    await flow.send(workflow_id, "paid")
    await faults.until_held()
    activation = (await flow.status(workflow_id))["activation_id"]
    await flow.cancel(workflow_id)
    faults.release()
    assert (await flow.until(workflow_id))["state"] == "cancelled"
    assert (await flow.task(activation))["state"] == "cancelled"


async def test_a_live_limit_before_the_owner_is_told(flow, faults):
    """RACE-29: a branch that ended is not live, even if its owner has not heard of it."""
    await flow.submit()
    run = await flow.start()
    await run.fork(*(f"b{n}" for n in range(63)))
    await run.decide("continue")
    run = await flow.start()
    await run.fork("b63", key="e")
    assert await code_of(run.fork("c0", key="g")) == "invalid_input"
    faults.add("completion.deliver")
    branch = await flow.start("branches")
    await branch.decide("complete", output=1)
    await faults.until_held()
    assert await code_of(run.fork("c0", "c1", key="g")) == "invalid_input"
    assert (await run.fork("c0", key="g"))["already_accepted"] is False
    faults.release()


async def test_a_resumption_that_fails_in_the_middle(flow, faults):
    """RACE-33: still waiting, the event still pending; a later try resumes once."""
    workflow_id = await waiting(flow)
    faults.add("wait.fire", "fail", where="locked")
    faults.add("wait.fire", "hold", skip=1)
    receipt = await flow.send(workflow_id, "paid")
    await faults.until_held()
    assert faults.hits == [1, 1]
    assert (await flow.status(workflow_id))["state"] == "waiting"
    assert await flow.send(workflow_id, "paid") == receipt | {"already_accepted": True}
    pending = await flow.services.pool.fetchval("select inbox_count from workflow where id = $1", workflow_id)
    assert pending == 1
    faults.release()
    assert (await (await flow.start()).context())["wake"]["kind"] == "event"
    await flow.settled()
    assert await flow.nothing()


async def test_an_advance_does_not_wait_for_what_is_held(flow, clock, faults):
    """At `locked` a transition holds its records, and not the clock: it goes on by the new time."""
    workflow_id = await waiting(flow)
    faults.add(EVENTS, where="locked")
    before = await clock.read()
    sending = asyncio.create_task(flow.send(workflow_id, "paid"))
    await faults.until_held()
    after = await clock.advance(HOUR)
    faults.release()
    assert (await sending)["accepted_at"] >= after["now"] >= before["now"] + HOUR


async def test_an_advance_with_hold_meets_what_is_held(flow, clock, faults):
    """Both want each other's locks: one of them starts again, and both succeed."""
    await flow.submit_task(queue="rates")
    run = await flow.take("rates")
    faults.add("/v1/renewals", where="locked")
    renewing = asyncio.create_task(run.dispatch())
    await faults.until_held()
    advancing = asyncio.create_task(clock.advance(HOUR, leases="hold"))
    text = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(20):
        while not await flow.services.pool.fetchval(text):
            await asyncio.sleep(0.002)
    faults.release()
    assert (await advancing)["live_attempts"] == 1
    assert (await renewing)["remaining_ms"] > 0
    assert (await run.dispatch(2))["remaining_ms"] > 50_000


@pytest.mark.parametrize("where", ["locked", "written"])
async def test_a_held_report_that_is_retried_holds_no_workflow(flow, faults, where):
    """TST-026: it changes the task alone, and a cancellation only the workflow."""
    policy = {"max_attempts": 2, "retry_delay_ms": 0}
    workflow_id = (await flow.submit(retry_policy=policy))["workflow_id"]
    run = await flow.start()
    faults.add("/v1/settlements", where=where)
    settling = asyncio.create_task(run.settle(error="io"))
    await faults.until_held()
    assert (await flow.cancel(workflow_id))["state"] == "cancelling"
    faults.release()
    assert (await settling)["task_state"] == "queued"
    await flow.until(workflow_id, "cancelled")
