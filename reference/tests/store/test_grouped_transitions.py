"""Transitions that share a commit, on PostgreSQL: what one meets is no other's, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import random
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from protocol3.contract.refusal import Refusal
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Guard, QueueWake, Replay
from protocol3.store.database import open_pool
from protocol3.store.group_commit import LARGE
from protocol3.store.transition import Transitions

PATIENCE_S = 60.0


class Bench:
    """Transitions that change one task each, and the calls that were made for them."""

    def __init__(self, store, monkeypatch):
        self.store, self.transitions = store, store.transitions
        self.decided = []
        self.calls = []
        write, together = self.transitions._write, self.transitions._write_together

        async def alone(connection, verdict):
            self.calls.append([record.id for record in verdict.records if isinstance(record, r.Task)])
            return await write(connection, verdict)

        async def grouped(connection, verdict):
            self.calls.append([record.id for record in verdict.records if isinstance(record, r.Task)])
            return await together(connection, verdict)

        monkeypatch.setattr(self.transitions, "_write", alone)
        monkeypatch.setattr(self.transitions._group, "_write", grouped)

    async def change(self, task, **more):
        async def load(connection):
            row = await connection.fetchrow("select version from task where id = $1", task.id)
            return row and row["version"]

        def decide(version, fresh):
            self.decided.append(task.id)
            return replace(self.store.changing(replace(task, version=version)), reply=task.id, **more)

        return await self.transitions.run(task.id, load, decide)

    async def until_gathered(self, count):
        """So many verdicts wait for the call."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.transitions._group._waiting) < count:
                await asyncio.sleep(0.001)

    @contextmanager
    def gathering(self):
        """Transitions that decide inside share a call afterwards."""
        with self.transitions._group.under_way():
            yield


@pytest.fixture
def bench(store, monkeypatch, patient):
    return Bench(store, monkeypatch)


async def replies(*runs):
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*runs, return_exceptions=True)


async def test_one_alone_is_applied_at_once(bench, store):
    """Nothing else is under way, so it waits for nobody and keeps its connection."""
    task = await store.task()
    assert await bench.change(task) == task.id
    assert bench.calls == [[task.id]]


async def test_transitions_share_a_commit(bench, store):
    """And keep no connection while they wait for it."""
    tasks = [await store.task() for _ in range(3)]
    with bench.gathering():
        runs = [asyncio.create_task(bench.change(task)) for task in tasks]
        await bench.until_gathered(3)
        async with asyncio.timeout(PATIENCE_S):
            while store.pool.get_idle_size() < store.pool.get_size():
                await asyncio.sleep(0.001)
    assert await replies(*runs) == [task.id for task in tasks]
    assert len(bench.calls) == 1
    commits = await store.pool.fetch("select distinct xmin::text from task where id = any($1)", [t.id for t in tasks])
    assert len(commits) == 1
    assert [await store.version(task) for task in tasks] == [1, 1, 1]


async def test_a_miss_of_one_is_decided_again_and_fails_no_other(bench, store):
    """Its record moved on between its load and the call. All have waited, so all are decided by what is there now."""
    tasks = [await store.task() for _ in range(3)]
    with bench.gathering():
        runs = [
            asyncio.create_task(bench.change(task, wakes=(QueueWake(scope_id=1, queue=task.id),))) for task in tasks
        ]
        await bench.until_gathered(3)
        assert await store.apply(store.changing(tasks[1]))
    assert await replies(*runs) == [task.id for task in tasks]
    assert sorted(bench.decided) == sorted(2 * [task.id for task in tasks])
    assert [await store.version(task) for task in tasks] == [1, 2, 1]
    assert sorted(wake.queue for wake in store.wakes) == sorted(task.id for task in tasks)


async def test_a_taken_key_of_one_fails_no_other(bench, store, blank):
    task, binding = await store.task(), blank(r.Submission, key="taken meanwhile")

    async def load(connection):
        row = await connection.fetchrow("select subject_id from submission where key = $1", binding.key)
        return row and row["subject_id"]

    def decide(found, fresh):
        bench.decided.append(found)
        return Accepted(reply="never", records=(binding,)) if found is None else Replay(reply=found)

    with bench.gathering():
        runs = [asyncio.create_task(bench.transitions.run("submission", load, decide))]
        runs += [asyncio.create_task(bench.change(task))]
        await bench.until_gathered(2)
        assert await store.apply(Accepted(reply=None, records=(replace(binding, subject_id="winner"),)))
    assert await replies(*runs) == ["winner", task.id]


