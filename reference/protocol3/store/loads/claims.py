"""What a dispatcher looks at: the work of a queue, and the polls that wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from protocol3.contract.models.delivery import AcquireCommand
from protocol3.core.acquisition import Poll
from protocol3.core.records import Attempt, Cursor, Session, Task, TaskBody
from protocol3.core.verdict import Clock
from protocol3.store.clock import Sql, clock_of
from protocol3.store.connections import Connection, Reads
from protocol3.store.tables import record_of

_ANSWERABLE = """
select u.n - 1 as position from unnest($1::text[], $2::bigint[], $3::bigint[])
  with ordinality as u(session_id, consumer_id, sequence, n)
left join session s on s.id = u.session_id
left join cursor c on c.session_id = u.session_id and c.consumer_id = u.consumer_id
where s.id is null or s.expires_at <= {now(s.scope_id)} or c.sequence >= u.sequence
"""
_LOCK = "select lock_claim($1, $2, $3, $4, $5){clock($3)}"
# A poll that need not be judged is only looked at if there is a task for it: a key that is null finds nothing without
# reading a page. So a wake costs what its tasks do, however many polls wait.
#
# The clock is read in a subquery: only a value that is computed once can be looked up in an index.
_TEMPLATE = """
select {{now(s.scope_id)}} as now, p.looked_at, s, c, t, a, b, p.candidate, d as data, (
  select min(available_at) from task where scope_id = $5 and queue = $6 and state = 'queued'
    and available_at > (select {{now($5)}})
) - {{now($5)}} as ahead
from (
  select u.n, u.consumer_id, u.sequence, i.id, i.candidate, u.judged or i.id is not null as looked_at,
    case when u.judged or i.id is not null then u.session_id end as session_id
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[])
    with ordinality as u(session_id, consumer_id, sequence, judged, n)
  left join ({candidates}) as i on i.n = u.n
) as p
left join session s on s.id = p.session_id
left join cursor c on c.session_id = s.id and c.consumer_id = p.consumer_id
left join task t on t.id = c.task_id
left join attempt a on a.id = c.attempt_id
left join task_body b on b.task_id = case when c.sequence = p.sequence then t.id end
left join task_body d on d.task_id = p.id
order by p.n
"""
_DUE = _TEMPLATE.format(
    candidates="""
    select k.id, k as candidate, row_number() over (order by k.available_at, k.submitted_at, k.id) as n from task k
    where k.scope_id = $5 and k.queue = $6 and k.state = 'queued' and k.available_at <= (select {now($5)})
    order by k.available_at, k.submitted_at, k.id limit cardinality($1::text[])"""
)
_GIVEN = _TEMPLATE.format(
    candidates="""
    select k.id, k as candidate, g.n from unnest($7::text[]) with ordinality as g(id, n) join task k on k.id = g.id"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A poll for a claim: `judged` if it is to be judged even if there is no task for it; `last` if it cannot wait."""

    command: AcquireCommand
    judged: bool
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Polls as they stand, None for one that was not looked at, and tasks for them, from one snapshot.

    `ahead_ms`: until the next task of the queue is due.
    """

    polls: list[Poll | None]
    candidates: list[tuple[Task, TaskBody]]
    ahead_ms: int | None

    @property
    def clock(self) -> Clock | None:
        return next((poll.clock for poll in self.polls if poll is not None), None)


async def answerable(reads: Reads, sql: Sql, commands: Sequence[AcquireCommand]) -> list[int]:
    """Positions of waiting polls that need not wait: their session is over, or their sequence is complete (DLV-032)."""
    rows = await reads.fetch(sql(_ANSWERABLE), *_consumers(commands), _sequences(commands))
    return [row["position"] for row in rows]


async def lock(
    connection: Connection, sql: Sql, scope_id: int, queue: str, commands: Sequence[AcquireCommand]
) -> list[str] | None:
    """Locks the consumers of some polls and as many tasks that are due; their ids, None if there are none (DLV-023)."""
    ids: list[str] | None = await connection.fetchval(sql(_LOCK), *_consumers(commands), scope_id, queue, len(commands))
    return ids


async def claiming(
    reads: Reads, sql: Sql, scope_id: int, queue: str, asked: Sequence[Asked], ids: Sequence[str] | None
) -> Found:
    """The polls and at most as many candidates (DLV-022): the tasks that `lock` locked, or else the first ones due."""
    commands = [poll.command for poll in asked]
    polls = *_consumers(commands), _sequences(commands), [poll.judged for poll in asked]
    if ids is None:
        rows = await reads.fetch(sql(_DUE), *polls, scope_id, queue)
    else:
        rows = await reads.fetch(sql(_GIVEN), *polls, scope_id, queue, ids)
    found = [(record_of(Task, row["candidate"]), record_of(TaskBody, row["data"])) for row in rows]
    return Found(
        polls=[_poll(scope_id, poll, row) if row["looked_at"] else None for poll, row in zip(asked, rows, strict=True)],
        candidates=[(task, body) for task, body in found if task is not None],
        ahead_ms=rows[0]["ahead"],
    )


def _poll(scope_id: int, asked: Asked, row: asyncpg.Record) -> Poll:
    return Poll(
        command=asked.command,
        scope_id=scope_id,
        session=record_of(Session, row["s"]),
        cursor=record_of(Cursor, row["c"]),
        task=record_of(Task, row["t"]),
        attempt=record_of(Attempt, row["a"]),
        body=record_of(TaskBody, row["b"]),
        work=row["candidate"] is not None,
        last=asked.last,
        clock=clock_of(row),
    )


def _consumers(commands: Sequence[AcquireCommand]) -> tuple[list[str], list[int]]:
    return [c.worker_session_id for c in commands], [c.consumer_id for c in commands]


def _sequences(commands: Sequence[AcquireCommand]) -> list[int]:
    """As far as the database counts: no cursor comes there."""
    return [min(command.sequence, 2**63 - 1) for command in commands]
