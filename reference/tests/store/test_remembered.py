"""Decisions made of what is remembered, on PostgreSQL: when they are made, and what they never survive.

What each of the real decisions relies on is changed in coordinator/workflows/test_remembered_decisions.py.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from protocol3.contract.refusal import Refusal
from protocol3.core import records as r
from protocol3.core.renewal import Renewing
from protocol3.core.verdict import Accepted, Clock, Draft, Guard, Rejected, Replay
from protocol3.core.workflow.local import LocalState
from protocol3.core.workflow.owner import Named
from protocol3.store import remembered, virtual_time
from protocol3.store.clock import clock_of
from protocol3.store.database import open_pool
from protocol3.store.remembered import Memory
from protocol3.store.tables import record_of
from protocol3.store.transition import Transitions

PATIENCE_S = 60.0
_numbers = itertools.count()


class Leases:
    """Transitions of tasks that have an attempt; `made_of` tells of each decision what it was made of."""

    def __init__(self, store, blank, transitions):
        self.store, self.blank, self.transitions = store, blank, transitions
        self.memory = transitions._memory
        self.made_of = []

    async def task(self, scope_id=1):
        attempt = f"attempt {next(_numbers)}"
        task = await self.store.task(state="active", current_attempt_id=attempt, scope_id=scope_id)
        assert await self.store.apply(Accepted(reply=None, records=(self.attempt(task),)))
        return task

    def attempt(self, task):
        return self.blank(r.Attempt, id=task.current_attempt_id, task_id=task.id, number=1)

    async def change(self, task, **more):
        """Once more changed; the reply is the version of before."""

        async def load(connection):
            text = (
                "select {now(t.scope_id)} as now, t, a from task t join attempt a on a.task_id = t.id where t.id = $1"
            )
            row = await connection.fetchrow(self.transitions.sql(text), task.id)
            found = {"task": record_of(r.Task, row["t"]), "attempt": record_of(r.Attempt, row["a"])}
            self.made_of.append("load")
            return Renewing(command=None, session=None, cursor=None, clock=clock_of(row), **found)

        def recall(memory):
            known, clock = memory.leased(task.id), memory.clock(task.scope_id)
            if known is None or clock is None:
                return None
            self.made_of.append("memory")
            return Renewing(
                command=None, session=None, cursor=None, task=known.task, attempt=known.attempt, clock=clock
            )

        def decide(asked, fresh):
            return self.verdict(asked.task, asked.clock, **more)

        return await self.transitions.run(task.id, load, decide, recall=recall)

    def verdict(self, task, clock, **more):
        draft = Draft()
        draft.guard(Guard(kind="task", id=task.id, version=task.version))
        draft.write(replace(task, run_id=f"at {clock.now}"))
        return replace(draft.accepted(task.version, clock), **more)


@pytest.fixture
async def leases(store, blank, database, monkeypatch, patient):
    """All connections are there already: with a new one everything is forgotten. The machine may be slow."""
    monkeypatch.setattr(remembered, "FRESH_S", 60.0)
    monkeypatch.setattr(remembered, "LAG_MS", 60_000)
    monkeypatch.setattr(remembered, "REST_S", 3_600.0)
    held = [await store.pool.acquire() for _ in range(store.pool.get_max_size())]
    for connection in held:
        await store.pool.release(connection)
    return Leases(store, blank, store.transitions)


async def test_what_was_loaded_and_what_was_written_needs_no_load(leases):
    task = await leases.task()
    assert [await leases.change(task) for _ in range(4)] == [0, 1, 2, 3]
    assert leases.made_of == ["load", "memory", "memory", "memory"]
    assert await leases.store.version(task) == 4


async def test_a_miss_is_decided_by_a_load_and_then_memory_rests(leases):
    """Whoever changed this task may change others too."""
    task, other = await leases.task(), await leases.task()
    await leases.change(task)
    await leases.change(other)
    await leases.store.pool.execute("update task set version = 7 where id = $1", task.id)
    assert await leases.change(task) == 7
    assert [await leases.change(task), await leases.change(other)] == [8, 1]
    assert leases.made_of == ["load", "load", "memory", "load", "load", "load"]


async def test_it_comes_back_after_its_rest(leases, monkeypatch):
    monkeypatch.setattr(remembered, "REST_S", 0.0)
    task = await leases.task()
    await leases.change(task)
    await leases.store.pool.execute("update task set version = 7 where id = $1", task.id)
    assert [await leases.change(task), await leases.change(task)] == [7, 8]
    assert leases.made_of == ["load", "memory", "load", "memory"]


@pytest.mark.parametrize("kind", [Rejected, Replay])
async def test_only_an_acceptance_is_made_of_memory(leases, kind):
    """The load has the last word, whatever it says."""
    task = await leases.task()
    await leases.change(task)
    verdicts = [Rejected(code="conflict"), Replay(reply="by the load")]
    if kind is Replay:
        verdicts = [Replay(reply="by memory"), Rejected(code="busy")]
    leases.verdict = lambda task, clock: verdicts.pop(0)
    if kind is Replay:
        with pytest.raises(Refusal, match="busy"):
            await leases.change(task)
    else:
        assert await leases.change(task) == "by the load"
    assert leases.made_of == ["load", "memory", "load"]


async def test_a_taken_key_is_a_miss(leases, blank):
    task = await leases.task()
    await leases.change(task)
    binding = blank(r.Submission, key=f"taken {task.id}")
    assert await leases.store.apply(Accepted(reply=None, records=(binding,)))
    usual = leases.verdict
    leases.verdict = lambda task, clock: (
        replace(usual(task, clock), records=(binding,)) if leases.made_of[-1] == "memory" else Replay(reply="taken")
    )
    assert await leases.change(task) == "taken"
    assert leases.made_of == ["load", "memory", "load"]
    assert await leases.store.version(task) == 1


@pytest.mark.parametrize("shared", [False, True])
async def test_a_date_that_the_database_finds_late_is_not_believed(leases, monkeypatch, shared):
    """However our own clock ran meanwhile."""
    task = await leases.task()
    await leases.change(task)
    monkeypatch.setattr(remembered, "LAG_MS", 250)
    leases.memory._ahead -= 1_000
    if shared:
        with leases.transitions._group.under_way():
            change = asyncio.create_task(leases.change(task))
            async with asyncio.timeout(PATIENCE_S):
                while not leases.transitions._group._waiting:
                    await asyncio.sleep(0.001)
        assert await change == 1
    else:
        assert await leases.change(task) == 1
    assert leases.made_of[:3] == ["load", "memory", "load"]
    now = await leases.store.pool.fetchval("select extract(epoch from clock_timestamp()) * 1000")
    dated = int((await leases.store.pool.fetchval("select run_id from task where id = $1", task.id))[3:])
    assert now - dated < PATIENCE_S * 1_000


async def test_a_bound_of_the_decision_stays(leases):
    """The earlier of the two counts."""
    task = await leases.task()
    await leases.change(task)
    with pytest.raises(Refusal, match="kept changing"):
        await leases.change(task, valid_until_real=1)
    assert leases.made_of[:3] == ["load", "memory", "load"]
    assert await leases.store.version(task) == 1


async def changed_together(leases, tasks):
    """What the changes reply; they gather behind an apply that is under way, so one call has them all."""
    group = leases.transitions._group
    with group.under_way():
        changes = [asyncio.create_task(leases.change(task)) for task in tasks]
        async with asyncio.timeout(PATIENCE_S):
            while len(group._waiting) < len(tasks):
                await asyncio.sleep(0.001)
    return await asyncio.gather(*changes)


async def test_decisions_of_memory_share_a_call(leases):
    """One that misses is decided by a load like the others, and all are applied."""
    tasks = [await leases.task() for _ in range(3)]
    for task in tasks:
        await leases.change(task)
    await leases.store.pool.execute("update task set version = 7 where id = $1", tasks[1].id)
    assert await changed_together(leases, tasks) == [1, 7, 1]
    assert leases.made_of.count("memory") == 3
    assert [await leases.store.version(task) for task in tasks] == [2, 8, 2]


async def test_what_was_applied_together_is_remembered(leases):
    tasks = [await leases.task() for _ in range(3)]
    for task in tasks:
        await leases.change(task)
    assert await changed_together(leases, tasks) == [1, 1, 1]
    assert [await leases.change(task) for task in tasks] == [2, 2, 2]
    assert leases.made_of == 3 * ["load"] + 6 * ["memory"]


async def test_with_a_new_connection_all_is_forgotten(leases, database):
    """It may lead to another server, with other records of the same versions."""
    task = await leases.task()
    await leases.change(task)
    await (await open_pool(database, size=1)).close()
    assert await leases.change(task) == 1
    assert leases.made_of == ["load", "load"]


async def test_clocks_of_scopes_are_guards(store, leases, blank):
    """An advance is a miss, and nothing is dated by the time of before."""
    text = "insert into scope (tenant, namespace) values ('remembered', 'clock') returning id"
    scope_id = await store.pool.fetchval(text)
    own = Leases(store, blank, Transitions(store.pool, on_commit=store.wakes.extend, virtual=True))
    task = await own.task(scope_id)
    assert [await own.change(task), await own.change(task)] == [0, 1]
    async with store.pool.acquire() as connection:
        await virtual_time.advance(connection, scope_id, by=86_400_000, hold=False)
    now = await store.pool.fetchval("select extract(epoch from clock_timestamp()) * 1000")
    assert await own.change(task) == 2
    assert own.made_of == ["load", "memory", "memory", "load"]
    dated = int((await store.pool.fetchval("select run_id from task where id = $1", task.id))[3:])
    assert dated >= now + 86_400_000 - 1


def told(memory, now):
    memory.learn(Renewing(command=None, session=None, cursor=None, task=None, attempt=None, clock=Clock(now=now)))


@pytest.fixture
def ticking(monkeypatch):
    """Our clock, in seconds, moved by hand."""
    at = [100.0]
    monkeypatch.setattr("protocol3.store.remembered.time.monotonic", lambda: at[0])
    return at


def test_dates_go_on_from_the_best_look_and_never_back(ticking):
    memory = Memory()
    told(memory, None)  # of a scope of its own clock in which nothing was found
    assert not memory.ready
    told(memory, 1_000_000)
    assert memory.ready
    ticking[0] += 0.1
    assert memory.clock(1) == Clock(now=1_000_100)
    told(memory, 1_000_090)  # it took ten milliseconds to come
    assert memory.clock(1) == Clock(now=1_000_100)
    told(memory, 1_000_102)
    assert memory.clock(1) == Clock(now=1_000_102)
    ticking[0] += remembered.FRESH_S + 0.01
    assert not memory.ready
    told(memory, 1_000_352)
    assert memory.ready
    assert memory.clock(1) == Clock(now=1_000_352)


def test_a_clock_that_was_set_back_dates_nothing(ticking):
    memory = Memory()
    told(memory, 1_000_000)
    assert memory.clock(1) == Clock(now=1_000_000)
    ticking[0] += remembered.FRESH_S + 0.01
    told(memory, 1_000_000 - remembered.LAG_MS)
    assert memory.clock(1) == Clock(now=1_000_000)
    ticking[0] += remembered.FRESH_S + 0.01
    told(memory, 1_000_000 - remembered.LAG_MS - 1)
    assert memory.clock(1) is None


def test_so_many_and_those_that_were_used_last(monkeypatch, blank):
    monkeypatch.setattr(remembered, "MOST", 2)
    memory = Memory()
    for name in ("first", "second"):
        memory.committed(Accepted(reply=None, records=(blank(r.Session, id=name),)))
    assert memory.session("first") is not None
    memory.committed(Accepted(reply=None, records=(blank(r.Session, id="third"),)))
    assert [memory.session(name) is not None for name in ("first", "second", "third")] == [True, False, True]


def test_a_task_without_attempt_is_forgotten(blank):
    """Whatever ends leaves nothing behind."""
    memory = Memory()
    task = blank(r.Task, id="task", current_attempt_id="attempt", version=0)
    attempt = blank(r.Attempt, id="attempt", task_id="task")
    memory.committed(Accepted(reply=None, records=(task, attempt)))
    assert memory.leased("task") is not None
    guard = Guard(kind="task", id="task", version=0)
    ended = replace(task, current_attempt_id=None)
    memory.committed(Accepted(reply=None, records=(ended, attempt), guards=(guard,)))
    assert memory.leased("task") is None
    assert not memory._known


@pytest.fixture
def activation(blank):
    """A memory that has loaded an activation, its task at version 3 and its workflow at 5, and what it loaded."""
    named = Named(
        scope_id=1,
        activation=blank(r.Activation, task_id="task", workflow_id="flow"),
        workflow=blank(r.Workflow, id="flow", activation_id="task", version=5),
        task=blank(r.Task, id="task", current_attempt_id="attempt", version=3),
        attempt=blank(r.Attempt, id="attempt", task_id="task"),
    )
    memory = Memory()
    memory.learn(LocalState(named=named, stored=None, clock=Clock(now=1)))
    return memory, named


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize("kind", ["task", "workflow"])
def test_a_commit_carries_along_what_it_was_made_of(activation, kind, version):
    """An activation is true at one version of its task and one of its workflow."""
    memory, named = activation
    version += 2 * (kind == "workflow")
    record = getattr(named, kind)
    guard = Guard(kind=kind, id=record.id, version=version)
    memory.committed(Accepted(reply=None, records=(record, named.attempt)[: 1 + (kind == "task")], guards=(guard,)))
    leased = memory.leased("task")
    assert leased.task.version == (version + 1 if kind == "task" else 3)
    if version == record.version:
        assert leased.activation == named.activation
        assert leased.workflow.version == (version + 1 if kind == "workflow" else 5)
    else:
        assert (leased.activation, leased.workflow) == (None, None)
    assert leased.attempt == named.attempt


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_load_completes_what_is_known_at_its_version(activation, version):
    memory, named = activation
    task = replace(named.task, version=version)
    memory.learn(
        Renewing(command=None, session=None, cursor=None, task=task, attempt=named.attempt, clock=Clock(now=1))
    )
    leased = memory.leased("task")
    assert leased.task == task
    assert (leased.activation, leased.workflow) == (
        (named.activation, named.workflow) if version == 3 else (None, None)
    )
