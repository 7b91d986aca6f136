"""Claiming tasks of one queue for several polls with one decision (chapter 07, Waiting)."""

from __future__ import annotations

import asyncio
from typing import Final

from protocol3.contract.models.delivery import AcquireCommand
from protocol3.coordinator.traces import Producers
from protocol3.core.claim import Claims
from protocol3.store.loads import claims as loads
from protocol3.store.transition import Connection, Transitions
from protocol3.telemetry.tracing import Tracing

#: Seconds for which locks come before claims, once another process was faster.
CONTENDED_S: Final = 5.0


class Claiming:
    """Claims from one queue. Without locks first, which is quicker.

    After a miss another process claims from this queue as well: then for a while only tasks that it does not hold, for
    which nobody waits.
    """

    def __init__(self, transitions: Transitions, tracing: Tracing, scope_id: int, queue: str) -> None:
        self._transitions = transitions
        self._tracing = tracing
        self._scope_id = scope_id
        self._queue = queue
        self._contended_until = 0.0

    async def __call__(self, connection: Connection, commands: list[AcquireCommand]) -> Claims | None:
        """What became of each poll, by its position; None if others were faster or there is nothing (DLV-023)."""
        now = asyncio.get_running_loop().time
        claims = None
        if now() >= self._contended_until:
            claims = await self._free(connection, commands)
            if claims is None:
                self._contended_until = now() + CONTENDED_S
        return claims or await self._locked(connection, commands)

    async def _free(self, connection: Connection, commands: list[AcquireCommand]) -> Claims | None:
        sql, scope_id, queue = self._transitions.sql, self._scope_id, self._queue
        producers = Producers(self._tracing)
        claims: Claims | None = await self._transitions.run_once(
            connection, lambda c: loads.claiming(c, sql, scope_id, queue, commands, None), producers.decide
        )
        return producers.ended(claims)

    async def _locked(self, connection: Connection, commands: list[AcquireCommand]) -> Claims | None:
        sql, scope_id, queue = self._transitions.sql, self._scope_id, self._queue
        producers = Producers(self._tracing)
        claims: Claims | None = await self._transitions.run_holding(
            connection,
            lambda c: loads.lock(c, sql, scope_id, queue, commands),
            lambda c, ids: loads.claiming(c, sql, scope_id, queue, commands, ids),
            producers.decide,
        )
        return producers.ended(claims)
