"""Timers, timeouts and the 24 hour cutoff in virtual time, to the millisecond: the database's clock stands still."""

from __future__ import annotations

import asyncio

import pytest

from protocol3.contract.refusal import Refusal
from protocol3.programs.errors import ProgramError

HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
async def pool(frozen_pool):
    return frozen_pool


async def waiting(flow, **wait):
    """A workflow in this wait, installed at the present instant."""
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    await run.decide("wait", wait=wait)
    await flow.until(workflow_id, "waiting")
    return workflow_id


async def woken(flow):
    """What the next activation was woken by, in the hands of a worker whose session is new."""
    fresh = type(flow)(flow.services, flow.scope["namespace"])
    return (await (await fresh.start()).context())["wake"]


async def test_a_timer_fires_at_its_instant(flow, clock):
    """TMR-006, TMR-013, TMR-020: not a millisecond before, and without anybody's doing."""
    start = (await clock.read())["now"]
    workflow_id = await waiting(flow, kind="timer", key="nap", delay_ms=7 * DAY)
    assert (await clock.read())["next_due"] == start + 7 * DAY
    await clock.advance(7 * DAY - 1)
    assert (await flow.status(workflow_id))["state"] == "waiting"
    await clock.advance()
    assert await woken(flow) == {"kind": "timer", "key": "nap", "deadline": start + 7 * DAY}
    assert (await flow.status(workflow_id))["submitted_at"] == start


async def test_a_timer_wakes_a_waiting_poll(flow, clock):
    """DLV-033: the next activation is claimed by whoever waits for it meanwhile."""
    await waiting(flow, kind="timer", key="nap", delay_ms=HOUR)
    taking = asyncio.create_task(flow.take(wait_ms=20_000))
    assert (await clock.advance())["advanced_ms"] == HOUR
    assert (await taking).event["ldgworkflowid"]


@pytest.mark.parametrize(("early", "code"), [(1, None), (0, "obsolete_operation"), (-1, "obsolete_operation")])
async def test_an_event_at_its_deadline(flow, clock, services, early, code):
    """TMR-011, EVT-016, RACE-12, RACE-13: a millisecond before it is in time, at the deadline it is not."""
    start = (await clock.read())["now"]
    workflow_id = await waiting(flow, kind="event", key="paid", timeout_ms=HOUR)
    await services.pool.execute("update agenda set due = 2^52 where ref = $1", workflow_id)  # the pass comes later
    await clock.advance(HOUR - early)
    deadline = start + HOUR
    if code is None:
        assert (await flow.send(workflow_id, "paid"))["accepted_at"] == deadline - 1
        wake = await woken(flow)
        assert (wake["kind"], wake["accepted_at"]) == ("event", deadline - 1)
        return
    with pytest.raises(Refusal) as caught:
        await flow.send(workflow_id, "paid")
    assert caught.value.code == code
    await services.pool.execute("update agenda set due = $2 where ref = $1", workflow_id, deadline)
    services.agenda.ring(0)
    assert await woken(flow) == {"kind": "timeout", "key": "paid", "deadline": deadline}


async def test_an_event_in_time_beats_a_late_coordinator(flow, clock, services, monkeypatch):
    """RACE-12: accepted before the deadline, evaluated a day after it."""
    workflow_id = await waiting(flow, kind="event", key="paid", timeout_ms=HOUR)
    with monkeypatch.context() as late:
        late.setattr(services.wakes, "_on_obligation", [])
        await flow.send(workflow_id, "paid")
    await services.pool.execute("update agenda set due = 2^52 where ref = $1", workflow_id)
    await clock.advance(DAY)
    assert (await woken(flow))["kind"] == "event"


@pytest.mark.parametrize("timeout_ms", [0, 1])
async def test_an_event_that_waited_for_its_wait(flow, clock, timeout_ms):
    """RACE-15: with a timeout of 0 it counts only if it was accepted before the decision."""
    for accepted_earlier in (False, True):
        workflow_id = (await flow.submit(f"key {accepted_earlier}"))["workflow_id"]
        run = await flow.start()
        await flow.send(workflow_id, "paid")
        await clock.advance(int(accepted_earlier))
        await run.decide("wait", wait={"kind": "event", "key": "paid", "timeout_ms": timeout_ms})
        assert (await woken(flow))["kind"] == ("event" if accepted_earlier or timeout_ms else "timeout")


async def test_a_day_of_failed_applications(flow, clock, staged, programs):
    """RCV-020, RCV-021, RACE-37: a millisecond less than a day is retried, a day old it fails the workflow."""
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    programs.failure = ProgramError("unavailable", "down")
    await run.decide("suspend", commands=[staged("c")], until=["c"])
    await put_back(flow, 1)
    await clock.advance(DAY - 1)
    await put_back(flow, 2)
    assert (await flow.status(workflow_id))["state"] == "running"
    await clock.advance(1)
    outcome = await flow.outcome(workflow_id)
    assert (outcome["kind"], outcome["error"]["kind"]) == ("failed", "workflow_application_timeout")


async def test_an_old_application_that_succeeds(flow, clock, staged, programs):
    """RCV-022, RACE-37: applied like any other."""
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    programs.failure = ProgramError("unavailable", "down")
    await run.decide("suspend", commands=[staged("c")], until=["c"])
    await put_back(flow, 1)
    programs.failure = None
    await clock.advance(3 * DAY)
    assert (await flow.until(workflow_id, "waiting"))["revision"] == 1


async def test_waits_do_not_age(flow, clock):
    """RCV-023, TMR-023: a year in a wait, then the event."""
    workflow_id = await waiting(flow, kind="event", key="paid", timeout_ms=None)
    assert (await clock.read())["next_due"] is None
    await clock.advance(365 * DAY)
    await flow.send(workflow_id, "paid")
    assert (await woken(flow))["kind"] == "event"


async def test_a_lost_activation_is_retried(flow, clock, eventually):
    """WF-055, DLV-110: the same revision and inputs; with retries exhausted the workflow fails."""
    workflow_id = (await flow.submit(retry_policy={"max_attempts": 2, "retry_delay_ms": HOUR}))["workflow_id"]
    first = await flow.start()
    await clock.advance(60_000)
    await eventually(lambda: flow.task(first.task_id), lambda task: task["state"] == "queued")
    await clock.advance(HOUR)
    second = await flow.take()
    assert second.task_id == first.task_id
    await clock.advance(60_000)
    assert (await flow.outcome(workflow_id))["error"]["kind"] == "workflow_activation_failed"


async def test_other_scopes_keep_their_waits(flow, clock, services):
    """A timer of another scope does not fire, its age does not count."""
    other = type(flow)(services, "another")
    workflow_id = await waiting(other, kind="timer", key="nap", delay_ms=HOUR)
    await waiting(flow, kind="timer", key="nap", delay_ms=HOUR)
    await clock.advance(2 * HOUR)
    assert (await woken(flow))["kind"] == "timer"
    assert (await other.status(workflow_id))["state"] == "waiting"
    assert (await type(clock)(services, "another").read())["next_due"] == (await clock.read())["now"] - HOUR


async def put_back(flow, tries):
    """The only obligation of the scope has failed so often, and waits to be tried again."""
    text = "select tries from obligation join scope on scope.id = scope_id where namespace = $1"
    async with asyncio.timeout(20):
        while await flow.services.pool.fetchval(text, flow.scope["namespace"]) != tries:
            await asyncio.sleep(0.002)
