"""Gathered reads: what is asked while a read of the same kind is under way goes in one statement with others.

A lone read goes at once, on a connection of its caller's own. The statement for several has the text for one as a
lateral subquery of a list of parameters, so every rule stays written once: each is answered as it would be alone, with
the clock read for each, from one snapshot that began after all of them came.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Any, Final

import asyncpg

from protocol3.store.connections import Connection, Row
from protocol3.store.group_commit import AWAY, REFUSED, Flight

#: Statements of a kind under way from which on further reads of it gather.
FLIGHTS: Final = 1
#: The most reads of one statement: each may bring a body.
MOST: Final = 16

#: Parameters that go as a column of the list. Any other (null, a list) is one for the whole statement.
_COLUMNS: Final[Mapping[type, str]] = {str: "text", int: "bigint", bool: "boolean"}
_PARAMETER: Final = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class Kind:
    """Reads that one statement may answer: the text for one, the types of its columns, and the common parameters."""

    text: str
    columns: tuple[str | None, ...]
    common: tuple[object, ...]

    @classmethod
    def of(cls, text: str, values: Sequence[object]) -> Kind | None:
        """None for a read that has nothing of its own."""
        columns = tuple([_COLUMNS.get(type(value)) for value in values])
        if not any(columns):
            return None
        left = [value for value, column in zip(values, columns, strict=True) if column is None]
        return cls(text, columns, tuple([tuple(value) if isinstance(value, list) else value for value in left]))

    def arguments(self, all_values: Sequence[Sequence[object]]) -> list[object]:
        """Of the statement for several: lists for the columns."""
        lists = zip(self.columns, zip(*all_values, strict=True), strict=True)
        return [values[0] if column is None else values for column, values in lists]


@cache
def together(text: str, columns: tuple[str | None, ...]) -> str:
    """The statement that reads, for every row of a list of parameters, what `text` does for one.

    Its first column is the position in that list. Positions of which `text` finds nothing are left out.
    """
    numbers = [number for number, column in enumerate(columns, 1) if column is not None]
    lists = ", ".join(f"${number}::{columns[number - 1]}[]" for number in numbers)
    names = ", ".join(f"p{number}" for number in numbers)
    one = _PARAMETER.sub(lambda found: f"given.p{found[1]}" if columns[int(found[1]) - 1] else found[0], text)
    return (
        f"select given.place - 1 as place, one.* from unnest({lists}) with ordinality as given({names}, place)\n"
        f"cross join lateral ({one}) as one"
    )


@dataclass(slots=True, eq=False)
class Asking:
    """A read that waits. Its outcome is its row in brackets, or None where it has to go alone."""

    values: tuple[object, ...]
    outcome: asyncio.Future[tuple[Row] | None]


class Line:
    """The reads of one kind: how many statements are under way, and who waits meanwhile."""

    def __init__(self, gathering: Gathering, kind: Kind) -> None:
        self._gathering = gathering
        self._kind = kind
        self._waiting: dict[Asking, None] = {}
        self._under_way = 0

    @property
    def busy(self) -> bool:
        """Whether a read gathers with others. If not, its caller reads at once, `under_way`."""
        return self._under_way >= FLIGHTS

    def under_way(self) -> Flight:
        self._under_way += 1
        return Flight(self._ended)

    async def answer(self, values: tuple[object, ...]) -> tuple[Row] | None:
        """The row in brackets, once others answered or failed with it; None when it has to go alone."""
        asking = Asking(values, asyncio.get_running_loop().create_future())
        self._waiting[asking] = None
        try:
            return await asking.outcome
        finally:
            self._waiting.pop(asking, None)

    def _ended(self) -> None:
        self._under_way -= 1
        while self._waiting and not self.busy:
            batch = list(self._waiting)[:MOST]
            for asking in batch:
                del self._waiting[asking]
            self._gathering.start(self._answer(batch)).add_done_callback(self.under_way().end)
        if not self._under_way:
            self._gathering.forget(self._kind)

    async def _answer(self, batch: list[Asking]) -> None:
        try:
            async with self._gathering.connect() as connection:
                batch = [asking for asking in batch if not asking.outcome.done()]  # a connection may take long
                rows = await _read(connection, self._kind, [asking.values for asking in batch])
        except asyncio.CancelledError:
            for asking in batch:
                asking.outcome.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # it is the callers' own, who raise it
            refused = isinstance(error, REFUSED) and not isinstance(error, AWAY) and len(batch) > 1
            for asking in batch:
                if asking.outcome.done():
                    continue
                if refused:
                    asking.outcome.set_result(None)
                else:
                    asking.outcome.set_exception(error)
            return
        for asking, row in zip(batch, rows, strict=True):
            if not asking.outcome.done():
                asking.outcome.set_result((row,))


async def _read(connection: Connection, kind: Kind, all_values: Sequence[Sequence[object]]) -> list[Row]:
    if not all_values:
        return []
    if len(all_values) == 1:
        return [await connection.fetchrow(kind.text, *all_values[0])]
    found: list[Row] = [None] * len(all_values)
    for row in await connection.fetch(together(kind.text, kind.columns), *kind.arguments(all_values)):
        found[row[0]] = row
    return found


class Gathering:
    """All reads that gather, on connections of `connect`.

    - A read joins no statement that was sent.
    - When a statement for several is refused, each of them goes alone: one that cannot be answered takes no other with
      it. A database that is away is told to all.
    - Whoever is cancelled takes no other with it either.
    - A statement that takes long holds up nobody: after a moment (`group_commit.PATIENCE_S`) the next one goes.
    """

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[Connection]]) -> None:
        self.connect = connect
        self._lines: dict[Kind, Line] = {}
        self._calls: set[asyncio.Task[None]] = set()

    def line(self, kind: Kind) -> Line:
        found = self._lines.get(kind)
        if found is None:
            found = self._lines[kind] = Line(self, kind)
        return found

    def forget(self, kind: Kind) -> None:
        del self._lines[kind]

    def start(self, call: Any) -> asyncio.Task[None]:
        """A task that is no caller's own."""
        task: asyncio.Task[None] = asyncio.create_task(call, context=Context())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task


class Reader:
    """One caller's reads. While it has no connection its reads of a row may gather; the first one that goes alone takes
    one by `connect`, for as long as the block lasts.
    """

    def __init__(self, gathering: Gathering, connect: Callable[[], AbstractAsyncContextManager[Connection]]) -> None:
        self._gathering = gathering
        self._connect = connect
        self._connection: Connection | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    @property
    def connected(self) -> bool:
        return self._connection is not None

    async def connection(self) -> Connection:
        """The connection of its own."""
        if self._connection is None:
            self._connection = await self._stack.enter_async_context(self._connect())
        return self._connection

    async def fetch(self, query: str, /, *args: object) -> list[asyncpg.Record]:
        """Alone."""
        return await (await self.connection()).fetch(query, *args)

    async def fetchrow(self, query: str, /, *args: object) -> Row:
        """With others if a read of its kind is under way."""
        kind = None if self.connected else Kind.of(query, args)  # who has a connection must not wait for another one
        if kind is None:
            return await (await self.connection()).fetchrow(query, *args)
        line = self._gathering.line(kind)
        if line.busy:
            answer = await line.answer(args)
            if answer is not None:
                return answer[0]
            return await (await self.connection()).fetchrow(query, *args)
        flight = line.under_way()
        try:
            return await (await self.connection()).fetchrow(query, *args)
        finally:
            flight.end()
