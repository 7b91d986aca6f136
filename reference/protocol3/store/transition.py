"""One pattern for every change: read a snapshot, decide, apply under guards.

    load   one plain SELECT: one snapshot of every record the decision needs, with the clock
    decide the pure core
    apply  one call that locks the guards in the one order, compares versions, reads the clock, writes all or nothing

What becomes ready while another apply is under way shares a call with others (`group_commit`), and loads of one kind
share statements likewise (`gathered`). Where the process has just loaded or written the records itself, they are
decided about as remembered, without a load (`remembered`).

A miss is decided again in the locked form: lock the guards, load in a LATER statement (a statement that waited for a
lock sees the locked row new but every other row as old as its own start), decide, apply, commit.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import asyncpg

from protocol3.contract.refusal import Refusal
from protocol3.core.verdict import Accepted, Fresh, Guard, Rejected, Replay, Verdict, Wake
from protocol3.store.apply_sql import APPLY, APPLY_TOGETHER
from protocol3.store.clock import timed
from protocol3.store.connections import Connection, Reads
from protocol3.store.gathered import Gathering, Reader
from protocol3.store.group_commit import LARGE, GroupCommit, size_of
from protocol3.store.remembered import Memory, Recall
from protocol3.store.tables import ARGUMENT, BY_RECORD, TABLES, key_of, named, row_of

Loaded = TypeVar("Loaded")
Held = TypeVar("Held")
Load: TypeAlias = Callable[[Reads], Awaitable[Loaded]]
Decide: TypeAlias = Callable[[Loaded, Fresh], Verdict]

#: Guards that were not known before appear at most a few times in a row; then the caller is told to try again.
LOCKED_TRIES = 5
_NO_TURN: Final = nullcontext()
_MISSES = (asyncpg.UniqueViolationError, asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

_log: Final = logging.getLogger("protocol3.transitions")


class Transitions:
    """Runs transitions on a connection pool. `on_commit` receives the wakes of every applied decision."""

    def __init__(
        self,
        pool: asyncpg.Pool[asyncpg.Record],
        *,
        on_commit: Callable[[tuple[Wake, ...]], None],
        virtual: bool = False,
    ) -> None:
        self.pool = pool
        self.virtual = virtual
        self._memory = Memory(virtual=virtual)
        self._on_commit = on_commit
        self._group = GroupCommit(lambda: self.pool.acquire(), self._write_together, self._committed)
        self._gathering = Gathering(lambda: self.pool.acquire())
        self._mutexes: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def sql(self, text: str) -> str:
        """A statement with its clock filled in."""
        return timed(text, virtual=self.virtual)

    def reading(self) -> Reader:
        """For plain reads: a block in which one that gathers with others takes no connection."""
        return Reader(self._gathering, lambda: self.pool.acquire())

    async def run(
        self,
        key: Hashable,
        load: Load[Loaded],
        decide: Decide[Loaded],
        *,
        recall: Recall[Loaded] | None = None,
        turn: AbstractAsyncContextManager[object] = _NO_TURN,
    ) -> Any:
        """Decide and apply; the reply of the verdict, after its commit: durable, or nothing of it (DLV-120, TASK-016).

        `key` names the aggregate: transitions of one aggregate queue up inside this process, a courtesy that keeps
        misses away. A connection is used within a `turn`, a load that gathers with others does without. `recall` may
        spare the load. Raises `Refusal` for a rejection and `unavailable` when the guards never held.
        """
        async with self._mutex(key):
            if recall is not None and self._recalls():
                remembered = await self._by_memory(recall, decide)
                if remembered is not None:
                    return remembered.reply
            alone = False
            while True:
                async with turn, Reader(self._gathering, self._connection) as reader:
                    if alone:
                        await reader.connection()
                    verdict = decide(await self._loaded(reader, load), _fresh())
                    if isinstance(verdict, Replay):
                        return verdict.reply
                    if isinstance(verdict, Rejected) and not verdict.guards:
                        raise _refusal(verdict)
                    if alone or isinstance(verdict, Rejected) or self._goes_alone(verdict):
                        return await self._alone(reader, verdict, load, decide)
                if await self._group.applied(verdict):  # it keeps no connection from others while it waits
                    return verdict.reply
                alone = True  # it has waited for others, so it is decided anew by what is there now

    async def run_once(
        self, connection: Connection, load: Load[Loaded], decide: Callable[[Loaded, Fresh], Accepted]
    ) -> Any:
        """Decide and apply once, without locks before; the reply, None after a miss."""
        verdict = decide(await self._loaded(connection, load), _fresh())
        return verdict.reply if await self._applied(connection, verdict) else None

    async def run_in_steps(
        self, connection: Connection, load: Load[Loaded], decide: Callable[[Loaded, Fresh], Awaitable[Accepted]]
    ) -> Any:
        """`run_once` with a decision that lets others run in between; what they change is a miss like any other."""
        verdict = await decide(await load(connection), _fresh())
        return verdict.reply if await self._applied(connection, verdict) else None

    async def run_holding(
        self,
        connection: Connection,
        lock: Callable[[Connection], Awaitable[Held | None]],
        load: Callable[[Connection, Held], Awaitable[Loaded]],
        decide: Callable[[Loaded, Fresh], Accepted],
    ) -> Any:
        """The locked form with locks of the caller's own: one transaction, one try.

        `lock` locks in the one lock order and tells what it holds; None ends the transaction with nothing done, and so
        does a miss. The reply is None then.
        """
        try:
            async with connection.transaction():
                held = await lock(connection)
                if held is None:
                    return None
                verdict = decide(await load(connection, held), _fresh())
                if not await self._write(connection, verdict):
                    raise _Miss
        except (_Miss, *_MISSES) as miss:
            _tell(miss)
            return None
        self._committed(verdict)
        return verdict.reply

    def _recalls(self) -> bool:
        """Whether a decision may be made of what is remembered."""
        return self._memory.ready

    async def _by_memory(self, recall: Recall[Loaded], decide: Decide[Loaded]) -> Accepted | None:
        """The decision made of what is remembered, once it is committed; None for anything else, which counts for
        nothing.
        """
        known = recall(self._memory)
        verdict = None if known is None else decide(known, _fresh())
        if not isinstance(verdict, Accepted):
            return None
        verdict = self._memory.in_time(verdict)
        if self._goes_alone(verdict):
            async with self._connection() as connection:
                held = await self._applied(connection, verdict)
        else:
            held = await self._group.applied(verdict)
        if held:
            return verdict
        self._memory.missed(verdict)
        return None

    async def _loaded(self, reads: Reads, load: Load[Loaded]) -> Loaded:
        loaded = await load(reads)
        self._memory.learn(loaded)
        return loaded

    def _committed(self, verdict: Accepted) -> None:
        self._memory.committed(verdict)
        self._on_commit(verdict.wakes)

    async def _alone(
        self, reader: Reader, verdict: Accepted | Rejected, load: Load[Loaded], decide: Decide[Loaded]
    ) -> Any:
        if not reader.connected:
            with self._group.under_way():  # while it waits for a connection others gather
                await reader.connection()
        connection = await reader.connection()
        if isinstance(verdict, Accepted) and await self._applied(connection, verdict):
            return verdict.reply
        return await self._locked(connection, verdict.guards, load, decide)

    async def _locked(
        self, connection: Connection, guards: tuple[Guard, ...], load: Load[Loaded], decide: Decide[Loaded]
    ) -> Any:
        for _ in range(LOCKED_TRIES):
            try:
                async with connection.transaction():
                    await self._lock(connection, guards)
                    verdict = decide(await self._loaded(connection, load), _fresh())
                    if isinstance(verdict, Replay):
                        return verdict.reply
                    if isinstance(verdict, Rejected):
                        raise _refusal(verdict)
                    held, guards = frozenset(map(_lock_of, guards)), verdict.guards
                    if not held.issuperset(map(_lock_of, guards)):
                        raise _Miss  # locked now it would be out of order
                    if not await self._write(connection, verdict):
                        raise _Miss
            except (_Miss, *_MISSES) as miss:
                _tell(miss)
                continue
            self._committed(verdict)
            return verdict.reply
        raise Refusal("unavailable", "the records kept changing; repeat the command")

    async def _lock(self, connection: Connection, guards: tuple[Guard, ...]) -> None:
        """Lock the guarded rows in the one order; nobody changes them until the transaction ends."""
        await connection.fetchval("select lock_guards($1)", _guard_rows(guards))

    def _goes_alone(self, verdict: Accepted) -> bool:
        """Whether it is applied by itself: nothing else is, or it is large, or there is nothing to apply."""
        return not self._group.busy or _is_empty(verdict) or size_of(verdict) > LARGE

    async def _applied(self, connection: Connection, verdict: Accepted) -> bool:
        if _is_empty(verdict):
            return True
        try:
            with self._group.under_way():
                held = await self._write(connection, verdict)
        except _MISSES as miss:
            _tell(miss)
            return False
        if held:
            self._committed(verdict)
        return held

    async def _write(self, connection: Connection, verdict: Accepted) -> bool:
        """Everything or, False, nothing; committed with the transaction around it, without one at once."""
        return bool(await connection.fetchval(APPLY, *arguments(verdict)))

    async def _write_together(self, connection: Connection, verdict: Accepted) -> bool:
        """The sum of several verdicts, which waits for no lock that is kept."""
        return bool(await connection.fetchval(APPLY_TOGETHER, *arguments(verdict)))

    def _connection(self) -> AbstractAsyncContextManager[Connection]:
        return self.pool.acquire()

    @asynccontextmanager
    async def _mutex(self, key: Hashable) -> AsyncIterator[None]:
        lock = self._mutexes.get(key)
        if lock is None:
            lock = self._mutexes[key] = asyncio.Lock()
        async with lock:
            yield


def _fresh() -> Fresh:
    """Identifiers for one decision. This machine's clock will do for their order, and costs no statement."""
    return Fresh(os.urandom(16), time.time_ns() // 1_000_000)


class _Miss(Exception):
    """The locked form has to start again: the decision has a guard that is not locked, or a key is taken."""


def _tell(miss: Exception) -> None:
    """A version that moved on and a key that is taken are ordinary; the others mean that the lock order was broken."""
    if isinstance(miss, asyncpg.SerializationError | asyncpg.DeadlockDetectedError):
        _log.warning("a decision is made again after %s", type(miss).__name__)


def _refusal(verdict: Rejected) -> Refusal:
    return Refusal(verdict.code, verdict.message)


def _is_empty(verdict: Accepted) -> bool:
    return not (verdict.records or verdict.guards or verdict.done or verdict.unscheduled)


def _lock_of(guard: Guard) -> tuple[str, str, int, bool]:
    """What a guard locks, and how."""
    return guard.kind, guard.id, guard.part, guard.seen


def _guard_rows(guards: Iterable[Guard]) -> list[tuple[str, str, int, int, bool]]:
    return [(g.kind, g.id, g.part, g.version, g.seen) for g in sorted(guards, key=lambda g: g.order)]


def arguments(verdict: Accepted) -> list[Any]:
    """The arguments of `apply`. Versions are set here: a guarded record gets its guard's version + 1.

    What is empty goes as null: checking and encoding an empty array costs asyncpg more than a row.
    """
    versions = {(g.kind, g.id, g.part): g.version for g in verdict.guards if not g.seen}
    latest: dict[tuple[type[Any], Any], Any] = {}
    for record in verdict.records:  # a record written twice by one decision counts once, the later one
        latest[type(record), key_of(record)] = record
    arrays: list[list[tuple[Any, ...]]] = [[] for _ in TABLES]
    for (kind, key), record in latest.items():
        row, table = row_of(record), BY_RECORD[kind]
        if table.guard is not None:
            known = versions.get(named(table, key))
            row = (*row[:-1], 0 if known is None else known + 1)  # `version` is the last column
        arrays[ARGUMENT[kind]].append(row)
    kinds, refs = ([entry[part] for entry in verdict.unscheduled] for part in (0, 1))
    lists = (verdict.done, kinds, refs, *arrays)
    return [_guard_rows(verdict.guards), verdict.valid_until_real, *(each or None for each in lists)]
