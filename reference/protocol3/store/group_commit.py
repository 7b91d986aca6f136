"""Group commit: what becomes ready while an apply of this process is under way is applied together, with one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import asyncpg

from protocol3.core.verdict import Accepted
from protocol3.store.tables import BY_RECORD, key_of, named, row_of

#: Applies under way from which on further verdicts gather.
FLIGHTS: Final = 1
#: Seconds after which an apply that is still under way holds up nobody else: it waits for a lock, or for the database.
PATIENCE_S: Final = 0.05
#: The most of one call: verdicts, rows and guards, bytes of bodies. What has more than LARGE bytes goes alone.
MOST: Final = 32
ROWS: Final = 400
BYTES: Final = 256 * 1024
LARGE: Final = 16 * 1024

Key: TypeAlias = tuple[Any, ...]
Connection = TypeVar("Connection")

#: The server has undone the call, and says that it was for something in it.
REFUSED: Final = (asyncpg.PostgresError, asyncpg.DataError)
#: These say nothing about what was to be applied.
AWAY: Final = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)


@dataclass(slots=True, eq=False)
class Member:
    """A verdict that waits. `touches` has by key the version that it merely compares, None for what it changes."""

    verdict: Accepted
    outcome: asyncio.Future[bool]
    touches: dict[Key, int | None]
    rows: int
    size: int


class Flight:
    """An apply under way; it counts until it is over, or has taken so long that others no longer wait for it."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._impatience = asyncio.get_running_loop().call_later(PATIENCE_S, self.end)
        self._counts = True

    def end(self, _: object = None) -> None:
        if self._counts:
            self._counts = False
            self._impatience.cancel()
            self._on_end()


class GroupCommit(Generic[Connection]):
    """Applies verdicts by `write`, which is given a connection and the sum of several, and tells `on_commit` of each
    that is committed.

    - A verdict is committed whole or not at all; its wakes are told after that commit, and its outcome after them.
    - Verdicts of one call have no record and no guard in common, but for what all of them merely compare with the same
      version; those that do go one after the other, as they came.
    - When a call misses or is refused, nothing of it is applied, and each of its members has to be decided anew and
      go alone: one that cannot stand takes no other with it. A database that is away is told to all.
    - Whoever is cancelled takes no other with it either: its verdict is left out, or goes on if it was sent.
    - A verdict waits for others for a bounded time: `write` must not wait for locks, and who does is not waited for.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Connection]],
        write: Callable[[Connection, Accepted], Awaitable[bool]],
        on_commit: Callable[[Accepted], None],
    ) -> None:
        self._connect = connect
        self._write = write
        self._on_commit = on_commit
        self._waiting: dict[Member, None] = {}
        self._under_way = 0
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether a verdict gathers with others. If not, its caller applies it at once, `under_way`."""
        return self._under_way >= FLIGHTS

    @contextmanager
    def under_way(self) -> Iterator[Flight]:
        """Around an apply of one verdict."""
        flight = self._flight()
        try:
            yield flight
        finally:
            flight.end()

    async def applied(self, verdict: Accepted) -> bool:
        """True once it is committed; False when nothing of it is and it has to go alone."""
        outcome: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        rows = len(verdict.records) + len(verdict.guards)
        member = Member(verdict, outcome, touches(verdict), rows, size_of(verdict))
        self._waiting[member] = None
        self._go_on()
        try:
            return await outcome
        finally:
            self._waiting.pop(member, None)

    def _flight(self) -> Flight:
        self._under_way += 1
        return Flight(self._ended)

    def _ended(self) -> None:
        self._under_way -= 1
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not self.busy:
            batch = next_batch(self._waiting)
            for member in batch:
                del self._waiting[member]
            call = asyncio.create_task(self._apply(batch), context=Context())  # it is no member's own
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
            call.add_done_callback(self._flight().end)

    async def _apply(self, batch: Sequence[Member]) -> None:
        try:
            async with self._connect() as connection:
                batch = [member for member in batch if not member.outcome.done()]  # a connection may take long
                held = bool(batch) and await self._write(connection, together([member.verdict for member in batch]))
            for member in batch if held else ():
                self._on_commit(member.verdict)
        except asyncio.CancelledError:
            for outcome in _awaited(batch):
                outcome.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # it is the members' own, who raise it
            refused = isinstance(error, REFUSED) and not isinstance(error, AWAY)
            for outcome in _awaited(batch):
                if refused:
                    outcome.set_result(False)
                else:
                    outcome.set_exception(error)
            return
        for outcome in _awaited(batch):
            outcome.set_result(held)


def _awaited(batch: Sequence[Member]) -> list[asyncio.Future[bool]]:
    """The outcomes that somebody still waits for."""
    return [member.outcome for member in batch if not member.outcome.done()]


def next_batch(waiting: Iterable[Member]) -> list[Member]:
    """The members of the next call, at least the first. None overtakes an earlier one that it has something in common
    with.
    """
    batch: list[Member] = []
    touched: dict[Key, int | None] = {}
    rows = size = 0
    for member in waiting:
        fits = rows + member.rows <= ROWS and size + member.size <= BYTES
        if not batch or (fits and not _in_common(touched, member.touches)):
            batch.append(member)
            rows, size = rows + member.rows, size + member.size
            if len(batch) == MOST:
                break
        for key, version in member.touches.items():
            touched[key] = version if touched.get(key, version) == version else None
    return batch


def _in_common(touched: dict[Key, int | None], touches: dict[Key, int | None]) -> bool:
    return any(key in touched and (touched[key] is None or touched[key] != version) for key, version in touches.items())


def together(verdicts: Sequence[Accepted]) -> Accepted:
    """One verdict that stands if all of these do."""
    bounds = [verdict.valid_until_real for verdict in verdicts if verdict.valid_until_real is not None]
    return Accepted(
        reply=None,
        records=tuple(record for verdict in verdicts for record in verdict.records),
        guards=tuple(dict.fromkeys(guard for verdict in verdicts for guard in verdict.guards)),
        valid_until_real=min(bounds, default=None),
        done=tuple(id for verdict in verdicts for id in verdict.done),
        unscheduled=tuple(entry for verdict in verdicts for entry in verdict.unscheduled),
    )


def touches(verdict: Accepted) -> dict[Key, int | None]:
    """Everything that a verdict compares or changes, by a key that guards and records of the same row share."""
    found: dict[Key, int | None] = {}
    for guard in verdict.guards:
        key = (guard.kind, guard.id, guard.part)
        found[key] = guard.version if guard.seen and found.get(key, 0) is not None else None
    for record in verdict.records:
        found[named(BY_RECORD[type(record)], key_of(record))] = None
    found |= {("obligation", id, 0): None for id in verdict.done}
    found |= {("agenda", *entry): None for entry in verdict.unscheduled}
    return found


def size_of(verdict: Accepted) -> int:
    """Bytes of the bodies in its records; everything else is small."""
    return sum(len(value) for record in verdict.records for value in row_of(record) if type(value) is bytes)
