"""Everything or nothing, under guards (design 4): what `apply` writes, when it misses, what the locked form does."""

from __future__ import annotations

from dataclasses import replace

import asyncpg
import pytest

from protocol3.contract.refusal import Refusal
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Guard, QueueWake, Rejected, Replay

PATIENCE_S = 20.0


async def test_a_changed_record_gets_the_next_version(store):
    """The engine counts; decisions never touch `version`."""
    task = await store.task()
    assert await store.apply(store.changing(task, state="cancelled"))
    assert await store.version(task) == 1


async def test_a_stale_guard_is_a_miss_and_nothing_is_written(store):
    """DLV-120: none of the rows."""
    task = await store.task()
    assert await store.apply(store.changing(task))
    stale = store.changing(task, state="cancelled")
    record = r.History(task_id=task.id, sequence=1, at=1, reason="cancelled", attempt_id=None)
    assert not await store.apply(replace(stale, records=(*stale.records, record)))
    assert await store.pool.fetchval("select state from task where id = $1", task.id) == "queued"
    assert await store.pool.fetchval("select count(*) from history where task_id = $1", task.id) == 0


async def test_a_seen_guard_is_compared_and_not_counted(store):
    """Relying on a record leaves its version alone."""
    task = await store.task()
    guard = Guard(kind="task", id=task.id, version=0, seen=True)
    assert await store.apply(Accepted(reply=None, guards=(guard,)))
    assert await store.version(task) == 0
    assert not await store.apply(Accepted(reply=None, guards=(replace(guard, version=1),)))


async def test_a_missing_record_is_a_miss(store):
    """A guard on a row that is gone never holds."""
    guard = Guard(kind="obligation", id="none", version=0)
    assert not await store.apply(Accepted(reply=None, guards=(guard,)))


async def test_an_unguarded_change_of_a_guarded_record_is_an_error(store):
    """A lost update is impossible: a new row over an existing one is refused."""
    task = await store.task()
    with pytest.raises(asyncpg.SerializationError):
        await store.apply(Accepted(reply=None, records=(task,)))


async def test_a_decision_that_is_over_is_a_miss(store):
    """The clock is read after the locks; at the bound it is over (TASK-045)."""
    task = await store.task()
    now = await store.pool.fetchval("select floor(extract(epoch from clock_timestamp()) * 1000)::bigint")
    assert not await store.apply(replace(store.changing(task), valid_until_real=now))
    assert await store.apply(replace(store.changing(task), valid_until_real=now + 60_000))


async def test_the_last_of_two_writes_counts(store):
    """A decision built from smaller steps may write a record twice."""
    task = await store.task()
    verdict = store.changing(task, state="active")
    assert await store.apply(replace(verdict, records=(*verdict.records, replace(task, state="cancelled"))))
    assert await store.pool.fetchval("select state from task where id = $1", task.id) == "cancelled"


async def test_obligations_and_agenda_entries_disappear(store, blank):
    """`done` and `unscheduled`, and nothing else."""
    obligations = [blank(r.Obligation, id=f"obl_{n}") for n in range(2)]
    entries = [blank(r.Agenda, kind=kind, ref=ref) for kind in ("lease", "wait") for ref in ("u1", "u2")]
    assert await store.apply(Accepted(reply=None, records=(*obligations, *entries)))
    gone = (("lease", "u1"), ("wait", "u2"))
    assert await store.apply(Accepted(reply=None, done=("obl_0",), unscheduled=gone))
    assert [row["id"] for row in await store.pool.fetch("select id from obligation where id like 'obl__'")] == ["obl_1"]
    rows = await store.pool.fetch("select kind, ref from agenda where ref like 'u_' order by kind, ref")
    assert [tuple(row) for row in rows] == [("lease", "u2"), ("wait", "u1")]


def _loader(store, task):
    async def load(connection):
        row = await connection.fetchrow("select version, state from task where id = $1", task.id)
        return replace(task, version=row["version"], state=row["state"])

    return load


async def test_a_miss_is_decided_again(store):
    """The second decision sees what the first one missed; wakes follow the commit once."""
    task = await store.task()
    seen = []

    async def load(connection):
        loaded = await _loader(store, task)(connection)
        if not seen:
            assert await store.apply(store.changing(loaded))  # somebody is faster
        seen.append(loaded.version)
        return loaded

    def decide(loaded, fresh):
        return replace(store.changing(loaded), wakes=(QueueWake(scope_id=1, queue="q"),))

    assert await store.transitions.run("key", load, decide) == "done"
    assert seen == [0, 1]
    assert store.wakes == [QueueWake(scope_id=1, queue="q")]
    assert await store.version(task) == 2


async def test_a_refusal_by_time_is_decided_again_under_locks(store):
    """N2: the first snapshot is older than its clock."""
    task = await store.task()
    guard = Guard(kind="task", id=task.id, version=0)
    verdicts = [Rejected(code="ownership_lost", guards=(guard,)), Replay(reply="renewed meanwhile")]
    reply = await store.transitions.run("key", _loader(store, task), lambda loaded, fresh: verdicts.pop(0))
    assert reply == "renewed meanwhile"


async def test_a_taken_unique_key_is_a_miss(store, blank):
    """TASK-110: the loser decides again and finds the winner."""
    winner = blank(r.Submission, key="unique")

    async def load(connection):
        row = await connection.fetchrow("select subject_id from submission where key = 'unique'")
        return row and row["subject_id"]

    def decide(found, fresh):
        if found is not None:
            return Replay(reply=found)
        return Accepted(reply="never", records=(replace(winner, subject_id="loser"),))

    async def load_then_lose(connection):
        found = await load(connection)
        if found is None:
            assert await store.apply(Accepted(reply=None, records=(replace(winner, subject_id="winner"),)))
        return found

    assert await store.transitions.run("key", load_then_lose, decide) == "winner"


async def test_guards_that_never_hold_end_as_unavailable(store):
    """Bounded: the caller repeats the command."""
    task = await store.task()
    verdict = Accepted(reply=None, guards=(Guard(kind="task", id=task.id, version=99),))
    with pytest.raises(Refusal) as refused:
        await store.transitions.run("key", _loader(store, task), lambda loaded, fresh: verdict)
    assert refused.value.code == "unavailable"


async def test_identifiers_are_drawn_anew_for_each_decision(store):
    """TASK-043: two transitions never share them."""
    task = await store.task()
    drawn = []

    def decide(loaded, fresh):
        drawn.append(fresh("att"))
        return Replay(reply=None)

    for _ in range(2):
        await store.transitions.run("key", _loader(store, task), decide)
    assert len(set(drawn)) == 2
