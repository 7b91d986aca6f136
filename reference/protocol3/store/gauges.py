"""What a database holds at this instant, in one statement of bounded cost, for whoever watches it.

Every count goes over rows that are not over yet, by an index, and ends at `MOST`: a figure of that size means "so many
or more". Finished tasks and workflows are never looked at: the orders are those of indexes that leave them out.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import asyncpg

from protocol3.store.clock import timed
from protocol3.store.database import PLANNING, SCHEMA

MOST: Final = 10_000
#: Ordered by an index or not at all: then a count can end at its bound.
_PLANNING: Final = {**PLANNING, "enable_bitmapscan": "off", "enable_sort": "off"}
#: Seconds for everything, connecting included; the server gives the statement up as well.
PATIENCE_S: Final = 2.0

STATEMENT: Final = f"""
with
  owed as (select kind, created_at from obligation order by ready_real limit {MOST}),
  waiting as (select id, wait_key from workflow where wait_key is not null order by wait_key, id limit {MOST}),
  leased as (select from agenda where kind = 'lease' order by ref limit {MOST}),
  queued as (
    select from task where state = 'queued' order by scope_id, queue, available_at, submitted_at, id limit {MOST})
select 'obligations' as of, kind, count(*), greatest({{real}} - min(created_at), 0)::bigint as oldest_ms
from owed group by kind
union all
select 'waits', w.kind, count(*), null from waiting f join wait w on w.workflow_id = f.id and w.key = f.wait_key
group by w.kind
union all select 'leases', null, count(*), null from leased
union all select 'queued', null, count(*), null from queued
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """`of` is obligations, waits, leases or queued; `kind` tells the first two apart; the age is the oldest's."""

    of: str
    kind: str | None
    count: int
    oldest_ms: int | None


class Gauges:
    """Reads the gauges on a connection of its own, so that no exchange waits for one; opened at the first reading."""

    def __init__(self, dsn: str, *, patience_s: float = PATIENCE_S) -> None:
        self._dsn = dsn
        self._patience_s = patience_s
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._mutex = asyncio.Lock()

    async def read(self) -> tuple[Gauge, ...] | None:
        """The gauges, or None when the database did not answer in time, whatever the reason."""
        try:
            async with asyncio.timeout(self._patience_s), self._mutex:
                return await self._read()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError):
            return None

    async def _read(self) -> tuple[Gauge, ...]:
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._connect()
            rows = await self._connection.fetch(timed(STATEMENT))
        except BaseException:
            self.close()
            raise
        return tuple(Gauge(of=r["of"], kind=r["kind"], count=r["count"], oldest_ms=r["oldest_ms"]) for r in rows)

    async def _connect(self) -> asyncpg.Connection[asyncpg.Record]:
        settings = {
            "search_path": SCHEMA,
            "application_name": "protocol3 gauges",
            "default_transaction_read_only": "on",
            "statement_timeout": str(round(self._patience_s * 1000)),
            **_PLANNING,
        }
        return await asyncpg.connect(self._dsn, timeout=self._patience_s, server_settings=settings)

    def close(self) -> None:
        """End the connection at once."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
