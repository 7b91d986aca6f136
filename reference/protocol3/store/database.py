"""Opening a database: the pool, the schema, migrations, and scopes.

The minimum server version is what the SQL needs. Tests run on the embedded 18.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import asyncpg

from protocol3.store.apply_sql import apply_functions
from protocol3.store.connections import Connection
from protocol3.store.outage import CONNECT_S, CutOff, DatabaseError, OnChange, Watch

__all__ = ["DatabaseError", "is_ahead", "is_current", "is_read_only", "migrate", "open_pool"]

SCHEMA = "protocol3"
MINIMUM_SERVER = 150000
#: One coordinator gains nothing from more connections on few cores, and longer queues cost p99.
POOL_SIZE = 8

#: Every statement of ours looks rows up by an index, whatever the statistics of the moment say. A plan is made once for
#: a connection, maybe on an empty table, and must still be right when the table has grown.
PLANNING: Final[Mapping[str, str]] = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
}

#: Seconds for a statement, as long as an exchange lives (HTTP-080).
STATEMENT_S: Final = 30
#: The server's own limits, for what a coordinator that was cut off or stands still left behind. Later than ours.
LIMITS: Final[Mapping[str, str]] = {
    "statement_timeout": f"{STATEMENT_S + 1}s",
    "idle_in_transaction_session_timeout": f"{STATEMENT_S}s",
}


async def open_pool(
    dsn: str, *, size: int = POOL_SIZE, on_change: OnChange = lambda _: None
) -> asyncpg.Pool[asyncpg.Record]:
    """A pool whose connections see only our schema, made when they are needed; close it with `outage.close`.

    Raises what keeps the first one from being made. Later on, whoever acquires one gets DatabaseAway while none can be
    made; `on_change` is told why when that begins, and None when it ends.
    """

    async def keep(_: object) -> None:
        """Sessions hold no state between transitions, so a release needs no round trip."""

    pool = await asyncpg.create_pool(
        dsn,
        min_size=0,  # what must be there at all times would be made again and again, with a traceback for each failure
        max_size=size,
        max_inactive_connection_lifetime=0,  # a new one has to learn every row type again
        max_queries=sys.maxsize,  # likewise: however many statements it ran
        connect=Watch(on_change).connect,
        connection_class=CutOff,
        timeout=CONNECT_S,
        command_timeout=STATEMENT_S,
        reset=keep,
        server_settings={"search_path": SCHEMA, "application_name": "protocol3", **PLANNING, **LIMITS},
    )
    try:
        async with pool.acquire():
            return pool
    except BaseException:
        pool.terminate()
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """Connections of a pool: the most there may be, open ones, those in use; and callers that wait for one."""

    most: int
    open: int
    in_use: int
    waiting: int


def pool_state(pool: asyncpg.Pool[asyncpg.Record]) -> PoolState:
    """As it stands now. asyncpg tells nobody who waits, so its queue is looked at; a test holds that."""
    size = pool.get_size()
    waiting = sum(not getter.done() for getter in pool._queue._getters)  # type: ignore[attr-defined]  # private to both
    return PoolState(most=pool.get_max_size(), open=size, in_use=size - pool.get_idle_size(), waiting=waiting)


async def migrate(dsn: str) -> list[str]:
    """Bring the schema up to date in one transaction; the names of the migrations that ran.

    Concurrent callers wait for each other. Raises DatabaseError when the server is too old or not UTF-8, or when a
    newer version migrated the database.
    """
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        if int(await connection.fetchval("show server_version_num")) < MINIMUM_SERVER:
            raise DatabaseError("the PostgreSQL server is older than 15; use a newer one")
        if await connection.fetchval("show server_encoding") != "UTF8":
            raise DatabaseError("the database is not encoded in UTF8; create one: createdb -E UTF8 -T template0 NAME")
        async with connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(hashtext('protocol3.migrate'))")
            return await _migrate(connection)
    finally:
        await connection.close()


async def _migrate(connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
    await connection.execute(f"create schema if not exists {SCHEMA}; set local search_path to {SCHEMA}")
    await connection.execute(
        "create table if not exists migration (name text primary key, applied_at timestamptz not null default now())"
    )
    done = await _done(connection)
    new = [text for text in _texts() if text.name not in done]
    for text in new:
        await connection.execute(text.read_text(encoding="utf-8"))
        await connection.execute("insert into migration (name) values ($1)", text.name)
    await connection.execute(apply_functions())
    return [text.name for text in new]


def _texts() -> list[Traversable]:
    found = (f for f in files(__package__).joinpath("migrations").iterdir() if f.name.endswith(".sql"))
    return sorted(found, key=lambda f: f.name)


async def _done(connection: Connection) -> set[str]:
    """The migrations that ran. Raises DatabaseError when one is unknown here: its tables may differ from ours."""
    done = {row["name"] for row in await connection.fetch(f"select name from {SCHEMA}.migration")}
    if not done <= {text.name for text in _texts()}:
        raise DatabaseError("a newer protocol3 migrated this database: run that version, or use another database")
    return done


async def is_current(connection: Connection) -> bool:
    """True when every migration of this code has run on the database. Raises DatabaseError when others have."""
    if await connection.fetchval("select to_regclass($1)", f"{SCHEMA}.migration") is None:
        return False
    return {text.name for text in _texts()} <= await _done(connection)


async def is_read_only(connection: Connection) -> bool:
    """True on a standby, and where the database or the role says so."""
    return bool(await connection.fetchval("show transaction_read_only") == "on")


async def is_ahead(connection: Connection) -> bool:
    """True when test controls advanced the clock of a scope: without them its time would fall back."""
    text = f"select exists (select from {SCHEMA}.scope where clock_offset_ms > 0)"
    return bool(await connection.fetchval(text))
