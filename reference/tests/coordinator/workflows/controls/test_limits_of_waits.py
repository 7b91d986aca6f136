"""Durations of waits at their least and greatest value, a millisecond before their end, at it and after it."""

import pytest

from protocol3.contract.refusal import Refusal
from protocol3_spec import limits

LONGEST = limits()["MAX_WAIT_DURATION_MS"].value
AROUND = pytest.mark.parametrize("late", [-1, 0, 1])


@pytest.fixture
async def pool(frozen_pool):
    return frozen_pool


async def installed(flow, **wait):
    """A workflow whose activation has decided to wait."""
    workflow_id = (await flow.submit())["workflow_id"]
    await (await flow.start()).decide("wait", wait=wait)
    await flow.settled()
    return workflow_id


async def wake(flow):
    """What the next activation was woken by, in the hands of a worker whose session is new."""
    return (await (await type(flow)(flow.services, flow.scope["namespace"]).start()).context())["wake"]


@AROUND
@pytest.mark.parametrize("delay", [0, 1, LONGEST])
async def test_a_timer(flow, clock, delay, late):
    """TMR-001, TMR-002, TMR-012, TMR-013, TMR-020: never before its deadline."""
    deadline = (await clock.read())["now"] + delay
    workflow_id = await installed(flow, kind="timer", key="nap", delay_ms=delay)
    if delay + late > 0:
        await clock.advance(delay + late)
    if delay and late < 0:
        assert (await flow.status(workflow_id))["state"] == "waiting"
        await clock.advance(1)
    assert await wake(flow) == {"kind": "timer", "key": "nap", "deadline": deadline}
    assert (await flow.status(workflow_id))["revision"] == 1


@AROUND
@pytest.mark.parametrize("duration", [0, 1, LONGEST])
async def test_an_event_around_its_deadline(flow, clock, services, duration, late):
    """TMR-002, TMR-010, TMR-011, TMR-012, EVT-011 step 5: in time strictly before it, whoever looks when."""
    deadline = (await clock.read())["now"] + duration
    workflow_id = await installed(flow, kind="event", key="paid", timeout_ms=duration)
    await services.pool.execute("update agenda set due = 2^52 where ref = $1", workflow_id)  # the pass comes later
    if duration + late > 0:
        await clock.advance(duration + late)
    if duration and late < 0:
        assert (await flow.send(workflow_id, "paid"))["accepted_at"] == deadline - 1
        assert (await wake(flow))["kind"] == "event"
        return
    with pytest.raises(Refusal, match="obsolete_operation"):
        await flow.send(workflow_id, "paid")
    await services.pool.execute("update agenda set due = $2 where ref = $1", workflow_id, deadline)
    services.agenda.ring(0)
    assert await wake(flow) == {"kind": "timeout", "key": "paid", "deadline": deadline}
