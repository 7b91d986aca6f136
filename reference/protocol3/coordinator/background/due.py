"""The agenda loop: what the contract times, found by one index on the due instant.

Waiting costs nothing: the loop sleeps until the next due instant. An entry may be early, never late; its handler
decides again under guards with the time of that moment, and re-arms an entry that came too early.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from protocol3.coordinator.background.bell import Bell
from protocol3.coordinator.background.passes import Passes
from protocol3.coordinator.background.survival import ERRORS, survived
from protocol3.core.records import Agenda
from protocol3.store.tables import records_of

if TYPE_CHECKING:
    from protocol3.coordinator.services import Services

Handler: TypeAlias = "Callable[[Services, Agenda], Awaitable[bool | None]]"

#: Entries per scan, and how many of them are handled side by side (DLV-110).
BATCH: Final = 100
CONCURRENCY: Final = 8
#: The longest sleep: entries of other processes and of lost hints are found this late.
LOOK_S: Final = 1.0
#: Later than any instant (TXT-040).
NEVER: Final = 2**63 - 1

_log: Final = logging.getLogger("protocol3.due")

_DUE = """
select a from agenda a where due <= (select {real}) and (due, kind, ref) > ($1, $2, $3) order by due, kind, ref limit $4
"""
_NEXT = "select min(due) as due, {real} as now from agenda"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scans:
    """The statements that find due entries, each in turn, and the one for the next due instant.

    The parameters are the due instant, kind and ref after which a scan goes on, and how many entries it may bring.
    """

    due: tuple[str, ...]
    next: str


#: Every scope lives by the database's clock.
BY_REAL_TIME: Final = Scans(due=(_DUE,), next=_NEXT)


class AgendaLoop:
    """`run` handles due entries until cancelled; `ring` tells it of an entry that may be due before its next look.

    A handler removes the entry, or moves it to a later instant, in a transition of its own. One that returns False is
    not done with it, one that fails is logged; both are tried again in the next pass. `passes` is told of every pass
    (HTTP-092).
    """

    def __init__(self, handlers: Mapping[str, Handler], passes: Passes, scans: Scans = BY_REAL_TIME) -> None:
        self._handlers = handlers
        self._scans = scans
        self._passes = passes
        self._bell = Bell()
        self._next_look: int = 0  # the instant up to which nothing known is due, by the database's clock
        self._told = NEVER  # the earliest entry rung for since the table was asked

    def ring(self, due_real: int) -> None:
        """An entry due at this instant was committed; only one that comes before the next look matters."""
        self._told = min(self._told, due_real)
        if due_real < self._next_look:
            self._bell.ring()

    async def run(self, services: Services) -> None:
        while True:
            rest = LOOK_S
            try:
                whole = await self._pass(services)
                self._passes.succeeded(time.monotonic())
                if whole:
                    rest = await self._rest(services)
            except ERRORS as error:
                survived(error, _log, "looking for due entries failed")
                self._passes.unavailable()
            await self._bell.rest(rest)

    async def _pass(self, services: Services) -> bool:
        """Handle everything due by now, each entry once. True if nothing failed."""
        scans = [await self._scan(services, services.transitions.sql(text)) for text in self._scans.due]
        return all(scans)

    async def _scan(self, services: Services, text: str) -> bool:
        after, passed = (-1, "", ""), True
        while True:
            rows = await services.pool.fetch(text, *after, BATCH)
            entries: tuple[Agenda, ...] = records_of(Agenda, [row[0] for row in rows])
            passed &= await self._handle(services, entries)
            if len(entries) < BATCH:
                return passed
            last = entries[-1]
            after = (last.due, last.kind, last.ref)

    async def _handle(self, services: Services, entries: tuple[Agenda, ...]) -> bool:
        limit = asyncio.Semaphore(CONCURRENCY)

        async def one(entry: Agenda) -> bool:
            async with limit:
                try:
                    return await self._handlers[entry.kind](services, entry) is not False
                except ERRORS as error:  # the entry stays, the next pass tries again
                    survived(error, _log, "%s of %s failed", entry.kind, entry.ref)
                    return False

        return all(await asyncio.gather(*map(one, entries)))

    async def _rest(self, services: Services) -> float:
        """Seconds until the next due instant, at most until the next look."""
        self._told = NEVER
        row = await services.pool.fetchrow(services.transitions.sql(self._scans.next))
        assert row is not None
        now: int = row["now"]
        self._next_look = min(NEVER if row["due"] is None else row["due"], self._told, now + round(LOOK_S * 1000))
        return (self._next_look - now) / 1000
