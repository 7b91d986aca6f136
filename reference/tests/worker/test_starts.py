"""Programs start few at a time."""

import asyncio
import selectors
from collections.abc import Sequence

import pytest

from protocol3.worker.starts import Starts

FOREVER_S = 3600.0


class Programs:
    """Starts that hang until they are let go."""

    def __init__(self, starts: Starts) -> None:
        self._starts = starts
        self.running: list[int] = []
        self.go_on = [asyncio.Event() for _ in range(6)]

    async def start(self, number: int) -> None:
        async with self._starts.turn():
            self.running.append(number)
            await self.go_on[number].wait()
            self.running.remove(number)


class LeapingLoop(asyncio.SelectorEventLoop):
    """Its time leaps to the next timer whenever nothing else is to be done."""

    def __init__(self) -> None:
        selector = selectors.DefaultSelector()
        super().__init__(selector)
        self._now, select = 0.0, selector.select
        selector.select = lambda timeout=None: self._leap(timeout) or select(0)  # type: ignore[method-assign]

    def time(self) -> float:
        return self._now

    def _leap(self, seconds: float | None) -> None:
        self._now += seconds or 0.0


def instants(durations: Sequence[float], *, patience_s: float, most: int) -> list[float]:
    """When each of the programs begins to start, which takes so many seconds; a negative number fails after them."""

    async def story() -> list[float]:
        starts, loop = Starts(patience_s=patience_s, most=most), asyncio.get_running_loop()
        began = [-1.0] * len(durations)

        async def start(number: int) -> None:
            async with starts.turn():
                began[number] = loop.time()
                await asyncio.sleep(abs(durations[number]))
                if durations[number] < 0:
                    raise LookupError

        await asyncio.gather(*map(start, range(len(durations))), return_exceptions=True)
        return began

    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(story())


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_few_start_side_by_side_in_order_of_arrival() -> None:
    programs = Programs(Starts(patience_s=FOREVER_S, most=2))
    tasks = [asyncio.create_task(programs.start(number)) for number in range(4)]
    await turns()
    assert programs.running == [0, 1]
    programs.go_on[1].set()
    await turns()
    assert programs.running == [0, 2]
    for event in programs.go_on:
        event.set()
    await asyncio.gather(*tasks)


async def test_nobody_waits_long_behind_programs_that_hang() -> None:
    programs = Programs(Starts(patience_s=0.0, most=1))
    tasks = [asyncio.create_task(programs.start(number)) for number in range(3)]
    async with asyncio.timeout(20):
        while programs.running != [0, 1, 2]:
            await asyncio.sleep(0.001)
    for event in programs.go_on:
        event.set()
    await asyncio.gather(*tasks)
    assert programs.running == []
    tasks = [asyncio.create_task(programs.start(0))]  # who went without a turn has given none back
    programs.go_on[0].clear()
    await turns()
    assert programs._starts._turns.locked()
    programs.go_on[0].set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize(
    ("durations", "most", "began"),
    [
        ([3.0] * 6, 1, [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]),
        ([4.0] * 8, 2, [0.0, 0.0, 4.0, 4.0, 8.0, 8.0, 12.0, 12.0]),
        ([10.0] * 4, 1, [0.0, 5.0, 5.0, 5.0]),
        ([10.0, 3.0, 3.0, 3.0, 3.0], 2, [0.0, 0.0, 3.0, 6.0, 9.0]),
        ([2.0, 10.0, 1.0, 1.0], 1, [0.0, 2.0, 7.0, 7.0]),
        ([-3.0, -10.0, -10.0, 1.0], 2, [0.0, 0.0, 3.0, 5.0]),
    ],
    ids=["slow", "slow side by side", "all hang", "one hangs", "one hangs behind a quick one", "hung before"],
)
def test_only_behind_programs_that_hang_a_start_goes_on_without_a_turn(
    durations: list[float], most: int, began: list[float]
) -> None:
    """WRK-033: however many are slow, they start few side by side; else all that waited would be too late at once."""
    assert instants(durations, patience_s=5.0, most=most) == pytest.approx(began)


async def test_who_stops_waiting_leaves_the_turn_to_others() -> None:
    programs = Programs(Starts(patience_s=FOREVER_S, most=1))
    tasks = [asyncio.create_task(programs.start(number)) for number in range(3)]
    await turns()
    tasks[1].cancel()
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    await turns()
    assert programs.running[-1] == 2
    programs.go_on[2].set()
    await tasks[2]
