"""The testing profiles of a target in the hands of a scenario: the clock of its scope, and disturbances in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.wire.actors import CLOCK, FAULTS
from protocol3_conformance.wire.faults import TransportFault, Violation
from protocol3_conformance.wire.strict_json import JsonValue

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab

Act = Callable[[], Awaitable[Any]]

READING = {"now", "next_due", "live_attempts"}
RULE = {"id", "match", "skip", "times", "where", "act", "hits"}
HOLD: dict[str, JsonValue] = {"kind": "hold"}
FAIL: dict[str, JsonValue] = {"kind": "fail"}
CRASH: dict[str, JsonValue] = {"kind": "crash"}
DROP: dict[str, JsonValue] = {"kind": "drop"}
PASS: dict[str, JsonValue] = {"kind": "delay", "ms": 0}
"""Disturbs nothing: a rule with it counts who came by."""


def match_of(what: str) -> dict[str, JsonValue]:
    """What a rule is about: a POST route by its path, or a step by its name."""
    return {"method": "POST", "path": what} if what.startswith("/") else {"step": what}


@dataclass(slots=True)
class Controls:
    """Commands of `virtual-time` and `faults` in the scenario's scope. Rules are forgotten when the scenario ends."""

    lab: Lab
    _disturbed: bool = field(default=False, init=False)

    async def post(self, path: str, **members: Any) -> Answer:
        self._disturbed = self._disturbed or path.startswith(FAULTS)
        return Answer(await self.lab.peer.post(path, {"scope": self.lab.scope, **members}))

    # The clock

    async def reading(self) -> Any:
        """The clock of the scope; `now`, `next_due` and `live_attempts` and nothing else (TST-028)."""
        reading = Answer(await self.lab.peer.get(CLOCK, self.lab.scope)).accepted()
        assert set(reading) == READING, f"a reading has exactly {sorted(READING)}, came {sorted(reading)} (TST-028)"
        return reading

    async def move(self, **members: Any) -> Any:
        """The reply of an accepted advance: the reading after it, and by how much (TST-030)."""
        moved = (await self.post(CLOCK, **members)).accepted()
        assert set(moved) == READING | {"advanced_ms"}, f"came {sorted(moved)} (TST-030)"
        return moved

    async def advance(self, ms: int, **members: Any) -> Any:
        return await self.move(advance_ms=ms, **members)

    # Faults

    async def rule(self, what: str, act: JsonValue, where: str = "received", **members: Any) -> str:
        """Add a rule about a route or step; its ID. It strikes once unless `times` says otherwise."""
        rule = (await self.post(FAULTS, match=match_of(what), where=where, act=act, **members)).accepted()
        assert set(rule) == RULE, f"a rule has exactly {sorted(RULE)}, came {sorted(rule)} (TST-031)"
        return str(rule["id"])

    async def look(self) -> Any:
        """All rules of the scope and what they hold."""
        return Answer(await self.lab.peer.get(FAULTS, self.lab.scope)).accepted()

    async def hits(self, rule: str) -> int:
        found = [each["hits"] for each in (await self.look())["faults"] if each["id"] == rule]
        assert len(found) == 1, f"rule {rule} is listed {len(found)} times (TST-033)"
        return int(found[0])

    async def until_held(self, rule: str, count: int = 1) -> list[Any]:
        """What the rule holds, once it is so many."""

        async def look() -> list[Any]:
            return [each for each in (await self.look())["held"] if each["fault"] == rule]

        return await self.lab.until(f"{count} held by {rule}", look, lambda held: len(held) >= count)

    async def until_hit(self, rule: str, count: int = 1) -> None:
        await self.lab.until(f"{rule} struck {count} times", lambda: self.hits(rule), lambda hits: hits >= count)

    async def release(self, identifier: str | None = None) -> int:
        named = {} if identifier is None else {"id": identifier}
        return int((await self.post(f"{FAULTS}/release", **named)).accepted()["released"])

    async def clear(self, identifier: str | None = None) -> Any:
        named = {} if identifier is None else {"id": identifier}
        return (await self.post(f"{FAULTS}/clear", **named)).accepted()

    @asynccontextmanager
    async def holding(self, what: str, act: Act, where: str = "locked") -> AsyncIterator[asyncio.Future[Any]]:
        """Begin `act` and hold it, or the step that it leads to; within the block it is held, after it it goes on."""
        rule = await self.rule(what, HOLD, where)
        task: asyncio.Future[Any] = asyncio.ensure_future(act())
        try:
            await self.until_held(rule)
            yield task
        finally:
            await self.clear(rule)
        await task

    async def close(self) -> None:
        """What this scenario left held must not keep others, or the target's shutdown, waiting."""
        if self._disturbed:
            with suppress(TransportFault, Violation, AssertionError):
                await self.clear()
