"""The agenda loop: what the contract times, found by one index on the due instant.

Waiting costs nothing: the loop sleeps until the next due instant. An entry may be early, never late; its handler
decides again under guards with the time of that moment, and re-arms an entry that came too early.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
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
#: Handles several entries in one transition; False if it did not stand and nothing happened.
Together: TypeAlias = "Callable[[Services, Sequence[Agenda]], Awaitable[bool]]"

#: Entries per scan, and how many of them are handled side by side (DLV-110).
BATCH: Final = 100
CONCURRENCY: Final = 8
#: Entries that are handled together at most, and how many such groups side by side.
MOST_TOGETHER: Final = 8
GROUPS: Final = 2
#: Entries of a group while exchanges come, one group then, because the loop, the database and whoever asks share the
#: cores.
FEW_TOGETHER: Final = 4
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
    (HTTP-092). Of a kind in `together`, entries that are due are handled at once as long as nobody else is at any of
    them, and else one by one.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        passes: Passes,
        scans: Scans = BY_REAL_TIME,
        *,
        together: Mapping[str, Together] | None = None,
    ) -> None:
        self._handlers = handlers
        self._together = together or {}
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
        groups, limit, alone = asyncio.Semaphore(GROUPS), asyncio.Semaphore(CONCURRENCY), asyncio.Lock()

        async def one(entry: Agenda) -> bool:
            async with limit:
                return await self._one(services, entry)

        async def group(entries: Sequence[Agenda]) -> bool:
            if len(entries) > 1:
                async with groups, alone if services.traffic.comes else nullcontext():
                    if await self._at_once(services, entries):
                        return True
            return all(await asyncio.gather(*map(one, entries)))

        return all(await asyncio.gather(*map(group, self._groups(entries, services.traffic.comes))))

    def _groups(self, entries: Sequence[Agenda], exchanges_come: bool) -> Iterator[Sequence[Agenda]]:
        """What is handled together: entries of a kind that can be, in order, the others alone."""
        most = FEW_TOGETHER if exchanges_come else MOST_TOGETHER
        for kind in dict.fromkeys(entry.kind for entry in entries):
            alike = [entry for entry in entries if entry.kind == kind]
            size = most if kind in self._together else 1
            yield from (alike[start : start + size] for start in range(0, len(alike), size))

    async def _at_once(self, services: Services, entries: Sequence[Agenda]) -> bool:
        try:
            return await self._together[entries[0].kind](services, entries)
        except ERRORS as error:  # one of them may be the reason: each is tried alone
            survived(error, _log, "%s of %d workflows failed", entries[0].kind, len(entries))
            return False

    async def _one(self, services: Services, entry: Agenda) -> bool:
        try:
            return await self._handlers[entry.kind](services, entry) is not False
        except ERRORS as error:  # the entry stays, the next pass tries again
            survived(error, _log, "%s of %s failed", entry.kind, entry.ref)
            return False

    async def _rest(self, services: Services) -> float:
        """Seconds until the next due instant, at most until the next look."""
        self._told = NEVER
        row = await services.pool.fetchrow(services.transitions.sql(self._scans.next))
        assert row is not None
        now: int = row["now"]
        self._next_look = min(NEVER if row["due"] is None else row["due"], self._told, now + round(LOOK_S * 1000))
        return (self._next_look - now) / 1000
