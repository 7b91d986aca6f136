"""The obligation loop (RCV-002 to RCV-004, RCV-008): fresh ones, left-over ones, failing ones, claims."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from protocol3.coordinator.assembly import assemble
from protocol3.coordinator.background.obligations import Obligations
from protocol3.core.obligations import MOST_TOGETHER
from protocol3.core.records import Obligation
from protocol3.core.verdict import Accepted
from protocol3.store.apply_sql import APPLY
from protocol3.store.transition import arguments

NOW = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint"
_numbers = itertools.count(1)


class Passes:
    """Counts what the loop reports."""

    def __init__(self) -> None:
        self.count = self.failures = 0

    def succeeded(self, now: float) -> None:
        self.count += 1

    def unavailable(self) -> None:
        self.failures += 1


class Desk:
    """A loop with a scripted handler, and obligations for it."""

    def __init__(self, services: Any) -> None:
        self.services = services
        self.seen: list[Obligation] = []
        self.calls: list[int] = []
        self.handle: Any = self.meet
        self.given_up: list[Obligation] = []
        self.passes = Passes()
        handlers = dict.fromkeys(("wake", "child"), self._handler)
        self.loop = Obligations(handlers, self.passes, on_transient_failure=self._failed)

    async def _handler(self, services: Any, *held: Obligation) -> None:
        self.calls.append(len(held))
        self.seen.extend(held)
        for obligation in held:
            await self.handle(obligation)

    async def meet(self, obligation: Obligation) -> None:
        text = "delete from obligation where id = $1 and version = $2"
        await self.services.pool.execute(text, obligation.id, obligation.version)

    async def _failed(self, services: Any, obligation: Obligation) -> None:
        self.given_up.append(obligation)

    async def owe(self, workflow_id: str = "wf", *, ready_in: int = 60_000, **fields: Any) -> Obligation:
        obligation = Obligation(
            id=f"obl_{next(_numbers)}",
            scope_id=1,
            workflow_id=workflow_id,
            subject="s",
            created_at=1,
            ready_real=await self.services.pool.fetchval(NOW) + ready_in,
            tries=0,
            **({"kind": "wake"} | fields),
        )
        assert await self.services.pool.fetchval(APPLY, *arguments(Accepted(reply=None, records=(obligation,))))
        return obligation

    async def stored(self, obligation: Obligation) -> Any:
        return await self.services.pool.fetchrow("select * from obligation where id = $1", obligation.id)

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.001)

    async def gone(self, *obligations: Obligation) -> None:
        ids = [obligation.id for obligation in obligations]
        async with asyncio.timeout(20):
            text = "select count(*) from obligation where id = any($1)"
            while await self.services.pool.fetchval(text, ids):
                await asyncio.sleep(0.002)


@pytest.fixture
async def desk(pool: Any, programs: Any) -> Any:
    """No other loop runs: it would handle them as well."""
    await pool.execute("delete from obligation")
    services = assemble(pool, programs, recovery=Passes(), workflow_recovery=Passes())
    desk = Desk(services)
    running = asyncio.create_task(desk.loop.run(services))
    yield desk
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_fresh_one_is_handled_at_once(desk):
    """Without a claim, as it was committed."""
    obligation = await desk.owe()
    desk.loop.take(obligation)
    await desk.gone(obligation)
    assert desk.seen == [obligation]


async def test_what_is_ready_is_taken_over(desk):
    """RCV-002, RCV-004: with the next version, and not ready for others meanwhile."""
    left = [await desk.owe(f"wf{n}", ready_in=-1) for n in range(40)]
    fresh = await desk.owe("mine")
    await desk.gone(*left)
    assert {obligation.id: obligation.version for obligation in desk.seen} == {each.id: 1 for each in left}
    assert (await desk.stored(fresh))["version"] == 0


async def test_one_workflow_is_handled_in_order(desk):
    """One after the other, while other workflows go on."""
    gate = asyncio.Event()

    async def handle(obligation):
        if obligation is first:
            await gate.wait()
        await desk.meet(obligation)

    desk.handle = handle
    first, second, third, other = [await desk.owe(wf) for wf in ("wf", "wf", "wf", "other")]
    for obligation in (first, second, third, other):
        desk.loop.take(obligation)
    await desk.gone(other)
    assert desk.seen == [first, other]
    gate.set()
    await desk.gone(second, third)
    assert desk.seen == [first, other, second, third]


async def test_a_failure_is_retried_with_backoff(desk):
    """RCV-008, RCV-020: put back with one more try; whoever may give it up is asked."""
    failures = [ConnectionError(), TimeoutError()]

    async def handle(obligation):
        if failures:
            raise failures.pop()
        await desk.meet(obligation)

    desk.handle = handle
    obligation = await desk.owe()
    desk.loop.take(obligation)
    await desk.until(lambda: desk.given_up)
    await desk.gone(obligation)
    assert [each.tries for each in desk.seen] == [0, 1, 2]
    assert [each.tries for each in desk.given_up] == [0, 1]


async def test_a_failure_never_touches_a_newer_version(desk):
    """RCV-004: somebody took it over meanwhile."""
    obligation = await desk.owe()

    async def handle(held):
        await desk.services.pool.execute(
            "update obligation set version = 7, ready_real = $2 where id = $1", held.id, 2**60
        )
        raise ConnectionError

    desk.handle = handle
    desk.loop.take(obligation)
    await desk.until(lambda: desk.given_up)
    await desk.until(lambda: not desk.loop.held)
    stored = await desk.stored(obligation)
    assert (stored["version"], stored["tries"], stored["ready_real"]) == (7, 0, 2**60)


async def test_what_is_being_handled_does_not_become_ready(desk):
    """RCV-004: the claim is renewed while somebody works on it, and the version stays."""
    gate = asyncio.Event()

    async def handle(obligation):
        await gate.wait()
        await desk.meet(obligation)

    desk.handle = handle
    obligation = await desk.owe(ready_in=50)
    desk.loop.take(obligation)
    await desk.until(lambda: desk.seen)
    before = desk.passes.count
    await desk.until(lambda: desk.passes.count >= before + 2)
    stored = await desk.stored(obligation)
    assert stored["version"] == 0
    assert stored["ready_real"] > await desk.services.pool.fetchval(NOW) + 1_000
    gate.set()
    await desk.gone(obligation)
    assert desk.seen == [obligation]


async def test_taking_twice_is_taking_once(desk):
    """A wake and a look may find the same one."""
    obligation = await desk.owe()
    desk.loop.take(obligation)
    desk.loop.take(obligation)
    await desk.gone(obligation)
    assert desk.seen == [obligation]


@pytest.fixture
def queued(desk):
    """`await queued(*kinds)`: obligations of these kinds of one workflow, all waiting while the first is handled.

    Returns the gate that lets it go on, and the obligations.
    """

    async def _queued(*kinds):
        gate, owed = asyncio.Event(), [await desk.owe(kind=kind) for kind in kinds]

        async def handle(obligation):
            if obligation is owed[0]:
                await gate.wait()
            await desk.meet(obligation)

        desk.handle = handle
        for obligation in owed:
            desk.loop.take(obligation)
            await desk.until(lambda: desk.seen)
        return gate, owed

    return _queued


async def test_ends_of_children_that_wait_are_met_together(desk, queued):
    """A lone one waits for nobody; those that came meanwhile, over others of the workflow, are one call."""
    gate, owed = await queued("child", "child", "wake", "child", "wake")
    gate.set()
    await desk.gone(*owed)
    assert desk.calls == [1, 2, 1, 1]
    assert desk.seen == [owed[n] for n in (0, 1, 3, 2, 4)]
    await desk.until(lambda: not desk.loop.held)


async def test_so_many_are_met_together_at_most(desk, queued):
    """One transition stays bounded."""
    gate, owed = await queued("wake", *["child"] * (MOST_TOGETHER + 2))
    gate.set()
    await desk.gone(*owed)
    assert desk.calls == [1, MOST_TOGETHER, 2]


async def test_ends_that_fail_together_are_each_put_back(desk, queued):
    """RCV-008, RCV-020: each with one more try, each asked whether it is given up."""
    gate, owed = await queued("wake", "child", "child")
    meet, failures = desk.handle, [ConnectionError()]

    async def handle(obligation):
        if obligation.kind == "child" and failures:
            raise failures.pop()
        await meet(obligation)

    desk.handle = handle
    gate.set()
    await desk.gone(*owed)
    assert desk.given_up == owed[1:]
    assert sorted((each.id, each.tries) for each in desk.seen if each.tries) == [(each.id, 1) for each in owed[1:]]
