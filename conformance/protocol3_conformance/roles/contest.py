"""Two operations that meet: both at once, and one after the other at the records that they contend for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol3_conformance.roles.controls import HOLD, PASS

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab

Act = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One operation. `path` is the route of its command; `step`: what decides in the end, where not the command itself.

    `locks` is False for what never holds records, such as a read: it comes first by ending first. `moves_time`: it
    advances the clock, which waits for what is at `written` (TST-022).
    """

    name: str
    act: Act
    path: str
    step: str | None = None
    locks: bool = True
    moves_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Two sides, and what must be seen: `judge` gets their answers and tells who came first, as far as that shows."""

    sides: tuple[Side, Side]
    judge: Callable[[Any, Any], Awaitable[str]]


async def free(contest: Contest) -> None:
    """Both at once; either order is right."""
    await contest.judge(*await asyncio.gather(*(side.act() for side in contest.sides)))


def places(contest: Contest, first: int) -> tuple[str, ...]:
    """Where the first side can be held while the other comes. At `written` the other finds what was before."""
    leader, follower = contest.sides[first], contest.sides[1 - first]
    return ("locked", "written") if leader.locks and not follower.moves_time else ("locked",)


async def forced(lab: Lab, contest: Contest, first: int, place: str) -> str:
    """One side holds its records at this place until the other has come as well; what the judge saw."""
    leader, follower = contest.sides[first], contest.sides[1 - first]
    controls = lab.controls
    if not leader.locks:
        led = await leader.act()
        answers = [led, await follower.act()]
    else:
        hold = await controls.rule(leader.step or leader.path, HOLD, place)
        leading = asyncio.ensure_future(leader.act())
        await controls.until_held(hold)
        came = await controls.rule(follower.path, PASS)
        following = asyncio.ensure_future(follower.act())
        await controls.until_hit(came)
        await controls.clear(hold)
        answers = [await leading, await following]
    return await contest.judge(*(answers if first == 0 else reversed(answers)))
