"""What a coordinator process is made of. Test controls put other parts in (`coordinator.controls`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import asyncpg

from protocol3.contract.models.common import Scope
from protocol3.coordinator.background import due, obligations, workflow_handlers
from protocol3.coordinator.background.claiming import Claiming
from protocol3.coordinator.background.expiry import handle_lease
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.observation import Observer
from protocol3.coordinator.operations import operations
from protocol3.coordinator.services import Services
from protocol3.core.verdict import Wake
from protocol3.programs.stores import ProgramStore
from protocol3.store.database import POOL_SIZE, DatabaseError, is_ahead
from protocol3.store.scopes import Scopes
from protocol3.store.transition import Transitions
from protocol3.telemetry.tracing import Tracing

SUBMISSIONS: Final = 4


class Parts:
    """The parts of an ordinary process. `scans` and the handlers are those of the loops."""

    #: Connections; one of them listens for hints.
    pool_size: int = POOL_SIZE + 1
    #: Submissions that use connections side by side: the others are for whoever works.
    submissions: int = SUBMISSIONS
    #: Obligations handled side by side.
    obligation_workers: int = obligations.CONCURRENCY
    scans: due.Scans = due.BY_REAL_TIME
    agenda: Mapping[str, due.Handler] = {"lease": handle_lease, **workflow_handlers.AGENDA}
    agenda_together: Mapping[str, due.Together] = workflow_handlers.AGENDA_TOGETHER
    #: What a transient failure with an obligation is followed by.
    give_up: obligations.Handler = staticmethod(workflow_handlers.give_up)
    obligations: Mapping[str, obligations.Handler] = workflow_handlers.OBLIGATIONS

    async def prepare(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        """Look at the database, whose schema is current. Raises DatabaseError if it is not for a process like this.

        TST-018.
        """
        async with pool.acquire() as connection:
            if await is_ahead(connection):
                raise DatabaseError(
                    "clocks of this database were advanced by tests: serve it with --test-controls, or use another one"
                )

    def transitions(
        self, pool: asyncpg.Pool[asyncpg.Record], on_commit: Callable[[tuple[Wake, ...]], None]
    ) -> Transitions:
        return Transitions(pool, on_commit=on_commit)

    def claiming(
        self, transitions: Transitions, scopes: Scopes, tracing: Tracing, scope_id: int, queue: str
    ) -> Claiming:
        return Claiming(transitions, tracing, scope_id, queue)

    def applies_at_once(self, scope: Scope) -> bool:
        """Whether a decision that needs nothing from outside is applied in the step that settles its activation."""
        return True

    def programs(self, programs: ProgramStore) -> ProgramStore:
        return programs

    def exchanges(self, services: Services, health: Health, observers: Iterable[Observer]) -> Exchanges:
        return Exchanges(operations(services), health, fixed_scope=services.fixed_scope, observers=observers)


PLAIN: Final = Parts()
