"""The loop that meets obligations (RCV-001 to RCV-008, RCV-030).

The process that commits an obligation handles it at once, without a claim. Whatever is ready in the table was left
over by somebody: it is taken over with a claim, which raises the version, so that a stale holder's transition misses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from protocol3.coordinator.background.bell import Bell
from protocol3.coordinator.background.passes import Passes
from protocol3.coordinator.background.survival import ERRORS, survived
from protocol3.core.obligations import CLAIM_MS, HANDOVER_MS, MOST_TOGETHER, TOGETHER, retry_delay
from protocol3.core.records import Obligation
from protocol3.store.tables import records_of

if TYPE_CHECKING:
    from protocol3.coordinator.services import Services

Handler: TypeAlias = "Callable[[Services, Obligation], Awaitable[None]]"

#: Obligations handled side by side, and the most that one look takes over.
CONCURRENCY: Final = 16
#: Obligations that ask the world outside the database side by side, see `Obligations.aside`.
OUTSIDE: Final = 64
#: Nothing is taken over by a process that holds so many.
MOST_HELD: Final = 1_024
#: Seconds between looks when nothing rings.
LOOK_S: Final = 1.0

_log: Final = logging.getLogger("protocol3.obligations")

_TAKE_OVER = """
with ready as (
  select id from obligation where ready_real <= (select {real}) and id <> all($1) order by ready_real limit $2
  for update skip locked)
update obligation o set ready_real = {real} + $3, version = o.version + 1 from ready where o.id = ready.id returning o
"""
_HOLD = """
with mine as (
  select id from obligation where id = any($1) and ready_real <= {real} + $3 for update skip locked)
update obligation o set ready_real = {real} + $2 from mine where o.id = mine.id
"""
_RETRY = """
update obligation set tries = tries + 1, ready_real = {real} + $3, version = version + 1 where id = $1 and version = $2
"""


class Obligations:
    """`take` hands over a fresh obligation; `run` meets all of them, `workers` side by side, until it is cancelled.

    A handler receives the obligation as this process holds it: its transition must guard on that version
    (`core.obligations.settle`) and do nothing when the stored one differs or is gone. Any exception counts as a
    transient failure: `on_transient_failure` may give the obligation up (RCV-020), otherwise it is retried with
    backoff (RCV-008). Obligations of one workflow are handled one after the other, but those of a kind in `TOGETHER`
    that wait by then go to their handler at once. `passes` is told of every look (RCV-031).
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        passes: Passes,
        *,
        on_transient_failure: Handler | None = None,
        workers: int = CONCURRENCY,
    ) -> None:
        self._handlers = handlers
        self._passes = passes
        self._on_transient_failure = on_transient_failure
        self._workers = workers
        self._waiting: dict[str, dict[str, Obligation]] = {}  # by workflow, then by id, in order of arrival
        self.held: set[str] = set()
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._slots = asyncio.Semaphore(workers)
        self._outside = asyncio.Semaphore(OUTSIDE)
        self._bell = Bell()
        self._more = False  # the last look left something behind for want of room

    def take(self, obligation: Obligation) -> None:
        """Handle this obligation as soon as a worker is free. It was just committed, or claimed, by this process."""
        if obligation.id in self.held:
            return
        self.held.add(obligation.id)
        chain = self._waiting.get(obligation.workflow_id)
        if chain is None:
            chain = self._waiting[obligation.workflow_id] = {}
            self._ready.put_nowait(obligation.workflow_id)
        chain[obligation.id] = obligation

    def ring(self) -> None:
        """Look around at once: something may have become ready."""
        self._bell.ring()

    async def run(self, services: Services) -> None:
        """Work until cancelled; the first look takes over everything that is ready, whoever left it (RCV-002)."""
        self._slots = asyncio.Semaphore(self._workers)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_around(services))
            while True:
                await self._slots.acquire()
                group.create_task(self._work(services, await self._ready.get()))

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """For what a handler awaits from outside the database: meanwhile its slot is free for other obligations.

        Few at a time may ask; the others wait for that in order of arrival, without a slot as well.
        """
        self._slots.release()
        try:
            async with self._outside:
                yield
        finally:
            await self._slots.acquire()

    async def _work(self, services: Services, workflow_id: str) -> None:
        """Meet the first obligation of a workflow, or several like it, in a slot, which is free afterwards."""
        try:
            chain = self._waiting[workflow_id]
            met = _first_of(chain)
            await self._meet(services, met)
            for obligation in met:
                del chain[obligation.id]
                self.held.discard(obligation.id)
            if chain:
                self._ready.put_nowait(workflow_id)
            else:
                del self._waiting[workflow_id]
            if self._more and self._ready.empty():
                self._bell.ring()
        finally:
            self._slots.release()

    async def _meet(self, services: Services, held: Sequence[Obligation]) -> None:
        try:
            await self._handlers[held[0].kind](services, *held)
        except ERRORS as error:  # the obligations stay and are tried again
            for obligation in held:
                survived(error, _log, "%s %s failed", obligation.kind, obligation.id)
                await self._failed(services, obligation)

    async def _failed(self, services: Services, obligation: Obligation) -> None:
        try:
            if self._on_transient_failure is not None:
                await self._on_transient_failure(services, obligation)
        except ERRORS as error:
            survived(error, _log, "%s %s not given up", obligation.kind, obligation.id)
        try:
            delay = retry_delay(obligation.tries)
            text = services.transitions.sql(_RETRY)
            await services.pool.execute(text, obligation.id, obligation.version, delay)
            asyncio.get_running_loop().call_later(delay / 1000, self._bell.ring)
        except ERRORS as error:  # the row becomes ready again by itself
            survived(error, _log, "%s %s not put back", obligation.kind, obligation.id)

    async def _look_around(self, services: Services) -> None:
        while True:
            try:
                self._more = await self._look(services)
                self._passes.succeeded(time.monotonic())
            except ERRORS as error:
                survived(error, _log, "looking for obligations failed")
                self._passes.unavailable()
            await self._bell.rest(LOOK_S)

    async def _look(self, services: Services) -> bool:
        """Keep what this process holds from becoming ready and take over what is. True if more may be ready."""
        sql, held = services.transitions.sql, list(self.held)
        async with services.pool.acquire() as connection:
            if held:
                await connection.execute(sql(_HOLD), held, CLAIM_MS, HANDOVER_MS)
            if self._ready.qsize() >= CONCURRENCY or len(held) >= MOST_HELD:
                return True
            rows = await connection.fetch(sql(_TAKE_OVER), held, CONCURRENCY, CLAIM_MS)
        for obligation in records_of(Obligation, [row[0] for row in rows]):
            self.take(obligation)
        return len(rows) == CONCURRENCY


def _first_of(chain: Mapping[str, Obligation]) -> list[Obligation]:
    """What is met next of a workflow's obligations: the first, with others of its kind where these go together."""
    first = next(iter(chain.values()))
    if first.kind not in TOGETHER:
        return [first]
    return list(islice((each for each in chain.values() if each.kind == first.kind), MOST_TOGETHER))
