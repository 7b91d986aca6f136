"""When our submitter looks. Standard library only, as all that drivers share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable


class Looks:
    """When to look whether a workflow has ended: the protocol has no waiting read.

    First when most of the time that the quickest of the last ones took is over, then at short distances, so that
    looking is neither the load nor the time. The coordinator's instants tell it, not our own looks, which come later.
    """

    SHORTEST_S = 0.0015
    #: The first look comes no later: what was slow once, while processes started, must not slow what follows.
    FIRST_S = 0.25

    def __init__(self) -> None:
        self._took = deque([0.005], maxlen=8)

    async def until(self, ended: Callable[[], Awaitable[float | None]]) -> None:
        """`ended` tells how many seconds a workflow took, None while it runs."""
        quickest = min(self._took)
        pause = min(quickest * 0.7, self.FIRST_S)
        while True:
            await asyncio.sleep(pause)
            if (took := await ended()) is not None:
                break
            pause = max(min(quickest / 10, self.FIRST_S), self.SHORTEST_S)
        self._took.append(took)
