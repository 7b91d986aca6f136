"""A database that goes away and comes back, as its connections see it.

Whoever needs a connection while none can be made fails at once with DatabaseAway, which nobody logs: whoever opened the
pool is told once when the database was lost, and once when it is back.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import asyncpg

if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:  # generic in its stubs alone
    _Connection = asyncpg.Connection

#: Seconds for a connection to be made: a machine that does not answer counts as away.
CONNECT_S: Final = 10.0
#: Seconds for the server to confirm that a statement was cancelled.
CANCEL_S: Final = 0.5
#: Seconds for all connections to end in the ordinary way; after that they are dropped.
CLOSE_S: Final = 5.0

OnChange: TypeAlias = Callable[[str | None], None]


class DatabaseError(Exception):
    """The database cannot be used; the message says what to do."""


class DatabaseAway(DatabaseError):
    """No connection can be made at present."""


class CutOff(_Connection):
    """A statement that is cut off, by its time limit or its caller, is cancelled quickly, or its connection ends.

    Whoever rolls back or releases a connection waits for its cancellation first, and a server that stalls would let
    asyncpg wait for as long as a statement may take: an exchange would end far beyond its budget (HTTP-080). What the
    server still does then ends by its own limit.

    `made` counts the connections of this process: whoever remembers what a database said forgets it with each.
    """

    made: ClassVar[int] = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        CutOff.made += 1

    async def _cancel(self, *waiters: Any) -> None:
        async with asyncio.timeout(CANCEL_S) as patience:
            await super()._cancel(*waiters)  # type: ignore[misc]  # asyncpg-stubs leaves out what is private
        if patience.expired():
            self.terminate()


class Watch:
    """Makes connections; `on_change` hears why when that begins to fail, and None when it works again."""

    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change
        self._reached: bool | None = None

    async def connect(self, *args: Any, **kwargs: Any) -> asyncpg.Connection[asyncpg.Record]:
        """What a pool calls for a new connection. Raises DatabaseAway, before the first one what made it fail."""
        try:
            connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(*args, **kwargs)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            if self._reached is None:
                raise
            if self._reached:
                self._reached = False
                self._on_change(reason(error) if isinstance(error, OSError) else str(error))
            raise DatabaseAway from error
        if self._reached is False:
            self._on_change(None)
        self._reached = True
        return connection


def reason(failure: OSError) -> str:
    if isinstance(failure, socket.gaierror):
        return failure.strerror or "the host is unknown"
    if failure.errno:
        return os.strerror(failure.errno)
    return "no answer in time" if isinstance(failure, TimeoutError) else str(failure)


async def close(pool: asyncpg.Pool[asyncpg.Record]) -> None:
    """End all connections; in bounded time also when the database does not answer."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await pool.close()
    except TimeoutError:
        pool.terminate()
