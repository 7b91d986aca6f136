"""The parts of a process with test controls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Final

import asyncpg

from protocol3.contract.models.common import Scope
from protocol3.coordinator.background import due
from protocol3.coordinator.background.claiming import Claiming
from protocol3.coordinator.controls.edge import FaultyExchanges
from protocol3.coordinator.controls.faults import Faults
from protocol3.coordinator.controls.places import (
    OBLIGATION_STEPS,
    FaultyAgenda,
    FaultyClaiming,
    FaultyPrograms,
    FaultyTransitions,
    faulty_obligation,
    faulty_obligations,
)
from protocol3.coordinator.controls.rules import Step
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.observation import Observer
from protocol3.coordinator.parts import Parts
from protocol3.coordinator.services import Services
from protocol3.core.verdict import Wake
from protocol3.programs.stores import ProgramStore
from protocol3.store import virtual_time
from protocol3.store.scopes import Scopes
from protocol3.store.transition import Transitions
from protocol3.telemetry.tracing import Tracing

_DECISION: Final = Step(name=OBLIGATION_STEPS["decision"])


class ControlledParts(Parts):
    """TST-003, TST-013: clocks and faults of scopes, and the routes of /testing/v1.

    What is held keeps a connection or a worker: there are enough of both for the others not to notice. It keeps a
    submission's turn too, so of these there are as many as anybody wants.
    """

    pool_size = 40
    submissions = sys.maxsize
    obligation_workers = 256
    scans = due.Scans(due=(*due.BY_REAL_TIME.due, virtual_time.DUE_AHEAD), next=virtual_time.NEXT_DUE)

    def __init__(self) -> None:
        self.faults = Faults()
        self.agenda_together = {}  # a fault rule is about one workflow
        self.agenda = FaultyAgenda(self.faults).handlers(Parts.agenda)
        self.obligations = faulty_obligations(self.faults, Parts.obligations)
        self.give_up = faulty_obligation(self.faults, "completion.expire", Parts.give_up)

    async def prepare(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        await virtual_time.prepare(pool)

    def transitions(
        self, pool: asyncpg.Pool[asyncpg.Record], on_commit: Callable[[tuple[Wake, ...]], None]
    ) -> Transitions:
        return FaultyTransitions(pool, on_commit=on_commit, faults=self.faults)

    def claiming(
        self, transitions: Transitions, scopes: Scopes, tracing: Tracing, scope_id: int, queue: str
    ) -> Claiming:
        return FaultyClaiming(transitions, scopes, tracing, scope_id, queue, faults=self.faults)

    def applies_at_once(self, scope: Scope) -> bool:
        """A rule about decisions is about a step of its own (TST-022)."""
        return not self.faults.concern(scope, _DECISION)

    def programs(self, programs: ProgramStore) -> ProgramStore:
        return FaultyPrograms(programs, self.faults)

    def exchanges(self, services: Services, health: Health, observers: Iterable[Observer]) -> Exchanges:
        return FaultyExchanges(services, self.faults, health, observers)
