"""The parts of a process with test controls."""

from __future__ import annotations

from collections.abc import Callable

import asyncpg

from protocol3.coordinator.background import due
from protocol3.coordinator.controls.operations import ControlledOperations
from protocol3.coordinator.controls.routes import CONTROL_ROUTES
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.http.routes import ROUTES
from protocol3.coordinator.parts import Parts
from protocol3.coordinator.services import Services
from protocol3.core.verdict import Wake
from protocol3.store import virtual_time
from protocol3.store.transition import Transitions


class ControlledParts(Parts):
    """Clocks of scopes, and the routes of /testing/v1."""

    scans = due.Scans(due=(*due.BY_REAL_TIME.due, virtual_time.DUE_AHEAD), next=virtual_time.NEXT_DUE)

    async def prepare(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        await virtual_time.prepare(pool)

    def transitions(
        self, pool: asyncpg.Pool[asyncpg.Record], on_commit: Callable[[tuple[Wake, ...]], None]
    ) -> Transitions:
        return Transitions(pool, on_commit=on_commit, virtual=True)

    def exchanges(self, services: Services, health: Health) -> Exchanges:
        operations = ControlledOperations(services)
        return Exchanges(operations, health, fixed_scope=services.fixed_scope, routes=(*ROUTES, *CONTROL_ROUTES))
