"""What statements are sent on."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

import asyncpg

Connection: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]"
Row: TypeAlias = "asyncpg.Record | None"


class Reads(Protocol):
    """What a load reads with: a connection, or a reader that has none yet (`gathered`)."""

    def fetch(self, query: str, /, *args: object) -> Awaitable[list[asyncpg.Record]]: ...

    def fetchrow(self, query: str, /, *args: object) -> Awaitable[Row]: ...
