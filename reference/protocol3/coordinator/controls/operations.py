"""The operations of /testing/v1."""

from __future__ import annotations

from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.controls import clock
from protocol3.coordinator.controls.clock import Advance, ScopeQuery
from protocol3.coordinator.controls.faults import Faults
from protocol3.coordinator.controls.rules import AddFault, Pick
from protocol3.coordinator.services import Services


class Controls:
    """As the HTTP edge sees them."""

    def __init__(self, services: Services, faults: Faults) -> None:
        self._services = services
        self._faults = faults

    async def read_clock(self, asked: ScopeQuery) -> JsonValue:
        return await clock.read_clock(self._services, asked)

    async def advance_clock(self, command: Advance) -> JsonValue:
        return await clock.advance_clock(self._services, command)

    async def list_faults(self, asked: ScopeQuery) -> JsonValue:
        return self._faults.shown(asked.scope)

    async def add_fault(self, command: AddFault) -> JsonValue:
        return self._faults.add(command)

    async def release_faults(self, command: Pick) -> JsonValue:
        return self._faults.release(command)

    async def clear_faults(self, command: Pick) -> JsonValue:
        return self._faults.clear(command)
