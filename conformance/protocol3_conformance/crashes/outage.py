"""The one time in a run at which the target goes down: whoever takes part meets here, and goes on when it is up again.

One death serves many scenarios: all bring their exchange to its place first, then the target dies under all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from protocol3_conformance.crashes.power import Power, PowerFailure
from protocol3_conformance.target import Target
from protocol3_conformance.wire.faults import NotDetermined

COMING, GATHERED, AT_THE_PLACE = range(3)
Act = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Outage:
    """`takers`: check IDs of those who may take part; each either meets the others or leaves.

    `down_ms` is how long the target was away, from the kill to its being ready; `ready_at` the monotonic time of that.
    """

    target: Target
    takers: Iterable[str]
    down_ms: float = 0.0
    ready_at: float = 0.0
    _stages: dict[str, int] = field(init=False)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition, init=False)
    _strike: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._stages = dict.fromkeys(self.takers, COMING)

    async def meet(self, taker: str, reach: Act, die: Act) -> None:
        """When all have come: bring about the place by `reach`; when all have done so the target dies and comes back.

        `die` makes it kill itself, where no command does it. Raises NotDetermined when the commands fail.
        """
        if self._strike is not None:
            raise NotDetermined("the target had been killed and restarted before this check came to its crash point")
        await self._advance(taker, GATHERED)
        await reach()
        await self._advance(taker, AT_THE_PLACE)
        if self._strike is None:
            self._strike = asyncio.create_task(self._down_and_up(die))
        try:
            await asyncio.shield(self._strike)
        except PowerFailure as failure:
            raise NotDetermined(f"the target could not be killed and restarted: {failure}") from None

    async def leave(self, taker: str) -> None:
        """Nobody waits for it any more."""
        async with self._changed:
            self._stages.pop(taker, None)
            self._changed.notify_all()

    async def _advance(self, taker: str, stage: int) -> None:
        """Wait for the others at this stage, but not for ever: who is late finds that it has happened."""
        async with self._changed:
            self._stages[taker] = stage
            self._changed.notify_all()
            try:
                async with asyncio.timeout(self.target.patience.progress):
                    await self._changed.wait_for(lambda: min(self._stages.values(), default=stage) >= stage)
            except TimeoutError:
                for late in [name for name, seen in self._stages.items() if seen < stage]:
                    del self._stages[late]
                self._changed.notify_all()

    async def _down_and_up(self, die: Act) -> None:
        power, patience = self.target.power, self.target.patience
        assert isinstance(power, Power)
        began = time.monotonic()
        if power.by_itself:
            await die()
        await power.down(self.target.endpoint, patience.progress)
        await power.up(self.target.endpoint, patience.restart)
        self.ready_at = time.monotonic()
        self.down_ms = (self.ready_at - began) * 1000
