"""Programs that start side by side: few, because each has to be ready in its time and all of them share the cores."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

_PER_CORE: Final = 2


class Starts:
    """Turns to start a program, in order of arrival.

    Nobody waits long behind programs that hang: when no program became ready in a turn for ``patience_s`` seconds, a
    start goes on without one. Behind programs that are slow everybody waits, or all of them would be too late.
    """

    def __init__(self, *, patience_s: float, most: int | None = None) -> None:
        """At most ``most`` at a time, by default two for each core of this machine."""
        self._turns = asyncio.Semaphore(most or _PER_CORE * (os.cpu_count() or 1))
        self._patience_s = patience_s
        self._patient: set[asyncio.Timeout] = set()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Around a start, until the program is ready or has failed."""
        has_turn = await self._taken()
        try:
            yield
            if has_turn:
                self._go_on()
        finally:
            if has_turn:
                self._turns.release()

    async def _taken(self) -> bool:
        patience = asyncio.timeout(self._patience_s)
        self._patient.add(patience)
        try:
            async with patience:
                return await self._turns.acquire()
        except TimeoutError:
            return False
        finally:
            self._patient.discard(patience)

    def _go_on(self) -> None:
        """A program did become ready: whoever waits has patience anew."""
        ends = asyncio.get_running_loop().time() + self._patience_s
        for patience in self._patient:
            if not patience.expired():
                patience.reschedule(ends)
