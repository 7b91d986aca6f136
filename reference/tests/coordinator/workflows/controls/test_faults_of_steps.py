"""Rules that strike background steps: every step, at every place, and who does not notice."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from protocol3.contract.limits import APPLICATION_RETRY_MS
from protocol3.contract.refusal import Refusal
from protocol3.core.obligations import FIRST_RETRY_MS
from protocol3.programs.errors import ProgramError


class Situations:
    """For each step a workflow in which that step is what comes next, and what can be seen once it is done."""

    def __init__(self, flow, clock, staged):
        self.flow, self.clock, self.staged = flow, clock, staged

    async def decision(self):
        """An activation has decided to wait for a child."""
        workflow_id = (await self.flow.submit())["workflow_id"]
        run = await self.flow.start()
        await run.decide("suspend", commands=[self.staged("c")], until=["c"])
        return workflow_id, partial(self._is, workflow_id, "waiting")

    async def completion(self):
        """The awaited child has ended."""
        workflow_id, waits = await self.decision()
        await reached(waits)
        child = await self.flow.take("rates")
        await child.succeed(1)
        return workflow_id, partial(self._is, workflow_id, "running")

    async def event(self):
        """An awaited event was accepted."""
        workflow_id = await self._waiting(kind="event", key="paid", timeout_ms=None)
        await self.flow.send(workflow_id, "paid")
        return workflow_id, partial(self._is, workflow_id, "running")

    async def timer(self):
        """The deadline of a timer has come."""
        workflow_id = await self._waiting(kind="timer", key="nap", delay_ms=1_000)
        await self.clock.advance(1_000)
        return workflow_id, partial(self._is, workflow_id, "running")

    async def drain(self):
        """The workflow was cancelled."""
        workflow_id = (await self.flow.submit())["workflow_id"]
        await self.flow.cancel(workflow_id)
        return workflow_id, partial(self._is, workflow_id, "cancelled")

    async def expiry(self):
        """The lease of a task has run out."""
        task_id = (await self.flow.submit_task(queue="rates", retry_policy=ONCE))["task_id"]
        await self.flow.take("rates")
        await self.clock.advance(60_000)
        return task_id, partial(self._task_is, task_id, "failed")

    async def _waiting(self, **wait):
        workflow_id = (await self.flow.submit())["workflow_id"]
        run = await self.flow.start()
        await run.decide("wait", wait=wait)
        await self.flow.until(workflow_id, "waiting")
        return workflow_id

    async def _is(self, workflow_id, state):
        return (await self.flow.status(workflow_id))["state"] == state

    async def _task_is(self, task_id, state):
        return (await self.flow.task(task_id))["state"] == state


ONCE = {"max_attempts": 1, "retry_delay_ms": 0}
STEPS = [
    ("decision.apply", "decision"),
    ("completion.deliver", "completion"),
    ("wait.fire", "event"),
    ("wait.fire", "timer"),
    ("drain.pass", "drain"),
    ("attempt.expire", "expiry"),
]


async def reached(done):
    async with asyncio.timeout(20):
        while not await done():
            await asyncio.sleep(0.002)


@pytest.fixture
def situations(flow, clock, staged):
    return Situations(flow, clock, staged)


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
@pytest.mark.parametrize(("step", "situation"), STEPS)
async def test_a_step_is_held(situations, faults, step, situation, where):
    """Nothing of it is done before the commit, everything after it; released it goes on."""
    faults.add(step, where=where)
    subject, done = await getattr(situations, situation)()
    (held,) = await faults.until_held()
    assert (held["match"], held["where"], held["subject"]) == ({"step": step}, where, subject)
    if step != "drain.pass":  # a drain commits an item at a time
        assert await done() == (where == "committed")
    faults.release()
    await reached(done)
    assert faults.hits == [1]


@pytest.mark.parametrize("where", ["received", "locked", "written"])
@pytest.mark.parametrize(("step", "situation"), STEPS)
async def test_a_step_fails_and_is_tried_again(situations, clock, faults, step, situation, where):
    """RCV-008, RACE-33: as often as the rule says; an advance of the clock does not wait for the retry delay."""
    faults.add(step, "fail", where=where, times=3)
    _, done = await getattr(situations, situation)()
    async with asyncio.timeout(20):
        while not await done():
            await clock.advance(0)
            await asyncio.sleep(0.002)
    assert faults.hits == [3]


async def test_program_resolution(flow, faults, staged, clock):
    """RCV-007: a cancel that commits while the programs of a decision are resolved wins."""
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    faults.add("program.resolve")
    await run.decide("suspend", commands=[staged("c")], until=["c"])
    await faults.until_held()
    await flow.cancel(workflow_id)
    faults.release()
    assert (await flow.until(workflow_id))["state"] == "cancelled"
    assert (await flow.status(workflow_id))["revision"] == 0
    assert await flow.nothing("rates")


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
async def test_giving_up(flow, faults, staged, clock, programs, where):
    """RCV-020: a program store is away for a day. It is looked at after every failure, and changes something once."""
    workflow_id = (await flow.submit())["workflow_id"]
    run = await flow.start()
    programs.failure = ProgramError("unavailable", "away")
    faults.add("completion.expire", where=where)
    await run.decide("suspend", commands=[staged("c")], until=["c"])
    if where in ("locked", "written"):
        await clock.advance(APPLICATION_RETRY_MS)
    (held,) = await faults.until_held()
    assert (held["match"], held["where"], held["subject"]) == ({"step": "completion.expire"}, where, workflow_id)
    assert (await flow.status(workflow_id))["state"] == "running"
    faults.release()
    await clock.advance(APPLICATION_RETRY_MS)
    assert (await flow.outcome(workflow_id))["error"]["kind"] == "workflow_application_timeout"


async def test_guards_are_held_at_locked(situations, flow, faults):
    """Nobody else changes the workflow meanwhile, and what was read before is read anew."""
    faults.add("wait.fire", where="locked")
    workflow_id, done = await situations.event()
    await faults.until_held()
    text = "select 1 from workflow where id = $1 for update skip locked"
    assert await flow.services.pool.fetchval(text, workflow_id) is None
    faults.release()
    await reached(done)


async def test_an_obligation_is_held_for_long(situations, flow, faults, monkeypatch):
    """RCV-004: the process that holds it keeps it, however often others look."""
    faults.add("wait.fire")
    _, done = await situations.event()
    await faults.until_held()
    obligations = flow.services.obligations
    passes = []
    monkeypatch.setattr(obligations._passes, "succeeded", passes.append)
    for _ in range(3):
        obligations.ring()
        count = len(passes)
        await reached(lambda count=count: settled(len(passes) > count))
    assert len(faults.held) == 1
    faults.release()
    await reached(done)


async def settled(value):
    return value


async def test_other_scopes_go_on(flow, clock, faults, services, staged):
    """More is held than the loops do side by side; timers, leases and decisions of another scope do not wait."""
    for step in ("decision.apply", "wait.fire", "attempt.expire"):
        faults.add(step, times=None)
    for n in range(20):
        await flow.submit(f"d{n}")
        await (await flow.start()).decide("complete", output=n)
    for n in range(10):
        await flow.submit_task(f"t{n}", queue="rates")
        await flow.take("rates")
    await clock.advance(60_000)
    await faults.until_held(30)
    for situation in ("decision", "timer", "expiry"):
        situations = Situations(type(flow)(services, situation), type(clock)(services, situation), staged)
        _, done = await getattr(situations, situation)()
        await reached(done)
    assert len(faults.held) == 30
    assert faults.clear() == {"cleared": 3, "released": 30}
    await reached(lambda: none_active(services))


async def none_active(services):
    return not await services.pool.fetchval("select exists (select from obligation)")


async def test_backoff_without_an_advance(situations, faults, services):
    """RCV-030: the retry waits in real time."""
    faults.add("wait.fire", "fail")
    await situations.event()
    await faults.until_hits(1)
    pool = services.pool
    async with asyncio.timeout(20):
        while not (row := await pool.fetchrow("select tries, ready_real from obligation where tries > 0")):
            await asyncio.sleep(0.002)
    assert row["tries"] == 1
    assert FIRST_RETRY_MS == 500


async def test_lost_authority_of_a_held_settlement(flow, clock, faults):
    """An activation whose decision is held cannot be settled otherwise (DLV-076)."""
    await flow.submit()
    run = await flow.start()
    faults.add("decision.apply")
    await run.decide("complete", output=1)
    await faults.until_held()
    with pytest.raises(Refusal):
        await run.succeed({"other": True})
    faults.release()
