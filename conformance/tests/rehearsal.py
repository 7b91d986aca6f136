"""Histories played against the model alone: every answer is one that it expects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from judging import target

from protocol3_conformance.lab import Lab
from protocol3_conformance.model.expected import ABSENT
from protocol3_conformance.stateful import replay
from protocol3_conformance.stateful.history import Call, History
from protocol3_conformance.stateful.kinds import KINDS
from protocol3_conformance.stateful.machine import Machine, Operations
from protocol3_conformance.stateful.search import draw
from protocol3_conformance.target import CLAIMABLE
from protocol3_conformance.wire.peer import Peer


@dataclass(slots=True, kw_only=True)
class Rehearsal(History):
    """A history that needs no target."""

    chance: random.Random
    count: int = 0

    async def attempt(self, call: Call) -> list[replay.Wrong]:
        came = self.ideal(replay.fill(call["expect"], self.run, self.answers))
        self.answers[call["number"]] = came
        return replay.judge(call, call["status"], came, self.run, self.answers)

    def ideal(self, pattern: Any) -> Any:
        """A value that matches, with new names where it may be any."""
        pattern, _ = replay.unwrapped(pattern, [])
        if isinstance(pattern, list):
            return [self.ideal(item) for item in pattern]
        if not isinstance(pattern, dict):
            return pattern
        if "$any" in pattern:
            return self.ideal(self.chance.choice(pattern["$any"]))
        if "$some" in pattern or "$new" in pattern:
            self.count += 1
            return f"value {self.count}"
        members = pattern.get("$exactly", pattern)
        kept = {name: value for name, value in members.items() if replay.unwrapped(value, [])[0] != ABSENT}
        return {name: self.ideal(value) for name, value in kept.items()}


def lab_of(check_id: str, seed: int) -> Lab:
    """The lab of a check whose target offers everything and is never asked."""
    offering = target("http://127.0.0.1:1", seed=seed, profiles=frozenset(CLAIMABLE))
    peer = Peer(endpoint=offering.endpoint, ids=offering.ids, seconds=1)
    return Lab(target=offering, check_id=check_id, peer=peer, random=random.Random(f"{seed}:{check_id}"))


def drawn(check_id: str, seed: int) -> list[Operations]:
    """The examples of a run with this seed."""
    found: list[Operations] = []
    draw(lab_of(check_id, seed), KINDS[check_id], found.append)
    return found


def rehearsed(check_id: str, seed: int) -> Iterator[tuple[Machine, Rehearsal]]:
    """Each example of a run, played to its end."""
    lab = lab_of(check_id, seed)
    for number, operations in enumerate(drawn(check_id, seed)):
        history = Rehearsal(lab=lab, run=f"{number}", patience=0, chance=random.Random(number))
        machine = KINDS[check_id].make(history)
        asyncio.run(_play(machine, operations))
        yield machine, history


async def _play(machine: Machine, operations: Operations) -> None:
    for operation in operations:
        await machine.do(operation)
    await machine.end()
