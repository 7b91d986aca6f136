"""What a dispatcher looks at: the work of a queue, and the polls that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from protocol3.contract.models.delivery import AcquireCommand
from protocol3.core.acquisition import Poll
from protocol3.core.records import Attempt, Cursor, Session, Task, TaskBody
from protocol3.store.clock import Sql, clock_of
from protocol3.store.tables import record_of
from protocol3.store.transition import Connection

# The clock is read in a subquery: only a value that is computed once can be looked up in an index. The order makes the
# index of claims the way to the first row.
_WORK = """
select
  (select count(*) from (
    select from task where scope_id = $1 and queue = $2 and state = 'queued' and available_at <= (select {now($1)})
    order by available_at limit $3) due) as ready,
  (select min(available_at) from task where scope_id = $1 and queue = $2 and state = 'queued'
    and available_at > (select {now($1)})) - {now($1)} as ahead
"""
_ANSWERABLE = """
select u.n - 1 as position from unnest($1::text[], $2::bigint[], $3::bigint[])
  with ordinality as u(session_id, consumer_id, sequence, n)
left join session s on s.id = u.session_id
left join cursor c on c.session_id = u.session_id and c.consumer_id = u.consumer_id
where s.id is null or s.expires_at <= {now(s.scope_id)} or c.sequence >= u.sequence
"""
_LOCK = "select lock_claim($1, $2, $3, $4, $5){clock($3)}"
_CLAIMING = """
select {now(s.scope_id)} as now, s, c, t, a, b, k as candidate, d as data
from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality as u(session_id, consumer_id, sequence, n)
left join session s on s.id = u.session_id
left join cursor c on c.session_id = s.id and c.consumer_id = u.consumer_id
left join task t on t.id = c.task_id
left join attempt a on a.id = c.attempt_id
left join task_body b on b.task_id = t.id and c.sequence = u.sequence
left join unnest(coalesce($4::text[], array(
  select id from task where scope_id = $5 and queue = $6 and state = 'queued' and available_at <= (select {now($5)})
  order by available_at, submitted_at, id limit cardinality($1::text[])
))) with ordinality as i(id, n) on i.n = u.n
left join task k on k.id = i.id
left join task_body d on d.task_id = k.id
order by u.n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """`ready`: queued tasks that are due, counted up to the number asked for; `ahead_ms`: until the next one is."""

    ready: int
    ahead_ms: int | None


async def work(connection: Connection, sql: Sql, scope_id: int, queue: str, most: int) -> Work:
    """What a queue holds at this instant (DLV-022)."""
    row = await connection.fetchrow(sql(_WORK), scope_id, queue, most)
    assert row is not None
    return Work(ready=row["ready"], ahead_ms=row["ahead"])


async def answerable(connection: Connection, sql: Sql, commands: Sequence[AcquireCommand]) -> list[int]:
    """Positions of waiting polls that need not wait: their session is over, or their sequence is complete (DLV-032)."""
    sessions, consumers = _consumers(commands)
    rows = await connection.fetch(sql(_ANSWERABLE), sessions, consumers, [c.sequence for c in commands])
    return [row["position"] for row in rows]


async def lock(
    connection: Connection, sql: Sql, scope_id: int, queue: str, commands: Sequence[AcquireCommand]
) -> list[str] | None:
    """Locks the consumers of some polls and as many tasks that are due; their ids, None if there are none (DLV-023)."""
    ids: list[str] | None = await connection.fetchval(sql(_LOCK), *_consumers(commands), scope_id, queue, len(commands))
    return ids


async def claiming(
    connection: Connection,
    sql: Sql,
    scope_id: int,
    queue: str,
    commands: Sequence[AcquireCommand],
    ids: Sequence[str] | None,
) -> tuple[list[Poll], list[tuple[Task, TaskBody]]]:
    """The polls as they stand and as many candidates, from one snapshot.

    The candidates are the tasks that `lock` locked before, or else the first ones that are due.
    """
    sequences = [command.sequence for command in commands]
    rows = await connection.fetch(sql(_CLAIMING), *_consumers(commands), sequences, ids, scope_id, queue)
    polls = [
        Poll(
            command=command,
            scope_id=scope_id,
            session=record_of(Session, row["s"]),
            cursor=record_of(Cursor, row["c"]),
            task=record_of(Task, row["t"]),
            attempt=record_of(Attempt, row["a"]),
            body=record_of(TaskBody, row["b"]),
            work=True,
            clock=clock_of(row),
        )
        for command, row in zip(commands, rows, strict=True)
    ]
    found = [(record_of(Task, row["candidate"]), record_of(TaskBody, row["data"])) for row in rows]
    return polls, [(task, body) for task, body in found if task is not None]


def _consumers(commands: Sequence[AcquireCommand]) -> tuple[list[str], list[int]]:
    return [c.worker_session_id for c in commands], [c.consumer_id for c in commands]
