"""Background work gives way to exchanges: turns of the loop are counted by a clock that only work moves."""

from __future__ import annotations

import asyncio

import pytest

from protocol3.coordinator.background.courtesy import QUIET_S, RECENT_S, TURNS, Traffic, give_way


class Busy:
    """A clock, and so many pieces of work, each ready a turn of the loop after the one before."""

    def __init__(self, pieces: float) -> None:
        self.time = 0.0
        self.done = 0
        self._pieces = pieces
        self._loop = asyncio.get_running_loop()
        self._go_on()

    def now(self) -> float:
        return self.time

    def _go_on(self) -> None:
        if self.done < self._pieces:
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        self.done += 1
        self.time += 2 * QUIET_S
        self._go_on()


@pytest.mark.parametrize("pieces", range(TURNS + 1))
async def test_what_goes_on_from_turn_to_turn_goes_first(pieces: int) -> None:
    """An exchange comes to its next wait, or its end."""
    busy = Busy(pieces)
    await give_way(busy.now)
    assert busy.done == pieces


async def test_work_without_end_holds_nobody_up() -> None:
    busy = Busy(float("inf"))
    await give_way(busy.now)
    assert busy.done == TURNS
    busy._pieces = 0


async def test_a_loop_with_nothing_else_to_do_takes_one_turn() -> None:
    """A lone timer waits for nobody."""
    turns: list[int] = []

    async def count() -> None:
        while True:
            turns.append(1)
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await give_way(lambda: 0.0)
    counting.cancel()
    assert len(turns) == 1


async def test_an_exchange_is_remembered_for_a_while() -> None:
    time = 100.0
    traffic = Traffic(lambda: time)
    assert not traffic.comes
    traffic.seen(None)
    assert traffic.comes
    time += RECENT_S
    assert not traffic.comes
