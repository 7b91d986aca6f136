"""The places at which an exchange or a background step can be cut off, and by which way each is reached on a target.

A crash point is an exchange or step (declared beside its scenario) at one of these places: `settlement:before-reply`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol3_conformance.target import Target

BEFORE_RECEIPT, AT_WORK, BEFORE_REPLY, AFTER_REPLY, TWICE, MID_STEP = (
    "before-receipt",
    "at-work",
    "before-reply",
    "after-reply",
    "twice",
    "mid-step",
)
PLACES = {
    BEFORE_RECEIPT: "half of the request has gone out",
    AT_WORK: "the command has arrived, and nothing of it is durable yet",
    BEFORE_REPLY: "the command is durable, and nobody has its reply",
    AFTER_REPLY: "the reply has just come",
    TWICE: "the same bytes come on two connections at once",
    MID_STEP: "the reply has come, and the step that it owes is under way",
}
OF_EXCHANGES = (BEFORE_RECEIPT, AT_WORK, BEFORE_REPLY, AFTER_REPLY, TWICE)
NEED_RESTART = frozenset({AT_WORK, AFTER_REPLY, MID_STEP})
"""Nothing but the death of the target brings these about."""
NEED_ALONE = NEED_RESTART | {BEFORE_RECEIPT, BEFORE_REPLY}
"""Where the target dies if it can be started again."""

KILL, PROFILE, CONNECTION = "kill", "faults", "connection"
"""Ways, as reports name them: the target dies; a fault rule of the target; only the suite's connection ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One crash point. `match` is the route or step that a fault rule would name, `sentence` what must hold."""

    of: str
    place: str
    match: str
    sentence: str
    cites: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.of}:{self.place}"

    def ways(self, target: Target) -> tuple[str, ...]:
        """By which ways it is reached on this target; none where it cannot be."""
        if self.place == TWICE:
            return (CONNECTION,)
        held = target.obeys and self.place in (AT_WORK, MID_STEP, BEFORE_REPLY)
        if target.power:
            return (PROFILE, KILL) if held else (KILL,)
        if self.place in NEED_RESTART:
            return ()
        return (PROFILE,) if held else (CONNECTION,)


def listing(points: Iterable[Point], target: Target | None) -> str:
    """A line per point, and below it what must hold; with the ways on a target where one is given."""
    lines = []
    for point in points:
        reached = "" if target is None else f"  by {' and '.join(point.ways(target)) or 'nothing: no kill and start'}"
        lines.append(f"{point.name:38}{PLACES[point.place]}{reached}")
        lines.append(f"    {point.sentence} [{', '.join(point.cites)}]")
    return "\n".join([*lines, "", f"{len(lines) // 2} crash points"])
