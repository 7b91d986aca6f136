"""Tasks, their attempts and what was submitted."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.core.finalisation import TaskInHand
from protocol3.core.records import Attempt, History, Settlement, Task, TaskBody
from protocol3.core.submission import SPACE, Submitted
from protocol3.core.verdict import Clock
from protocol3.store.clock import Sql, clock_of
from protocol3.store.connections import Reads
from protocol3.store.tables import record_of, records_of
from protocol3.store.transition import Load

_CURRENT = """
select {now($2)} as now, t, a from (select) one
left join task t on t.id = $1 and t.scope_id = $2
left join attempt a on a.id = t.current_attempt_id
"""
_SUBMITTED = f"""
select {{now($1)}} as now, s.identity, t, b from (select) one
left join submission s on s.scope_id = $1 and s.space = '{SPACE}' and s.key = $2
left join task t on t.id = s.subject_id
left join task_body b on b.task_id = t.id
"""
_STATUS = "select t from task t where t.id = $1 and t.scope_id = $2"
_SNAPSHOT = "select t, b from task t join task_body b on b.task_id = t.id where t.id = $1 and t.scope_id = $2"
_RESULT = """
select t, a, s from task t
left join attempt a on a.id = t.latest_attempt_id and t.state in ('succeeded', 'failed')
left join settlement s on s.attempt_id = a.id
where t.id = $1 and t.scope_id = $2
"""
_ATTEMPT = """
select t, a, b, s from task t
join task_body b on b.task_id = t.id
join attempt a on a.task_id = t.id and a.id = $3
left join settlement s on s.attempt_id = a.id
where t.id = $1 and t.scope_id = $2
"""
_HISTORY = """
select t.id, array(
  select h from history h where h.task_id = t.id and h.sequence > $3 order by h.sequence limit $4
) as records
from task t where t.id = $1 and t.scope_id = $2
"""
_LAST_SEQUENCE = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """An attempt with everything that its snapshot shows, as of one instant."""

    task: Task
    attempt: Attempt
    body: TaskBody
    settlement: Settlement | None


def current(sql: Sql, scope_id: int, task_id: str) -> Load[tuple[TaskInHand | None, Clock]]:
    """A task of a scope with its current attempt."""

    async def load(reads: Reads) -> tuple[TaskInHand | None, Clock]:
        row = await reads.fetchrow(sql(_CURRENT), task_id, scope_id)
        assert row is not None
        task = record_of(Task, row["t"])
        return None if task is None else TaskInHand(task=task, attempt=record_of(Attempt, row["a"])), clock_of(row)

    return load


def submitted(sql: Sql, scope_id: int, key: str) -> Load[tuple[Submitted | None, Clock]]:
    """What an idempotency key stands for."""

    async def load(reads: Reads) -> tuple[Submitted | None, Clock]:
        row = await reads.fetchrow(sql(_SUBMITTED), scope_id, key)
        assert row is not None
        found = None
        if row["identity"] is not None:
            found = Submitted(
                identity=row["identity"], task=record_of(Task, row["t"]), body=record_of(TaskBody, row["b"])
            )
        return found, clock_of(row)

    return load


async def status(reads: Reads, scope_id: int, task_id: str) -> Task | None:
    """The control record of a task in its scope."""
    row = await reads.fetchrow(_STATUS, task_id, scope_id)
    task: Task | None = None if row is None else record_of(Task, row["t"])
    return task


async def snapshot(reads: Reads, scope_id: int, task_id: str) -> tuple[Task, TaskBody] | None:
    """A task with what was submitted."""
    row = await reads.fetchrow(_SNAPSHOT, task_id, scope_id)
    return None if row is None else (record_of(Task, row["t"]), record_of(TaskBody, row["b"]))


async def result(reads: Reads, scope_id: int, task_id: str) -> tuple[Task, Attempt | None, Settlement | None] | None:
    """A task with the attempt that decided it and its settlement, all from one snapshot (TASK-124)."""
    row = await reads.fetchrow(_RESULT, task_id, scope_id)
    if row is None:
        return None
    return record_of(Task, row["t"]), record_of(Attempt, row["a"]), record_of(Settlement, row["s"])


async def attempt(reads: Reads, scope_id: int, task_id: str, attempt_id: str) -> Inspected | None:
    """One attempt of a task, whether current or past (TASK-122, TASK-123)."""
    row = await reads.fetchrow(_ATTEMPT, task_id, scope_id, attempt_id)
    if row is None:
        return None
    return Inspected(
        task=record_of(Task, row["t"]),
        attempt=record_of(Attempt, row["a"]),
        body=record_of(TaskBody, row["b"]),
        settlement=record_of(Settlement, row["s"]),
    )


async def history(reads: Reads, scope_id: int, task_id: str, after: int, limit: int) -> tuple[History, ...] | None:
    """At most `limit` records with a greater sequence, ascending; None for an unknown task (TASK-131)."""
    row = await reads.fetchrow(_HISTORY, task_id, scope_id, min(after, _LAST_SEQUENCE), limit)
    return None if row is None else records_of(History, row["records"])
