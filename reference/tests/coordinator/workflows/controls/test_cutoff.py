"""The 24 hour cutoff, to the millisecond: the database's clock stands still, each advance brings one more try."""

from __future__ import annotations

import asyncio

import pytest

DAY = 86_400_000


@pytest.fixture
async def pool(frozen_pool):
    return frozen_pool


class Decision:
    """A decision that is not applied."""

    step, before, after = "decision.apply", "running", "succeeded"

    async def owe(self, flow, staged):
        workflow_id = (await flow.submit())["workflow_id"]
        await (await flow.start()).decide("complete", output=None)
        return workflow_id


class ChildTask:
    """The end of an owned task that is not told to its owner."""

    step, before, after = "completion.deliver", "waiting", "running"

    async def owe(self, flow, staged):
        workflow_id = (await flow.submit())["workflow_id"]
        commands = [staged("a", **self.members())]
        await (await flow.start()).decide("suspend", commands=commands, until=["a"])
        await flow.until(workflow_id, "waiting")
        await self.end(flow, await flow.start("rates"))
        return workflow_id

    def members(self):
        return {}

    async def end(self, flow, run):
        await run.succeed(1)


class ChildCancelled(ChildTask):
    """The same when the task was cancelled."""

    async def end(self, flow, run):
        await flow.cancel_task(run.task_id)
        await run.succeed(1)


class ChildWorkflow(ChildTask):
    """The same with an owned workflow."""

    def members(self):
        return {"kind": "workflow"}

    async def end(self, flow, run):
        await run.decide("complete", output=1)


KINDS = [Decision(), ChildTask(), ChildCancelled(), ChildWorkflow()]
COMPLETIONS = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind).__name__)


async def tried(flow, tries):
    """The obligation that fails has been tried so often, and waits to be tried again."""
    text = "select max(tries) from obligation join scope on scope.id = scope_id where namespace = $1"
    async with asyncio.timeout(20):
        while await flow.services.pool.fetchval(text, flow.scope["namespace"]) != tries:
            await asyncio.sleep(0.002)


async def given_up(flow, workflow_id):
    outcome = await flow.outcome(workflow_id)
    return outcome["kind"] == "failed" and outcome["error"]["kind"] == "workflow_application_timeout"


@COMPLETIONS
@pytest.mark.parametrize("early", [1, 0, -1])
async def test_a_failure_at_a_day(flow, clock, faults, staged, kind, early):
    """RCV-020: younger than a day it is tried again and applied in the end, from then on it fails the workflow."""
    faults.add(kind.step, "fail", times=2)
    workflow_id = await kind.owe(flow, staged)
    await tried(flow, 1)
    await clock.advance(DAY - early)
    if early <= 0:
        assert await given_up(flow, workflow_id)
        return
    await tried(flow, 2)
    assert (await flow.status(workflow_id))["state"] == kind.before
    await clock.advance(1)
    await flow.until(workflow_id, kind.after)


@COMPLETIONS
@pytest.mark.parametrize("early", [1, 0])
async def test_a_day_in_which_nobody_ran(flow, clock, faults, staged, services, monkeypatch, eventually, kind, early):
    """RCV-021: the first try of all comes after so long, and counts as late as any other."""
    faults.add(kind.step, "fail", times=1)
    take, owed = services.obligations.take, "decision" if kind.step == "decision.apply" else "child"
    monkeypatch.setattr(services.wakes, "_on_obligation", [lambda obl: obl.kind == owed or take(obl)])
    workflow_id = await kind.owe(flow, staged)
    await eventually(lambda: flow.owed(owed), bool)
    await clock.advance(DAY - early)
    if early == 0:
        assert await given_up(flow, workflow_id)
        return
    await tried(flow, 1)
    assert (await flow.status(workflow_id))["state"] == kind.before


@COMPLETIONS
@pytest.mark.parametrize("late", [0, 1, 7 * DAY])
async def test_a_success_after_a_day(flow, clock, faults, staged, kind, late):
    """RCV-022: only a failure triggers it."""
    faults.add(kind.step, "fail", times=1)
    workflow_id = await kind.owe(flow, staged)
    await tried(flow, 1)
    await clock.advance(DAY + late)
    await flow.until(workflow_id, kind.after)


@pytest.mark.parametrize("late", [0, 1, 7 * DAY])
async def test_waits_are_exempt(flow, clock, faults, late):
    """RCV-023, TMR-023: an event that cannot be delivered for days is delivered in the end."""
    workflow_id = (await flow.submit())["workflow_id"]
    await (await flow.start()).decide("wait", wait={"kind": "event", "key": "k", "timeout_ms": None})
    await flow.until(workflow_id, "waiting")
    faults.add("wait.fire", "fail", times=2)
    await flow.send(workflow_id, "k")
    await tried(flow, 1)
    await clock.advance(DAY + late)
    await tried(flow, 2)
    assert (await flow.status(workflow_id))["state"] == "waiting"
    await clock.advance(1)
    await flow.until(workflow_id, "running")


@pytest.mark.parametrize("late", [0, 1, 7 * DAY])
async def test_drains_are_exempt(flow, clock, faults, late):
    """RCV-023, DRN-010: a drain that cannot pass for days ends in the end, as what it began as."""
    workflow_id = (await flow.submit())["workflow_id"]
    faults.add("drain.pass", "fail", times=2)
    await flow.cancel(workflow_id)
    await tried(flow, 1)
    await clock.advance(DAY + late)
    await tried(flow, 2)
    assert (await flow.status(workflow_id))["state"] == "cancelling"
    await clock.advance(1)
    assert (await flow.until(workflow_id))["state"] == "cancelled"
