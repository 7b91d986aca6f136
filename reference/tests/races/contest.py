"""How a race is played: in a forced order, or free. Nothing here knows any race."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from races.arena import PINNED, RaceLab


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two. `act` is its command, whose reply the judge gets.

    With `step` it is that background step which contends, and the command sets it off. A side that does not wait for
    the contested row (`locks=False`), because it only reads or is about another record, is played before or after; so
    is one that finds nothing left to do when it is second (`locks_second=False`).
    """

    name: str
    act: Callable[[], Awaitable[Any]]
    step: str | None = None
    locks: bool = True
    locks_second: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A race that is set up. `row` (table, key) is what both sides need; None: the first is over before the second.

    `judge` gets both replies, reads back, and returns which outcome it was; it fails if it is none of the allowed ones.
    `outcomes` are those of the two forced orders: first side first, second side first.
    """

    sides: tuple[Side, Side]
    judge: Callable[[Any, Any], Awaitable[str]]
    row: tuple[str, str] | None = None
    outcomes: tuple[str, str] = ("", "")

    @property
    def allowed(self) -> tuple[str, str]:
        """What each forced order must come to; the side that was first wins unless said otherwise."""
        first, second = self.outcomes
        return first or self.sides[0].name, second or self.sides[1].name


SetUp = Callable[[RaceLab], Awaitable[Contest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """A row of the table. `restarts` coordinators, so it is played less often."""

    name: str
    ids: tuple[str, ...]
    set_up: SetUp
    restarts: bool = False

    async def forced(self, lab: RaceLab, first: int) -> str:
        """Play it with this side first; the outcome, which must be that of the order."""
        contest = await self.set_up(lab)
        players = [_Player(lab, side, at) for at, side in enumerate(contest.sides)]
        for player in players:
            await player.get_ready()
        await _in_order(lab, contest, players[first], players[1 - first])
        outcome = await contest.judge(*[await player.reply() for player in players])
        expected = contest.allowed[first]
        assert outcome == expected, f"{contest.sides[first].name} was first; expected {expected}, came {outcome}"
        return outcome

    async def free(self, lab: RaceLab) -> str:
        """Play both at once at two coordinators; the outcome, which must be one of the two."""
        contest = await self.set_up(lab)
        places = lab.random.sample(range(len(lab.each)), 2)
        # Not to settle anything: one side starts later, so that both orders and what is between them come up.
        starts = [0.0, lab.random.choice([0, 0, 0.002, 0.01, 0.03, 0.08])]
        lab.random.shuffle(starts)
        tasks = [start(side.act, at, after) for side, at, after in zip(contest.sides, places, starts, strict=True)]
        outcome = await contest.judge(*await asyncio.gather(*tasks))
        assert outcome in contest.allowed, f"expected one of {contest.allowed}, came {outcome}"
        return outcome


def start(act: Callable[[], Awaitable[Any]], at: int, after: float = 0) -> asyncio.Task[Any]:
    """A command as a task, sent to one coordinator."""

    async def started() -> Any:
        await asyncio.sleep(after)
        return await act()

    context = copy_context()
    context.run(PINNED.set, at)
    return asyncio.create_task(started(), context=context)


@dataclass(slots=True)
class _Player:
    """A side at its coordinator."""

    lab: RaceLab
    side: Side
    at: int
    task: asyncio.Task[Any] | None = None

    async def get_ready(self) -> None:
        """A step is set off, and held before it begins."""
        if self.side.step is not None:
            await self.lab.rule(self.side.step, "hold", at=self.at)
            self.task = start(self.side.act, self.at)
            await self.lab.until_held(self.at)

    async def go(self) -> None:
        if self.side.step is not None:
            await self.lab.release(self.at)
        else:
            self.task = start(self.side.act, self.at)

    async def reply(self) -> Any:
        assert self.task is not None
        return await self.task

    async def finish(self) -> None:
        await self.reply()
        if self.side.step is not None:
            await self.lab.nothing_owed()


async def _in_order(lab: RaceLab, contest: Contest, first: _Player, second: _Player) -> None:
    if contest.row is None or not (second.side.locks and second.side.locks_second):  # nothing to wait for
        await first.go()
        await first.finish()
        await second.go()
        return
    async with lab.holding(*contest.row) as until_blocked:
        if first.side.locks:
            await first.go()
            await until_blocked(1)
            await second.go()
            await until_blocked(2)
        else:
            await second.go()
            await until_blocked(1)
            await first.go()
            await first.finish()


RACES: list[Race] = []


def race(*ids: str, restarts: bool = False) -> Callable[[SetUp], SetUp]:
    """Enter a set-up into the table under these rows of chapter 18."""

    def enter(set_up: SetUp) -> SetUp:
        name = getattr(set_up, "__name__", "").replace("_", "-")
        RACES.append(Race(name=name, ids=ids, set_up=set_up, restarts=restarts))
        return set_up

    return enter
