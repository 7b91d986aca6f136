"""Waiting for locks: what is read after it, and in which order locks are taken."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import asyncpg
import pytest

from protocol3.core import records as r
from protocol3.core.verdict import LOCK_ORDER, Accepted, Guard, Rejected, Replay
from protocol3.store.apply_sql import APPLY
from protocol3.store.tables import row_of
from protocol3.store.transition import arguments

PATIENCE_S = 20.0
SIDE_ROWS = "select t.version, (select count(*) from history h where h.task_id = t.id) from task t where t.id = $1"


async def until_somebody_waits(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    """A session of this database is blocked by another one's lock."""
    text = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    async with asyncio.timeout(PATIENCE_S):
        while not await pool.fetchval(text):  # the database rings no bell
            await asyncio.sleep(0.005)


async def change_while_waited_for(pool, task, reader):
    """Hold the task, start the reader, which blocks on it; add a side row, raise the version, commit. What it read."""
    async with pool.acquire() as holder:
        change = holder.transaction()
        await change.start()
        await holder.execute("update task set version = 1 where id = $1", task.id)
        reading = asyncio.create_task(reader())
        await until_somebody_waits(pool)
        record = r.History(task_id=task.id, sequence=1, at=1, reason="claimed", attempt_id=None)
        await holder.execute("insert into history select ($1::history).*", row_of(record))
        await change.commit()
        return await reading


async def test_one_statement_that_locks_and_reads_is_stale(store, pool):
    """The trap of N2: the locked row is new, the side rows are as old as the statement. If this changes, so may we."""
    task = await store.task()

    async def reader():
        return await pool.fetchrow(f"{SIDE_ROWS} for no key update", task.id)

    assert tuple(await change_while_waited_for(pool, task, reader)) == (1, 0)


async def test_the_locked_form_reads_in_a_later_statement(store, pool):
    """Both the locked row and what belongs to it are new."""
    task = await store.task()
    guard = Guard(kind="task", id=task.id, version=0)
    verdicts = [Rejected(code="ownership_lost", guards=(guard,)), Replay(reply=None)]
    read = []

    async def load(connection):
        read.append(tuple(await connection.fetchrow(SIDE_ROWS, task.id)))

    async def reader():
        await store.transitions.run("key", load, lambda loaded, fresh: verdicts.pop(0))

    await change_while_waited_for(pool, task, reader)
    assert read == [(0, 0), (1, 1)]


def test_guards_are_sorted():
    """The one lock order: kind, then id, then part, whatever order a decision names them in."""
    guards = [Guard(kind=kind, id=id, part=part, version=0) for kind in LOCK_ORDER for id in "ab" for part in (0, 1)]
    shuffled = random.Random(7).sample(guards, len(guards))
    rows = arguments(Accepted(reply=None, guards=tuple(shuffled)))[0]
    assert rows == [(guard.kind, guard.id, guard.part, guard.version, guard.seen) for guard in guards]
    assert LOCK_ORDER == ("clock", "session", "cursor", "workflow", "task", "obligation")


@pytest.mark.parametrize("order", ["sorted", "as named"])
async def test_deadlocks(store, pool, order):
    """Sorted guards never deadlock. The control takes them as they come and must, or this proves nothing."""
    tasks = [await store.task() for _ in range(4)]
    tried = deadlocks = 0
    most = 400 if order == "sorted" else 40_000  # on a busy machine it takes the control a while to meet one

    async def session(seed: int) -> None:
        nonlocal tried, deadlocks
        dice = random.Random(seed)
        while tried < most and not (order == "as named" and deadlocks):
            tried += 1
            chosen = dice.sample(tasks, 3)
            versions = dict(await pool.fetch("select id, version from task where id = any($1)", [t.id for t in chosen]))
            now = [replace(task, version=versions[task.id]) for task in chosen]
            guards = [Guard(kind="task", id=task.id, version=task.version) for task in now]
            parameters = arguments(Accepted(reply=None, records=tuple(now), guards=tuple(guards)))
            if order == "as named":
                parameters[0] = [(g.kind, g.id, g.part, g.version, g.seen) for g in guards]
            try:
                await pool.fetchval(APPLY, *parameters)
            except asyncpg.DeadlockDetectedError:
                deadlocks += 1

    await asyncio.gather(*(session(seed) for seed in range(8)))
    assert bool(deadlocks) is (order == "as named")


@pytest.mark.parametrize("error", [asyncpg.DeadlockDetectedError, asyncpg.SerializationError])
async def test_what_the_lock_order_excludes_is_told_and_made_again(store, monkeypatch, caplog, error):
    """The campaigns count these lines; an ordinary miss writes none."""
    task = await store.task()
    write, answers = store.transitions._write, [error("text of the server"), False]

    async def failing(connection, verdict):
        answer = answers.pop(0) if answers else await write(connection, verdict)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def load(connection): ...

    monkeypatch.setattr(store.transitions, "_write", failing)
    assert await store.transitions.run("key", load, lambda loaded, fresh: store.changing(task)) == "done"
    assert [record.getMessage() for record in caplog.records] == [f"a decision is made again after {error.__name__}"]
