"""One PostgreSQL server per test session; one fresh, migrated database per test module that asks for it."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from protocol3.store.database import migrate, open_pool
from protocol3.store.embedded import EmbeddedPostgres

#: The tests have nothing to lose in a power cut; low, so that a wrong lock order shows in a moment.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "deadlock_timeout": "100ms"}

_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """The children of the tests end by signals, even where a script's `&` or `nohup` made us ignore them.

    What is ignored they would inherit, and our commands leave it ignored on purpose.
    """
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, default)


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A server of our own, gone with the session."""
    with EmbeddedPostgres(ephemeral=True, settings=SETTINGS) as server:
        yield server


async def _execute(server: EmbeddedPostgres, statement: str) -> None:
    connection = await asyncpg.connect(server.dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _named(server: EmbeddedPostgres, name: str) -> str:
    return server.dsn.replace("/protocol3?", f"/{name}?")


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres) -> str:
    """The name of a migrated database to clone."""
    asyncio.run(_execute(postgres, "create database migrated"))
    asyncio.run(migrate(_named(postgres, "migrated")))
    return "migrated"


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    """The URL of a database for one module."""
    name = f"module_{next(_numbers)}"
    asyncio.run(_execute(postgres, f"create database {name} template {template}"))
    yield _named(postgres, name)
    asyncio.run(_execute(postgres, f"drop database {name} with (force)"))


@pytest.fixture
async def pool(database: str) -> AsyncIterator[asyncpg.Pool[asyncpg.Record]]:
    """Connections to the module's database."""
    pool = await open_pool(database)
    yield pool
    await pool.close()
