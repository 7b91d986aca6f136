"""Claiming tasks of one queue for several polls with one decision (chapter 07, Waiting)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from protocol3.coordinator.traces import Producers
from protocol3.core.claim import Claims
from protocol3.store.connections import Connection
from protocol3.store.loads import claims as loads
from protocol3.store.loads.claims import Asked
from protocol3.store.transition import Transitions
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

    async def __call__(self, connection: Connection, asked: Sequence[Asked], *, claim: bool) -> Claims:
        """What became of each poll, by its position (DLV-023). Without `claim` they are judged alone."""
        now = asyncio.get_running_loop().time
        claims = None
        if claim and now() >= self._contended_until:
            claims = await self._free(connection, asked, None)
            if claims is None:
                self._contended_until = now() + CONTENDED_S
        if claim and claims is None:
            claims = await self._locked(connection, asked)
        if claims is None:  # others hold what there is: nobody is told that there was nothing
            claims = await self._free(connection, [replace(poll, last=False) for poll in asked], ())
        assert claims is not None  # nothing was written, so nothing missed
        return claims

    async def _free(self, connection: Connection, asked: Sequence[Asked], ids: Sequence[str] | None) -> Claims | None:
        sql, scope_id, queue = self._transitions.sql, self._scope_id, self._queue
        producers = Producers(self._tracing)
        claims: Claims | None = await self._transitions.run_once(
            connection, lambda c: loads.claiming(c, sql, scope_id, queue, asked, ids), producers.decide
        )
        return producers.ended(claims)

    async def _locked(self, connection: Connection, asked: Sequence[Asked]) -> Claims | None:
        sql, scope_id, queue = self._transitions.sql, self._scope_id, self._queue
        commands = [poll.command for poll in asked]
        producers = Producers(self._tracing)
        claims: Claims | None = await self._transitions.run_holding(
            connection,
            lambda c: loads.lock(c, sql, scope_id, queue, commands),
            lambda c, ids: loads.claiming(c, sql, scope_id, queue, asked, ids),
            producers.decide,
        )
        return producers.ended(claims)
