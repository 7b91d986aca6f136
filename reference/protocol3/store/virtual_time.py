"""Scopes with a clock of their own, for test controls alone: nothing else imports this (spec/35-testing-profiles.md).

A scope is ahead of the database's clock by `scope.clock_offset_ms`, which only grows (TST-011, TST-018). It is a guard
of every apply, so whoever decided by the former clock misses and decides again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import asyncpg

from protocol3.contract.limits import MAX_TIMESTAMP_MS
from protocol3.store.clock import REAL
from protocol3.store.connections import Connection
from protocol3.store.transition import LOCKED_TRIES

#: The latest time of a scope: what the contract counts from now on, a day at most each, must still have an instant.
LATEST: Final = MAX_TIMESTAMP_MS - 2 * 86_400_000

_PREPARE: Final = """
select pg_advisory_xact_lock(hashtext('protocol3.virtual_time'));
create index if not exists agenda_of_scope on agenda (scope_id, due);
create index if not exists scope_ahead on scope (id) where clock_offset_ms > 0;
"""

#: What is due in scopes that are ahead; what is due by the database's clock is due there as well and found without.
DUE_AHEAD: Final = f"""
select found.a from scope s cross join lateral (
  select a, a.due, a.kind, a.ref from agenda a
  where a.scope_id = s.id and a.due <= (select {REAL}) + s.clock_offset_ms and (a.due, a.kind, a.ref) > ($1, $2, $3)
  order by a.due, a.kind, a.ref limit $4) found
where s.clock_offset_ms > 0 order by found.due, found.kind, found.ref limit $4
"""
#: The next due instant by the database's clock, of all scopes.
NEXT_DUE: Final = f"""
select least(
  (select min(due) from agenda),
  (select min(first.due - s.clock_offset_ms) from scope s cross join lateral (
    select a.due from agenda a where a.scope_id = s.id order by a.due limit 1) first
  where s.clock_offset_ms > 0)) as due, {REAL} as now
"""

_HOLD_CLOCK: Final = "select from scope where id = $1 for no key update"
_READ: Final = f"""
select clock.now, leases.ends as leases, leases.live, least(
  (select min(a.due) from agenda a where a.scope_id = s.id and a.kind <> 'lease'),
  (select min(q.available_at) from task q where q.scope_id = s.id and q.state = 'queued' and q.available_at > clock.now)
) as others
from scope s
cross join lateral (select {REAL} + s.clock_offset_ms as now) clock
cross join lateral (
  select min(least(t.lease_expires_at, t.authority_deadline)) as ends,
    count(*) filter (where clock.now < least(t.lease_expires_at, t.authority_deadline)) as live
  from agenda a
  join task on task.id = a.ref
  join attempt t on t.id = task.current_attempt_id
  where a.scope_id = s.id and a.kind = 'lease') leases
where s.id = $1
"""
_ADVANCE: Final = "update scope set clock_offset_ms = clock_offset_ms + $2 where id = $1"
_MOVE_SESSIONS: Final = """
with live as (select id from session where scope_id = $1 and expires_at > $2 order by id for no key update)
update session s set expires_at = s.expires_at + $3, version = s.version + 1 from live where s.id = live.id
"""
_MOVE_ATTEMPTS: Final = """
with live as (
  select task.id, t.id as attempt_id from agenda a
  join task on task.id = a.ref
  join attempt t on t.id = task.current_attempt_id
  where a.scope_id = $1 and a.kind = 'lease' and $2 < least(t.lease_expires_at, t.authority_deadline)
  order by task.id for no key update of task),
changed as (update task set version = version + 1 from live where task.id = live.id),
moved as (
  update attempt t set deadline = t.deadline + $3, authority_deadline = t.authority_deadline + $3,
    lease_expires_at = t.lease_expires_at + $3 from live where t.id = live.attempt_id)
update agenda a set due = a.due + $3 from live where a.kind = 'lease' and a.ref = live.id
"""
# Whoever handles one of them right now keeps it: it is locked, or a newer version misses.
_HURRY: Final = f"""
with waiting as (
  select id from obligation where scope_id = $1 and ready_real > (select {REAL}) for update skip locked)
update obligation o set ready_real = {REAL} from waiting where o.id = waiting.id
"""


class BeyondTime(Exception):
    """TST-017: the advance would take the scope past `LATEST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A scope's time, and what is due next in it: the end of a lease, or another thing; None where nothing is.

    What is due already and not handled yet counts. `live_attempts` are those whose lease runs.
    """

    now: int
    lease_end: int | None
    other_due: int | None
    live_attempts: int

    @property
    def next_due(self) -> int | None:
        return min((due for due in (self.lease_end, self.other_due) if due is not None), default=None)


async def prepare(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    """Make the indices that only scopes with a clock of their own need."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(_PREPARE)


async def read(connection: Connection, scope_id: int) -> Times:
    """The times of a scope, from one snapshot."""
    row = await connection.fetchrow(_READ, scope_id)
    assert row is not None
    return Times(now=row["now"], lease_end=row["leases"], other_due=row["others"], live_attempts=row["live"])


async def advance(connection: Connection, scope_id: int, *, by: int | None, hold: bool) -> int:
    """Move a scope ahead in one transaction and return by how much. Raises BeyondTime and changes nothing (TST-011).

    TST-010, TST-014 to TST-016.

    `by` None: to what is due next. With `hold` live sessions and attempts move along as if they were renewed all the
    time, and the ends of their leases are not what is due next. A transition that a fault rule holds takes its locks in
    another order, so an advance that meets one may be the victim of a deadlock, and is tried again.
    """
    for _ in range(LOCKED_TRIES - 1):
        with suppress(asyncpg.DeadlockDetectedError):
            return await _advance(connection, scope_id, by, hold)
    return await _advance(connection, scope_id, by, hold)


async def _advance(connection: Connection, scope_id: int, by: int | None, hold: bool) -> int:
    async with connection.transaction():
        await connection.fetchrow(_HOLD_CLOCK, scope_id)  # from here on no decision of the scope is applied
        times = await read(connection, scope_id)  # a later statement: it sees what the lock waited for
        if by is None:
            due = times.other_due if hold else times.next_due
            by = 0 if due is None else max(due - times.now, 0)
        if times.now + by > LATEST:
            raise BeyondTime
        await connection.execute(_ADVANCE, scope_id, by)
        if hold:
            await connection.execute(_MOVE_SESSIONS, scope_id, times.now, by)
            await connection.execute(_MOVE_ATTEMPTS, scope_id, times.now, by)
        await connection.execute(_HURRY, scope_id)
    return by
