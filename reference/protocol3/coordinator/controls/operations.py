"""The operations of a process with test controls: the ordinary ones, and those of /testing/v1."""

from __future__ import annotations

from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.controls import clock
from protocol3.coordinator.controls.clock import Advance, ScopeQuery
from protocol3.coordinator.operations import Operations


class ControlledOperations(Operations):
    """As the HTTP edge sees them."""

    async def read_clock(self, asked: ScopeQuery) -> JsonValue:
        return await clock.read_clock(self._services, asked)

    async def advance_clock(self, command: Advance) -> JsonValue:
        return await clock.advance_clock(self._services, command)
