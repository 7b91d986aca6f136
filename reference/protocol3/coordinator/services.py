"""What operations and background loops work with; put together once per process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from protocol3.contract.models.common import Scope
from protocol3.coordinator.background.courtesy import Traffic
from protocol3.coordinator.background.dispatcher import Dispatchers
from protocol3.coordinator.background.due import AgendaLoop
from protocol3.coordinator.background.hints import Hints
from protocol3.coordinator.background.obligations import Obligations
from protocol3.coordinator.background.wakes import Wakes
from protocol3.programs.stores import ProgramStore
from protocol3.store.scopes import Scopes
from protocol3.store.transition import Transitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """`pool` for reads, `transitions` for every change; `submissions`: turns in which submissions use connections.

    Submissions are as many as clients like. What a worker does for one task is several exchanges, one after the other,
    and each would wait behind all of them. So few submissions use connections at a time, and the others wait for their
    turn, in order of arrival.

    `traffic` is told of exchanges, and tells background work whether they come.

    `applies_at_once` tells whether in this scope an activation's decision may go with its settlement.
    """

    pool: asyncpg.Pool[asyncpg.Record]
    transitions: Transitions
    scopes: Scopes
    programs: ProgramStore
    wakes: Wakes
    obligations: Obligations
    agenda: AgendaLoop
    dispatchers: Dispatchers
    hints: Hints
    traffic: Traffic
    applies_at_once: Callable[[Scope], bool]
    submissions: asyncio.Semaphore
    fixed_scope: Scope | None = None

    def look_again(self, scope_id: int) -> None:
        """Let everything that waits in this scope look at once, as after an advance of its clock."""
        self.dispatchers.look_again(scope_id)
        self.obligations.ring()
        self.agenda.ring(0)
