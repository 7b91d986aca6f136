"""Sessions, cursors, and the attempts of owners who renew, settle and confirm."""

from __future__ import annotations

from asyncpg import Record

from protocol3.contract.models.common import LeaseOwner
from protocol3.contract.models.delivery import AcquireCommand, RenewCommand, SettleCommand, SettlementReceipt
from protocol3.core.acquisition import Poll
from protocol3.core.records import Attempt, Cursor, Session, Task, TaskBody
from protocol3.core.renewal import Renewing
from protocol3.core.settlement import Confirming, EncodedCommand, Settling
from protocol3.core.task_views import report_identity
from protocol3.core.verdict import Clock
from protocol3.store.clock import Sql, clock_of
from protocol3.store.connections import Reads
from protocol3.store.remembered import Memory, Recall
from protocol3.store.tables import record_of
from protocol3.store.transition import Load

_NOW = "select {now(scope.id)} as now from scope where id = $1"
_SESSION = "select s, {now(s.scope_id)} as now from (select) one left join session s on s.id = $1"
_POLL = """
select {now(s.scope_id)} as now, s, c, t, a, b, coalesce((
  select true from task q where q.scope_id = s.scope_id and q.queue = s.queue and q.state = 'queued'
    and q.available_at <= (select {now(s.scope_id)}) order by q.available_at limit 1), false) as work
from (select) one
left join session s on s.id = $1
left join cursor c on c.session_id = s.id and c.consumer_id = $2
left join task t on t.id = c.task_id
left join attempt a on a.id = c.attempt_id
left join task_body b on b.task_id = t.id and c.sequence = $3
"""
_RENEWING = """
select {now(s.scope_id)} as now, s, c, t, a from (select) one
left join session s on s.id = $1
left join cursor c on c.session_id = s.id and c.consumer_id = $2
left join task t on t.id = $3 and t.scope_id = $4
left join attempt a on a.id = $5 and a.task_id = t.id
"""
#: What `settling_of` reads, and {more} columns.
SETTLING = """
select {{now($2)}} as now, t, a, tb.descriptor, tb.origin_trace, r.operation_id, r.accepted_at, r.identity{more}
from (select) one
left join task t on t.id = $1 and t.scope_id = $2
left join task_body tb on tb.task_id = t.id
left join attempt a on a.id = $3 and a.task_id = t.id
left join settlement r on r.attempt_id = a.id
"""
_SETTLING = SETTLING.format(more="")
_CONFIRMING = """
select {now($2)} as now, t, a from (select) one
left join task t on t.id = $1 and t.scope_id = $2
left join attempt a on a.id = $3 and a.task_id = t.id
"""


def clock(sql: Sql, scope_id: int) -> Load[Clock]:
    """The time of a scope alone."""

    async def load(reads: Reads) -> Clock:
        row = await reads.fetchrow(sql(_NOW), scope_id)
        assert row is not None
        return clock_of(row)

    return load


def session(sql: Sql, session_id: str) -> Load[tuple[Session | None, Clock]]:
    """A worker session, with the time of its scope."""

    async def load(reads: Reads) -> tuple[Session | None, Clock]:
        row = await reads.fetchrow(sql(_SESSION), session_id)
        assert row is not None
        return record_of(Session, row["s"]), clock_of(row)

    return load


def poll(sql: Sql, scope_id: int | None, command: AcquireCommand) -> Load[Poll]:
    """The consumer of a poll with its latest acquisition; the body only for a repeated sequence."""

    async def load(reads: Reads) -> Poll:
        row = await reads.fetchrow(
            sql(_POLL), command.worker_session_id, command.consumer_id, min(command.sequence, 2**63 - 1)
        )
        assert row is not None
        return Poll(
            command=command,
            scope_id=scope_id,
            session=record_of(Session, row["s"]),
            cursor=record_of(Cursor, row["c"]),
            task=record_of(Task, row["t"]),
            attempt=record_of(Attempt, row["a"]),
            body=record_of(TaskBody, row["b"]),
            work=row["work"],
            clock=clock_of(row),
        )

    return load


def renewing(sql: Sql, scope_id: int | None, command: RenewCommand) -> Load[Renewing]:
    """What a renewal relies on and changes."""
    owner = command.owner

    async def load(reads: Reads) -> Renewing:
        row = await reads.fetchrow(
            sql(_RENEWING), owner.worker_session_id, owner.consumer_id, owner.task_id, scope_id, owner.attempt_id
        )
        assert row is not None
        return Renewing(
            command=command,
            session=record_of(Session, row["s"]),
            cursor=record_of(Cursor, row["c"]),
            task=record_of(Task, row["t"]),
            attempt=record_of(Attempt, row["a"]),
            clock=clock_of(row),
        )

    return load


def recalled_renewal(scope_id: int | None, command: RenewCommand) -> Recall[Renewing]:
    """`renewing` from memory."""
    owner = command.owner

    def recall(memory: Memory) -> Renewing | None:
        session, leased = memory.session(owner.worker_session_id), memory.leased(owner.task_id)
        cursor = memory.cursor(owner.worker_session_id, owner.consumer_id)
        if session is None or cursor is None or leased is None:
            return None
        task, attempt, clock = leased.task, leased.attempt, memory.clock(session.scope_id)
        if clock is None or task.scope_id != scope_id or attempt.id != owner.attempt_id:
            return None
        return Renewing(command=command, session=session, cursor=cursor, task=task, attempt=attempt, clock=clock)

    return recall


def settling(sql: Sql, scope_id: int, command: SettleCommand, encoded: EncodedCommand) -> Load[Settling]:
    """The attempt of a settlement, the identity its report must carry, and the receipt stored for it."""
    owner = command.owner

    async def load(reads: Reads) -> Settling:
        row = await reads.fetchrow(sql(_SETTLING), owner.task_id, scope_id, owner.attempt_id)
        assert row is not None
        return settling_of(row, command, encoded)

    return load


def settling_of(row: Record, command: SettleCommand, encoded: EncodedCommand) -> Settling:
    """A command with what a row of `SETTLING` found under its names."""
    owner = command.owner
    task, attempt = record_of(Task, row["t"]), record_of(Attempt, row["a"])
    expected = receipt = None
    if attempt is not None:
        expected = report_identity(owner.scope, task, attempt, row["descriptor"], row["origin_trace"])
    if row["accepted_at"] is not None:
        receipt = SettlementReceipt(
            operation_id=row["operation_id"],
            task_id=owner.task_id,
            attempt_id=owner.attempt_id,
            accepted_at=row["accepted_at"],
        )
    return Settling(
        command=command,
        encoded=encoded,
        task=task,
        attempt=attempt,
        expected=expected,
        receipt=receipt,
        identity=row["identity"],
        clock=clock_of(row),
    )


def confirming(sql: Sql, scope_id: int, owner: LeaseOwner) -> Load[Confirming]:
    """The attempt whose quiescence its owner confirms."""

    async def load(reads: Reads) -> Confirming:
        row = await reads.fetchrow(sql(_CONFIRMING), owner.task_id, scope_id, owner.attempt_id)
        assert row is not None
        return Confirming(
            owner=owner, task=record_of(Task, row["t"]), attempt=record_of(Attempt, row["a"]), clock=clock_of(row)
        )

    return load
