"""Telling other processes on the same database which queues, or whole scopes, to look at.

A notification inside a transition would serialise all commits of the database. So wakes are collected for a moment and
sent after their commits, by one connection, and only while somebody else listens: who begins to listen says so, and
others ask now and then. A hint that is lost costs a second: dispatchers look that often by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import asyncpg

from protocol3.coordinator.background.bell import Bell
from protocol3.store.connections import Connection

if TYPE_CHECKING:
    from protocol3.coordinator.services import Services

CHANNEL: Final = "protocol3"
#: Seconds for which wakes are collected.
COLLECT_S: Final = 0.005
#: Seconds for which the number of listeners is believed.
LISTENERS_S: Final = 1.0
#: Queues in one notification: 8000 bytes are its limit, 128 that of a name.
PER_MESSAGE: Final = 40

_NAME: Final = "protocol3 hints"
#: In place of a queue, none of which has an empty name (TXT-001).
_EVERYTHING: Final = ""
_OTHERS = """
select exists (select from pg_stat_activity
  where datname = current_database() and application_name = $1 and pid <> pg_backend_pid())
"""


class Hints:
    """`tell` collects, `run` listens and sends until cancelled; `on_queue` and `on_scope` hear what others tell."""

    def __init__(self, on_queue: Callable[[int, str], None], *, on_scope: Callable[[int], None]) -> None:
        self._on_queue = on_queue
        self._on_scope = on_scope
        self._collected: dict[tuple[int, str], None] = {}
        self._bell = Bell()
        self._asked_at = float("-inf")
        self._others = False
        self.sent = 0
        """Queues told to other processes so far; `heard`: told by them."""
        self.heard = 0

    def tell(self, scope_id: int, queue: str) -> None:
        """A task of this queue may have become claimable."""
        if not self._collected:  # nobody is woken meanwhile: the assignment of the task is on its way here
            asyncio.get_running_loop().call_later(COLLECT_S, self._bell.ring)
        self._collected[scope_id, queue] = None

    def tell_scope(self, scope_id: int) -> None:
        """Everything that waits in this scope should look again."""
        self.tell(scope_id, _EVERYTHING)

    async def run(self, services: Services) -> None:
        """Needs a connection of its own. Ends when it is lost."""
        async with services.pool.acquire() as connection:
            lost = asyncio.Event()

            def ended(_: object) -> None:
                lost.set()
                self._bell.ring()

            connection.add_termination_listener(ended)
            await connection.execute(f"set application_name = '{_NAME}'")
            await connection.add_listener(CHANNEL, self._heard)
            await connection.execute(f"notify {CHANNEL}")  # whoever believes itself alone hears otherwise
            try:
                while True:
                    await self._bell.rest(LISTENERS_S)
                    if lost.is_set():
                        return
                    if self._collected:
                        await self._send(connection)
            finally:
                with contextlib.suppress(asyncpg.InterfaceError):  # it is lost already
                    connection.terminate()  # with its listener and name; no word to a server that may be stalled

    async def _send(self, connection: Connection) -> None:
        queues, self._collected = list(self._collected), {}
        if await self._anybody(connection):
            for start in range(0, len(queues), PER_MESSAGE):
                await connection.execute("select pg_notify($1, $2)", CHANNEL, _written(queues[start:][:PER_MESSAGE]))
            self.sent += len(queues)

    async def _anybody(self, connection: Connection) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._asked_at >= LISTENERS_S:
            self._others = await connection.fetchval(_OTHERS, _NAME)
            self._asked_at = now
        return self._others

    def _heard(
        self, connection: asyncpg.Connection[asyncpg.Record] | object, pid: int, channel: str, payload: object
    ) -> None:
        assert isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy)
        if pid != connection.get_server_pid():
            self._others, self._asked_at = True, asyncio.get_running_loop().time()
            for scope_id, queue in _read(str(payload)):
                self.heard += 1
                if queue == _EVERYTHING:
                    self._on_scope(scope_id)
                else:
                    self._on_queue(scope_id, queue)


def _written(queues: Iterable[tuple[int, str]]) -> str:
    """One line for each: a queue name holds no line feed (TXT-001)."""
    return "\n".join(f"{scope_id} {queue}" for scope_id, queue in queues)


def _read(payload: str) -> Iterator[tuple[int, str]]:
    """What `_written` wrote; nothing for a notification of somebody else."""
    for line in payload.split("\n"):
        scope_id, _, queue = line.partition(" ")
        if scope_id.isascii() and scope_id.isdigit():
            yield int(scope_id), queue
