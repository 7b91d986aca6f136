"""The agenda loop (DLV-110, TMR-023): every due entry once a pass, failing ones again in the next."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from protocol3.coordinator.assembly import assemble
from protocol3.coordinator.background import due
from protocol3.coordinator.background.due import AgendaLoop
from protocol3.core.records import Agenda


class Passes:
    def __init__(self) -> None:
        self.count = self.failures = 0

    def succeeded(self, now: float) -> None:
        self.count += 1

    def unavailable(self) -> None:
        self.failures += 1


@pytest.fixture
async def services(pool: Any, programs: Any) -> Any:
    """No other loop runs: it would handle the entries as well."""
    return assemble(pool, programs, recovery=Passes(), workflow_recovery=Passes())


@pytest.fixture
async def entries(pool: Any) -> Any:
    """Adds entries that are due."""
    await pool.execute("delete from agenda")

    async def add(count: int, due: int = 1) -> None:
        await pool.execute(
            "insert into agenda select 'test', 'ref' || lpad(n::text, 4, '0'), 1, $2 from generate_series(1, $1) n",
            count,
            due,
        )

    return add


@pytest.fixture
def passes() -> Passes:
    return Passes()


async def run_until(loop: AgendaLoop, services: Any, condition: Any) -> None:
    running = asyncio.create_task(loop.run(services))
    async with asyncio.timeout(20):
        while not condition():
            loop.ring(0)
            await asyncio.sleep(0.002)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_more_than_a_batch(services, entries, passes):
    """All of them in one pass, in order of their due instant."""
    await entries(due.BATCH * 2 + 50)
    seen: list[str] = []

    async def handle(services, entry):
        seen.append(entry.ref)
        await services.pool.execute("delete from agenda where ref = $1", entry.ref)

    await run_until(AgendaLoop({"test": handle}, passes), services, lambda: passes.count)
    assert len(seen) == len(set(seen)) == due.BATCH * 2 + 50


async def test_failing_entries_hold_nobody_up(services, entries, passes):
    """A batch of failing ones comes first; the entry behind it is handled in the same pass, and they come again."""
    await entries(due.BATCH)
    await services.pool.execute("insert into agenda values ('test', 'behind', 1, 2)")
    tried: dict[str, int] = {}

    async def handle(services, entry):
        tried[entry.ref] = tried.get(entry.ref, 0) + 1
        if entry.ref != "behind":
            raise ConnectionError
        await services.pool.execute("delete from agenda where ref = 'behind'")

    await run_until(AgendaLoop({"test": handle}, passes), services, lambda: passes.count >= 2)
    assert tried.pop("behind") == 1
    assert min(tried.values()) >= 2
    assert len(tried) == due.BATCH


async def test_nothing_is_handled_before_it_is_due(services, entries, passes):
    """Never early by itself."""
    await entries(1, due=2**52)

    async def handle(services, entry):
        raise AssertionError

    await run_until(AgendaLoop({"test": handle}, passes), services, lambda: passes.count >= 2)
    assert passes.failures == 0


async def test_a_database_that_cannot_be_asked(services, passes, monkeypatch):
    """HTTP-092: reported, and the loop goes on."""

    async def broken(*_: object) -> bool:
        raise OSError

    loop = AgendaLoop({}, passes)
    monkeypatch.setattr(loop, "_pass", broken)
    await run_until(loop, services, lambda: passes.failures)
    monkeypatch.undo()
    await run_until(loop, services, lambda: passes.count)


class Desk:
    """A handler for one entry and one for several, which count what they are given."""

    def __init__(self, outcome: bool | BaseException = True) -> None:
        self.outcome = outcome
        self.alone: list[str] = []
        self.together: list[list[str]] = []

    async def one(self, services: Any, entry: Agenda) -> None:
        self.alone.append(entry.ref)
        await self._done(services, [entry])

    async def several(self, services: Any, entries: Sequence[Agenda]) -> bool:
        self.together.append([entry.ref for entry in entries])
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        if self.outcome:
            await self._done(services, entries)
        return self.outcome

    async def _done(self, services: Any, entries: Sequence[Agenda]) -> None:
        await services.pool.execute("delete from agenda where ref = any($1)", [entry.ref for entry in entries])

    def loop(self, passes: Passes) -> AgendaLoop:
        return AgendaLoop({"test": self.one, "other": self.one}, passes, together={"test": self.several})


async def test_entries_of_one_kind_are_handled_together(services, entries, passes):
    """So many in one call at most; a lone one, and one of another kind, as ever."""
    await entries(due.MOST_TOGETHER + 1)
    await services.pool.execute("insert into agenda values ('other', 'a', 1, 1), ('other', 'b', 1, 1)")
    desk = Desk()
    await run_until(desk.loop(passes), services, lambda: passes.count)
    assert [len(refs) for refs in desk.together] == [due.MOST_TOGETHER]
    assert sorted(desk.alone) == ["a", "b", f"ref{due.MOST_TOGETHER + 1:04}"]


@pytest.mark.parametrize("outcome", [False, ConnectionError()], ids=["missed", "failed"])
async def test_what_did_not_stand_together_is_handled_one_by_one(services, entries, passes, outcome):
    """In the same pass: nobody waits for the one that was the reason."""
    await entries(3)
    desk = Desk(outcome)
    await run_until(desk.loop(passes), services, lambda: passes.count)
    assert [len(refs) for refs in desk.together] == [3]
    assert sorted(desk.alone) == ["ref0001", "ref0002", "ref0003"]
    assert passes.failures == 0


@pytest.mark.parametrize(
    ("exchanges", "most", "size"),
    [(True, 1, due.FEW_TOGETHER), (False, due.GROUPS, due.MOST_TOGETHER)],
    ids=["exchanges-come", "calm"],
)
async def test_groups_side_by_side(services, entries, passes, exchanges, most, size):
    """A core is left to exchanges while they come, and used when nobody wants it."""
    await entries(due.MOST_TOGETHER * (due.GROUPS + 2))
    under_way, seen = 0, [0]

    class Slow(Desk):
        async def several(self, services: Any, entries: Sequence[Agenda]) -> bool:
            nonlocal under_way
            under_way += 1
            seen.append(under_way)
            done = await super().several(services, entries)
            for _ in range(10):  # long enough for whoever may begin as well
                await asyncio.sleep(0)
            under_way -= 1
            return done

    if exchanges:
        services.traffic.seen(None)
        services.traffic._until = float("inf")  # however long this test takes
    desk = Slow()
    await run_until(desk.loop(passes), services, lambda: passes.count)
    assert max(seen) == most
    assert [len(refs) for refs in desk.together] == [size] * (due.MOST_TOGETHER * (due.GROUPS + 2) // size)
