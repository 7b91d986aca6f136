"""What background work leaves to exchanges: the loop between its steps, and a core while exchanges come.

Everything is decided in one event loop, which shares few cores with the database. An exchange crosses that loop several
times, and each time it waits for whatever runs there and for a core.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

#: Turns of the loop that others get between two steps at most: about what an exchange takes from one wait to the next.
#: More of them would let many exchanges hold up background work for ever.
TURNS: Final = 4
#: A turn that took fewer seconds had nothing else to do.
QUIET_S: Final = 0.00003
#: Exchanges come for so many seconds after the last one.
RECENT_S: Final = 1.0


async def give_way(now: Callable[[], float] = time.perf_counter) -> None:
    """Between two steps of background work: others run until the loop has nothing else to do, at most `TURNS` turns.

    With nothing else to do that is one empty turn, a few microseconds.
    """
    for _ in range(TURNS):
        began = now()
        await asyncio.sleep(0)
        if now() - began < QUIET_S:
            return


class Traffic:
    """Whether exchanges `come`; `seen` is told of each that was answered."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until = float("-inf")

    def seen(self, _: object) -> None:
        self._until = self._now() + RECENT_S

    @property
    def comes(self) -> bool:
        return self._now() < self._until
