"""The HTTP edge of a process with test controls: replies that rules alter, and a shutdown that ends all rules."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Final

from aiohttp.web_request import BaseRequest

from protocol3.coordinator.controls.faults import Faults
from protocol3.coordinator.controls.operations import Controls
from protocol3.coordinator.controls.places import faulty_operation
from protocol3.coordinator.controls.routes import CONTROL_ROUTES
from protocol3.coordinator.health import Health
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.http.reply import Reply
from protocol3.coordinator.http.routes import ROUTES
from protocol3.coordinator.observation import Observer
from protocol3.coordinator.operations import operations
from protocol3.coordinator.services import Services


def all_operations(services: Services, faults: Faults) -> SimpleNamespace:
    """TST-004: the operations of the contract as occasions, and those of the controls as they are."""
    ordinary, controls = operations(services), Controls(services, faults)
    both = SimpleNamespace()
    for route in ROUTES:
        operation = faulty_operation(services, faults, route, getattr(ordinary, route.operation))
        setattr(both, route.operation, operation)
    for route in CONTROL_ROUTES:
        setattr(both, route.operation, getattr(controls, route.operation))
    return both


class FaultyExchanges(Exchanges):
    """TST-001, TST-025: every exchange of the contract as an occasion, beside the routes of the controls."""

    def __init__(self, services: Services, faults: Faults, health: Health, observers: Iterable[Observer]) -> None:
        self._faults: Final = faults
        super().__init__(
            all_operations(services, faults),
            health,
            fixed_scope=services.fixed_scope,
            routes=(*ROUTES, *CONTROL_ROUTES),
            observers=observers,
        )

    def begin_shutdown(self) -> None:
        self._faults.end()
        super().begin_shutdown()

    async def __call__(self, request: BaseRequest) -> Reply:
        with self._faults.reply() as alterations:
            reply = await super().__call__(request)
        for alter in alterations:
            reply = alter(reply)
        return reply
