"""Reading and advancing the clock of one scope (profile virtual-time of spec/35-testing-profiles.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from protocol3.contract import query
from protocol3.contract.fields import Fields, integer
from protocol3.contract.limits import MAX_TIMESTAMP_MS
from protocol3.contract.models.common import Scope
from protocol3.contract.models.queries import scope_of
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.vocabulary import word_reader
from protocol3.coordinator.services import Services
from protocol3.store import virtual_time

_TARGET: Final = word_reader(("next_due",))
_LEASES: Final = word_reader(("expire", "hold"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeQuery:
    """Names one scope."""

    scope: Scope

    @classmethod
    def from_query(cls, raw: str | bytes) -> Self:
        return cls(scope=scope_of(query.fields(raw, frozenset({"tenant_id", "namespace"}))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """TST-029: moves a scope ahead by `by` ms, or with None to what is due next; `hold` renews its leases all the
    way.
    """

    scope: Scope
    by: int | None
    hold: bool

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            scope = f.required("scope", Scope.from_json)
            by = f.optional("advance_ms", None, integer, 0, MAX_TIMESTAMP_MS)
            to = f.optional("to", None, _TARGET)
            if (by is None) == (to is None):
                raise invalid(at, "needs advance_ms or to, and not both")
            return cls(scope=scope, by=by, hold=f.optional("leases", "expire", _LEASES) == "hold")


async def read_clock(services: Services, asked: ScopeQuery) -> JsonValue:
    """TST-028: the scope's time and what is due next in it."""
    return _shown(await _times(services, await services.scopes.require(asked.scope)))


async def advance_clock(services: Services, command: Advance) -> JsonValue:
    """TST-010, TST-012, TST-030: the same after the advance, and by how much; everything that waits in the scope
    looks again.
    """
    scope_id = await services.scopes.require(command.scope)
    try:
        async with services.pool.acquire() as connection:
            advanced = await virtual_time.advance(connection, scope_id, by=command.by, hold=command.hold)
    except virtual_time.BeyondTime:
        raise invalid("body", f"the scope's time would exceed {virtual_time.LATEST}") from None
    services.look_again(scope_id)
    services.hints.tell_scope(scope_id)
    return _shown(await _times(services, scope_id)) | {"advanced_ms": advanced}


async def _times(services: Services, scope_id: int) -> virtual_time.Times:
    async with services.pool.acquire() as connection:
        return await virtual_time.read(connection, scope_id)


def _shown(times: virtual_time.Times) -> dict[str, JsonValue]:
    return {"now": times.now, "next_due": times.next_due, "live_attempts": times.live_attempts}
