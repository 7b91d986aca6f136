"""Obligations that fail, each kind in every way, and a program store that stalls: others are met meanwhile.

There are more of them than the loop meets side by side.
"""

from __future__ import annotations

import asyncio

import pytest

from protocol3.coordinator.assembly import assemble, running
from protocol3.coordinator.background import obligations
from protocol3.coordinator.parts import Parts

POISONED = obligations.CONCURRENCY + 4
HEALTHY = 4


class Poisoned(Parts):
    """Handlers that raise an exception of the test's choice for some workflows, as long as there is one."""

    def __init__(self):
        self.error = None
        self.workflows = set()
        self.struck = set()
        self.obligations = {kind: self._handler(handle) for kind, handle in Parts.obligations.items()}

    def applies_at_once(self, scope):
        return False  # every decision is owed

    def _handler(self, handle):
        async def poisoned(services, held):
            if self.error is not None and held.workflow_id in self.workflows:
                self.struck.add(held.workflow_id)
                raise self.error
            await handle(services, held)

        return poisoned


@pytest.fixture
def poison():
    return Poisoned()


@pytest.fixture
async def services(pool, programs, poison):
    class Ignored:
        def succeeded(self, now): ...

        def unavailable(self): ...

    coordinator = assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored(), parts=poison)
    async with running(coordinator) as services:
        yield services


class Decision:
    """The decision of the first activation."""

    done = ("succeeded",)

    async def prepare(self, flow, key, staged):
        return (await flow.submit(key))["workflow_id"], await flow.start()

    async def owe(self, flow, workflow_id, run):
        await run.decide("complete", output=None)


class Child:
    """The end of the only child; then the workflow runs again."""

    done = ("running",)

    async def prepare(self, flow, key, staged):
        workflow_id = (await flow.submit(key))["workflow_id"]
        await (await flow.start()).decide("suspend", commands=[staged("a")], until=["a"])
        run = await flow.start("rates")
        await flow.until(workflow_id, "waiting")
        return workflow_id, run

    async def owe(self, flow, workflow_id, run):
        await run.succeed(1)


class Wake:
    """The event that is waited for; then the workflow runs again."""

    done = ("running",)

    async def prepare(self, flow, key, staged):
        workflow_id = (await flow.submit(key))["workflow_id"]
        await (await flow.start()).decide("wait", wait={"kind": "event", "key": "k", "timeout_ms": None})
        await flow.until(workflow_id, "waiting")
        return workflow_id, None

    async def owe(self, flow, workflow_id, run):
        await flow.send(workflow_id, "k")


class Drain:
    """The end of what a cancelled workflow owns."""

    done = ("cancelled",)

    async def prepare(self, flow, key, staged):
        return (await flow.submit(key))["workflow_id"], None

    async def owe(self, flow, workflow_id, run):
        await flow.cancel(workflow_id)


@pytest.mark.parametrize("error", [RuntimeError("x"), TimeoutError(), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("kind", [Decision(), Child(), Wake(), Drain()], ids=lambda kind: type(kind).__name__)
async def test_one_that_fails_holds_no_other(flow, poison, staged, kind, error):
    """RCV-008, RCV-030: whatever a handler raises, the obligation stays and the others go on; healed, it is met."""
    prepared = [await kind.prepare(flow, f"key-{n}", staged) for n in range(POISONED + HEALTHY)]
    poison.workflows = {workflow_id for workflow_id, _ in prepared[:POISONED]}
    poison.error = error
    for workflow_id, run in prepared[:POISONED]:
        await kind.owe(flow, workflow_id, run)
    async with asyncio.timeout(20):
        while poison.struck != poison.workflows:
            await asyncio.sleep(0.002)
    for workflow_id, run in prepared[POISONED:]:
        await kind.owe(flow, workflow_id, run)
    for workflow_id, _ in prepared[POISONED:]:
        await flow.until(workflow_id, *kind.done)
    poison.error = None
    for workflow_id, _ in prepared[:POISONED]:
        await flow.until(workflow_id, *kind.done)


async def test_a_program_store_that_stalls_holds_no_other(flow, programs, staged, monkeypatch):
    """RCV-030: decisions that wait for it hold nothing that others need; when it answers, they are applied."""
    answers, asked, resolve = asyncio.Event(), 0, programs.resolve

    async def stalled(program):
        nonlocal asked
        if program.id == "rates":
            asked += 1
            await answers.wait()
        return await resolve(program)

    monkeypatch.setattr(programs, "resolve", stalled)
    waiting = [(await flow.submit(f"key-{n}"))["workflow_id"] for n in range(POISONED)]
    for _ in waiting:
        await (await flow.start()).decide("suspend", commands=[staged("a")], until=["a"])
    async with asyncio.timeout(20):
        while asked < POISONED:
            await asyncio.sleep(0.002)
    for n in range(HEALTHY):
        workflow_id = (await flow.submit(f"other-{n}"))["workflow_id"]
        await (await flow.start()).decide("complete", output=n)
        await flow.until(workflow_id, "succeeded")
    answers.set()
    for workflow_id in waiting:
        await flow.until(workflow_id, "waiting")
    assert asked == POISONED
