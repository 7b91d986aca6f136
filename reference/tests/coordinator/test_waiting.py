"""Whose turn it is among waiting polls, and what a wake costs where many wait (chapter 07, Waiting)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from protocol3.contract.models.delivery import AcquireEmpty
from protocol3.coordinator.background.dispatcher import Dispatcher
from protocol3.coordinator.background.waiting import BATCH, FIRST, Line, Waiter
from protocol3.core.claim import Claims


class Asker:
    """The command of a poll. `looks` tells how often anybody asked whose it is."""

    looks = 0

    def __init__(self, consumer: int) -> None:
        self.worker_session_id = "s"
        self._consumer = consumer

    @property
    def consumer_id(self) -> int:
        Asker.looks += 1
        return self._consumer


def poll(consumer: int, *, judged: bool = True, last: bool = False) -> Waiter:
    command: Any = Asker(consumer)
    return Waiter(command=command, last=last, placed=judged, judged=judged)


async def line_of(*polls: Waiter) -> Line:
    line = Line()
    for waiter in polls:
        line.add(waiter)
    return line


async def test_nobody_has_a_turn_while_there_is_nothing_to_do():
    line = await line_of(*(poll(n) for n in range(3)))
    assert line.turn(claims=False) == []


async def test_a_claim_is_for_who_came_first():
    polls = [poll(n) for n in range(BATCH + 5)]
    line = await line_of(*polls)
    assert line.turn(claims=True) == polls[:BATCH]


async def test_who_is_owed_an_answer_has_a_turn_however_many_wait():
    """DLV-035: and a claim still is for the first ones as well."""
    idle = [poll(n) for n in range(100)]
    owed = [poll(100 + n, judged=n % 2 == 0, last=n % 2 == 0) for n in range(BATCH)]
    line = await line_of(*idle, *owed)
    assert line.turn(claims=True) == [*idle[:FIRST], *owed[: BATCH - FIRST]]
    assert line.turn(claims=False) == owed


async def test_who_is_among_the_first_and_owed_an_answer_has_one_turn():
    polls = [poll(0, last=True), *(poll(n) for n in range(1, 4))]
    line = await line_of(*polls)
    assert line.turn(claims=True) == polls


async def test_a_poll_is_owed_an_answer_until_it_rests_and_again_once_its_wait_is_over():
    waiter = poll(0, judged=False)
    line = await line_of(waiter)
    assert line.turn(claims=False) == [waiter]
    line.rest(waiter)
    assert line.turn(claims=False) == []
    line.hurry(waiter)
    line.rest(waiter)  # by a decision that began before
    assert line.turn(claims=False) == [waiter]


async def test_the_most_urgent_poll_of_a_consumer_stands_for_all():
    """At the place of the first, and of equal ones the first."""
    before, first, second, third = poll(1), poll(0), poll(0, judged=False), poll(0, last=True)
    line = await line_of(before, first, second)
    assert list(line) == line.turn(claims=True) == [before, second]
    line.add(third)
    assert list(line) == [before, third]
    assert line.everybody() == [before, first, second, third]
    line.remove(third)
    line.rest(second)
    assert list(line) == [before, first]
    assert line.turn(claims=False) == []


async def test_an_answer_lets_the_other_polls_of_its_consumer_be_judged():
    stranger, other = poll(1), poll(0)
    line = await line_of(stranger, other)
    line.judge(("s", 0))
    assert line.turn(claims=False) == [other]


@pytest.mark.parametrize("last", [False, True])
async def test_who_left_has_no_turn(last):
    waiter = poll(0, judged=False, last=last)
    line = await line_of(waiter)
    line.remove(waiter)
    assert not line
    line.hurry(waiter)  # none of these brings it back
    line.rest(waiter)
    line.judge(waiter.consumer)
    line.remove(waiter)
    assert not line
    assert line.everybody() == line.turn(claims=True) == []


class Claiming:
    """Gives the first poll of each claim an answer, and none to the others."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def __call__(self, _: object, asked: Sequence[Any], *, claim: bool) -> Claims:
        assert claim
        self.asked.append(len(asked))
        return Claims(assigned={}, empty={0: AcquireEmpty(sequence=1)}, answered=(), next_ms=None)


@asynccontextmanager
async def dispatching(claiming: Any) -> Any:
    @asynccontextmanager
    async def acquire() -> Any:
        yield None

    transitions: Any = SimpleNamespace(pool=SimpleNamespace(acquire=acquire))
    place: Callable[[], bool] = lambda: True  # noqa: E731
    dispatcher = Dispatcher(transitions, claiming, 1, "q", place=place, on_end=lambda: None)
    try:
        yield dispatcher
    finally:
        dispatcher.task.cancel()
        await asyncio.gather(dispatcher.task, return_exceptions=True)


async def test_a_wake_costs_the_same_however_many_polls_wait(monkeypatch):
    """It is on the way of every assignment, so nobody is looked at for whom there cannot be a task."""
    monkeypatch.setattr("protocol3.coordinator.background.dispatcher.LOOK_S", 3_600)
    looks = []
    for waiting in (BATCH + 1, 2_000):
        claiming = Claiming()
        async with dispatching(claiming) as dispatcher:
            polls = [poll(n) for n in range(waiting)]
            for waiter in polls:
                dispatcher.add(waiter)
            Asker.looks = 0
            dispatcher.ring()
            await polls[0].answer
            await asyncio.sleep(0)
            assert claiming.asked == [BATCH]
            looks.append(Asker.looks)
    assert looks[0] == looks[1] > 0
