"""A scope's clock is a guard: no decision made before an advance is applied after it (all three orders of the two)."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from protocol3.core.verdict import Clock, Draft
from protocol3.store import virtual_time
from protocol3.store.clock import clock_of
from protocol3.store.transition import Transitions

PATIENCE_S = 20.0


async def until_somebody_waits(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    text = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(PATIENCE_S):
        while not await pool.fetchval(text):  # the database rings no bell
            await asyncio.sleep(0.005)


class Deciding:
    """A transition that changes one task of a scope and replies with the offsets it was decided by."""

    def __init__(self, store, task, scope_id):
        self.transitions = Transitions(store.pool, on_commit=store.wakes.extend, virtual=True)
        self.store, self.task, self.scope_id = store, task, scope_id
        self.offsets: list[int] = []

    async def load(self, connection) -> Clock:
        text = "select {now(t.scope_id)} as now, t.version from task t where t.id = $1"
        row = await connection.fetchrow(self.transitions.sql(text), self.task.id)
        self.version = row["version"]
        return clock_of(row)

    def decide(self, clock, fresh):
        self.offsets.append(clock.offset)
        draft = Draft()
        changing = self.store.changing(self.task, run_id=f"by {clock.offset}")
        draft.guard(*(type(guard)(kind="task", id=guard.id, version=self.version) for guard in changing.guards))
        draft.write(*changing.records)
        return draft.accepted(list(self.offsets), clock)

    async def run(self, load=None):
        return await self.transitions.run("task", load or self.load, self.decide)

    async def advance(self, by, *, hold=False):
        async with self.store.pool.acquire() as connection:
            return await virtual_time.advance(connection, self.scope_id, by=by, hold=hold)


@pytest.fixture
async def deciding(store, pool):
    name = "insert into scope (tenant, namespace) values ('t', gen_random_uuid()::text) returning id"
    scope_id = await pool.fetchval(name)
    return Deciding(store, await store.task(scope_id=scope_id), scope_id)


async def test_nothing_advanced(deciding):
    """Decided once."""
    assert await deciding.run() == [0]


async def test_advanced_between_load_and_apply(deciding):
    """The decision misses and is made again by the new clock."""

    async def load(connection):
        clock = await deciding.load(connection)
        if clock.offset == 0:
            await deciding.advance(1_000)
        return clock

    assert await deciding.run(load) == [0, 1_000]


@pytest.mark.parametrize("hold", [False, True])
async def test_an_advance_waits_for_an_open_apply(deciding, pool, hold):
    """What holds the clock shared ends first, and counts."""
    async with pool.acquire() as holder:
        change = holder.transaction()
        await change.start()
        locks = "select lock_guards(array[('clock', $1, 0, 0, true)]::guard[])"
        assert await holder.fetchval(locks, str(deciding.scope_id))
        advancing = asyncio.create_task(deciding.advance(1_000, hold=hold))
        await until_somebody_waits(pool)
        await change.commit()
    assert await advancing == 1_000


async def test_an_apply_waits_for_an_open_advance(deciding, pool):
    """Then it misses: its clock is over."""
    async with pool.acquire() as holder:
        change = holder.transaction()
        await change.start()
        await holder.execute("update scope set clock_offset_ms = 1000 where id = $1", deciding.scope_id)
        running = asyncio.create_task(deciding.run())
        await until_somebody_waits(pool)
        await change.commit()
    assert await running == [0, 1_000]


async def test_an_advance_that_fails_changes_nothing(deciding):
    """The decision made meanwhile stands."""
    with pytest.raises(virtual_time.BeyondTime):
        await deciding.advance(virtual_time.LATEST)
    assert await deciding.run() == [0]
