"""One command that is cut off at a crash point, repeated byte for byte, and accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from protocol3_conformance.crashes import points
from protocol3_conformance.crashes.points import CONNECTION, KILL, PROFILE, Point
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.roles.controls import CRASH, DROP, HOLD
from protocol3_conformance.wire.faults import NotDetermined, TransportFault
from protocol3_conformance.wire.interrupted import Interrupted
from protocol3_conformance.wire.strict_json import JsonValue, same

if TYPE_CHECKING:
    from protocol3_conformance.lab import Lab


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command and what must hold however often it was sent.

    `stays` is the part of its reply that no repetition changes; `account` gets a reply and reads back what became of
    it. `tells`: the reply has `already_accepted`.
    """

    path: str
    body: JsonValue
    stays: Callable[[Any], JsonValue]
    account: Callable[[Any], Awaitable[None]]
    tells: bool = False


async def disturb(lab: Lab, command: Command, point: Point) -> None:
    """Cut the command off at the point, repeat it, and account for it."""
    ways = point.ways(lab.target)
    lab.notes.append(f"{point.name} by {' and '.join(ways)}")
    if point.place == points.TWICE:
        await _twice(lab, command)
        return
    reached = _Reached(lab, command, point, ways)
    if KILL in ways:
        await die(lab, reached.reach)
        reached.cut()
    else:
        await reached.reach()
    await _repeat(lab, command, reached)


async def die(lab: Lab, reach: Callable[[], Awaitable[object]]) -> None:
    """Bring about a place and let the target die there, together with whoever else waits for that."""
    if lab.outage is None:
        raise NotDetermined("the target can be killed by one process of a run only: run without -n")

    async def by_rule() -> None:
        await lab.controls.rule("/v1/tasks", CRASH)
        try:
            await lab.client.submit_task()
        except TransportFault:
            return
        raise NotDetermined("a fault rule with act crash was answered; the target did not die")

    await lab.outage.meet(lab.check_id, reach, by_rule)
    lab.peer.close()  # idle connections died with the target


async def definite(lab: Lab, command: Command) -> Answer:
    """Send it until there is an answer other than 503, which proves nothing (HTTP-068)."""
    return await lab.until(
        f"a definite answer of {command.path}",
        lambda: lab.client.post(command.path, command.body),
        lambda seen: seen.status != 503,
        show=lambda seen: seen.value,
    )


class _Reached:
    """The first delivery. `accepted`: its reply, heard or not; `stored`: whether it is durable, None where unknown."""

    def __init__(self, lab: Lab, command: Command, point: Point, ways: tuple[str, ...]) -> None:
        self._lab, self._command, self._point, self._ways = lab, command, point, ways
        self._cut_off: Interrupted | None = None
        self.accepted: Any = None
        self.stored: bool | None = None

    async def reach(self) -> None:
        """Bring the command to the point."""
        match self._point.place:
            case points.BEFORE_RECEIPT:
                await (await self._begun()).send_half()
                self.stored = False
            case points.AT_WORK:
                await self._at_work()
            case points.BEFORE_REPLY:
                await self._before_reply()
            case points.AFTER_REPLY:
                await self._answered()
            case points.MID_STEP:
                await self._mid_step()
        if KILL not in self._ways:
            self.cut()

    def cut(self) -> None:
        """Nothing more comes of the first delivery."""
        if self._cut_off is not None and self._cut_off.exchange.fault is None:
            self._cut_off.cut(f"cut off at {self._point.name}")

    async def _begun(self) -> Interrupted:
        self._cut_off = await Interrupted.begin(self._lab.peer, self._command.path, self._command.body)
        return self._cut_off

    async def _answered(self) -> None:
        self.accepted = (await definite(self._lab, self._command)).accepted()
        self.stored = True

    async def _at_work(self) -> None:
        """Without fault rules it is anyone's guess how far the command comes before the target dies."""
        sending = await self._begun()
        if PROFILE not in self._ways:
            await sending.send()
            return
        rule = await self._lab.controls.rule(self._point.match, HOLD, "written")
        await sending.send()
        await self._lab.controls.until_held(rule)
        self.stored = False

    async def _before_reply(self) -> None:
        controls = self._lab.controls
        if self._ways == (CONNECTION,) or self._ways == (KILL,):
            self.accepted = Answer(await (await self._begun()).withheld()).accepted()
            self.stored = True
            return
        act = HOLD if KILL in self._ways else DROP
        rule = await controls.rule(self._command.path, act, "committed")
        sending = await self._begun()
        await sending.send()
        await (controls.until_held(rule) if act is HOLD else controls.until_hit(rule))
        self.stored = True

    async def _mid_step(self) -> None:
        if PROFILE not in self._ways:
            await self._answered()
            return
        rule = await self._lab.controls.rule(self._point.match, HOLD, "written")
        await self._answered()
        await self._lab.controls.until_held(rule)


async def _repeat(lab: Lab, command: Command, reached: _Reached) -> None:
    again = (await definite(lab, command)).accepted()
    if reached.accepted is not None:
        _unchanged(command, reached.accepted, again)
    if command.tells and reached.stored is not None:
        told = again["already_accepted"]
        assert told is reached.stored, f"already_accepted is {told}, but the command had {_word(reached.stored)}"
    more = (await definite(lab, command)).accepted()
    _unchanged(command, again, more)
    assert not command.tells or more["already_accepted"] is True, "a repetition must be told that it is one"
    await command.account(again)


async def _twice(lab: Lab, command: Command) -> None:
    both = [answer.accepted() for answer in await asyncio.gather(definite(lab, command), definite(lab, command))]
    _unchanged(command, *both)
    if command.tells:
        told = sorted(reply["already_accepted"] for reply in both)
        assert told == [False, True], f"of two at once exactly one is the first, already_accepted came {told}"
    await command.account(both[0])


def _unchanged(command: Command, before: Any, after: Any) -> None:
    first, second = command.stays(before), command.stays(after)
    assert same(first, second), f"the same command was answered {first} and then {second}"


def _word(stored: bool) -> str:
    return "been made durable before" if stored else "not been made durable"