async def test_a_verdict_whose_time_is_over_fails_no_other(bench, store):
    """The clock is read after the locks, for each that is then applied alone."""
    tasks = [await store.task() for _ in range(2)]
    bounds = [1]

    async def load(connection):
        row = await connection.fetchrow("select version from task where id = $1", tasks[0].id)
        return row and row["version"]

    def decide(version, fresh):
        bench.decided.append(version)
        bound = bounds.pop() if bounds else None
        return replace(store.changing(replace(tasks[0], version=version)), valid_until_real=bound)

    with bench.gathering():
        runs = [asyncio.create_task(bench.transitions.run("late", load, decide))]
        runs += [asyncio.create_task(bench.change(tasks[1]))]
        await bench.until_gathered(2)
    assert await replies(*runs) == ["done", tasks[1].id]
    assert [await store.version(task) for task in tasks] == [1, 1]


async def test_a_lock_that_one_meets_holds_up_no_other(bench, store, pool):
    """Somebody keeps a row: the call gives up, one waits alone, the other is done meanwhile."""
    kept, free = [await store.task() for _ in range(2)]
    async with pool.acquire() as holder, holder.transaction():
        await holder.execute("select from task where id = $1 for update", kept.id)
        with bench.gathering():
            waits, goes = [asyncio.create_task(bench.change(task)) for task in (kept, free)]
            await bench.until_gathered(2)
        assert await replies(goes) == [free.id]
        assert not waits.done()
    assert await replies(waits) == [kept.id]


async def test_a_large_body_goes_alone(bench, store, blank):
    """While others gather: its bytes would be their time."""
    task = await store.task()
    body = blank(r.TaskBody, task_id=task.id, data=b"1" * (LARGE + 1))

    async def load(connection): ...

    with bench.gathering():
        verdict = Accepted(reply="large", records=(body,))
        assert await bench.transitions.run("large", load, lambda loaded, fresh: verdict) == "large"
        assert bench.calls == [[]]


class Ledger:
    """Many transitions, each on one to three tasks of a few, by two coordinators; what was acknowledged is kept apart.

    A transition writes its name into the history of every task that it changes.
    """

    def __init__(self, tasks, dice):
        self.tasks, self.dice = tasks, dice
        self.chosen: dict[str, set[str]] = {}
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()

    async def play(self, transitions, name):
        chosen = self.dice.sample(self.tasks, self.dice.randint(1, 3))
        self.chosen[name] = {task.id for task in chosen}

        async def load(connection):
            text = "select id, version from task where id = any($1)"
            return dict(map(tuple, await connection.fetch(text, [task.id for task in chosen])))

        try:
            key = chosen[0].id if self.dice.random() < 0.5 else object()  # half of them without the courtesy
            await transitions.run(key, load, partial(self._decide, chosen, name))
            self.acknowledged.add(name)
        except Refusal:  # the guards never held
            self.refused.add(name)

    def _decide(self, chosen, name, versions, fresh):
        now = [replace(task, version=versions[task.id]) for task in chosen]
        history = [r.History(task_id=t.id, sequence=t.version + 1, at=1, reason=name, attempt_id=None) for t in now]
        guards = tuple(Guard(kind="task", id=task.id, version=task.version) for task in now)
        return Accepted(reply=name, records=(*now, *history), guards=guards, wakes=(QueueWake(scope_id=1, queue=name),))


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_is_lost_doubled_or_halved(store, database, seed):
    """Overlapping transitions, some of them cancelled at any moment: each acknowledged one is there, whole, once."""
    dice = random.Random(seed)
    tasks = [await store.task() for _ in range(12)]
    ledger, woken, calls = Ledger(tasks, dice), [], []
    pools = [await open_pool(database) for _ in range(2)]
    coordinators = [Transitions(pool, on_commit=woken.extend) for pool in pools]
    for coordinator in coordinators:
        write = coordinator._group._write

        async def counted(connection, verdict, write=write):
            calls.append(len({record.reason for record in verdict.records if isinstance(record, r.History)}))
            return await write(connection, verdict)

        coordinator._group._write = counted
    running = []
    for number in range(300):
        running.append(asyncio.create_task(ledger.play(dice.choice(coordinators), f"{seed}:{number}")))
        if dice.random() < 0.3:
            await asyncio.sleep(dice.random() * 0.004)
        if dice.random() < 0.1:
            dice.choice(running).cancel()
    ends = await replies(*running)
    assert {type(end) for end in ends} <= {type(None), asyncio.CancelledError}
    for pool in pools:
        await pool.close()
    assert max(calls) > 1

    written: dict[str, list[str]] = {}
    ids = [task.id for task in tasks]
    for row in await store.pool.fetch("select task_id, reason from history where task_id = any($1)", ids):
        written.setdefault(row["reason"], []).append(row["task_id"])
    assert ledger.acknowledged <= written.keys()
    assert not ledger.refused & written.keys()
    assert {name: sorted(ids) for name, ids in written.items()} == {
        name: sorted(ledger.chosen[name]) for name in written
    }
    for task in tasks:
        assert await store.version(task) == sum(task.id in ids for ids in written.values())
    told = [wake.queue for wake in woken]
    assert len(told) == len(set(told))
    assert ledger.acknowledged <= set(told) <= written.keys()
    assert len(ledger.acknowledged) > 100
