"""Sleeping that can be cut short."""

from __future__ import annotations

import asyncio


class Bell:
    """`ring` ends the present rest, or the next one if nobody rests."""

    __slots__ = ("_rung",)

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def rest(self, seconds: float) -> bool:
        """Return when rung, at the latest after `seconds` (0 only lets others run). Whether it was rung."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._rung.wait()
        except TimeoutError:
            pass
        rung = self._rung.is_set()
        self._rung.clear()
        return rung
