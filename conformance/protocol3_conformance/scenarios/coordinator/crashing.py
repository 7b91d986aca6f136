"""How a command becomes checks: cut off at every crash point of its exchange, or of a step that it owes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from protocol3_conformance.crashes.points import (
    MID_STEP,
    NEED_RESTART,
    OF_EXCHANGES,
    TWICE,
    Point,
)
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.disturbance import Command, disturb
from protocol3_conformance.scenario import Body, scenario

Story = Callable[[Lab], Awaitable[Command]]
RULES = {TWICE: [], MID_STEP: ["DLV-120", "DLV-121", "RCV-002"]}
"""What is at stake at a place beside the rules of the exchange; elsewhere see `_rules`."""


def crashes_of(module: dict[str, Any]) -> Callable[..., Callable[[Story], Story]]:
    """The decorator `crash` of a module of checks; it puts them into that module's names, where pytest finds them.

    `crash(name, path=..., cites=...)` declares a check for every place of an exchange; `within` is the step that does
    the work of a route without records of its own. With `step` it declares one, in the middle of that step.
    """

    def crash(
        name: str,
        *,
        path: str,
        cites: list[str],
        profile: str = "core",
        step: str | None = None,
        within: str | None = None,
    ) -> Callable[[Story], Story]:
        def declare(story: Story) -> Story:
            sentence = (story.__doc__ or name).partition("\n")[0]
            for place in (MID_STEP,) if step else OF_EXCHANGES:
                rules = tuple(dict.fromkeys([*cites, *_rules(place)]))
                point = Point(of=name, place=place, match=step or within or path, sentence=sentence, cites=rules)
                condition = f"{profile} restart" if place in NEED_RESTART else profile
                check_id = f"crashes/{name}-{place}"
                declared = scenario(check_id, cites=list(rules), profile=condition, point=point)(_body(story, point))
                module["test_" + f"{name}-{place}".replace("-", "_")] = declared
            return story

        return declare

    return crash


def _rules(place: str) -> list[str]:
    return RULES.get(place, ["DLV-120", "DLV-121"] if place in NEED_RESTART else ["HTTP-068"])


def _body(story: Story, point: Point) -> Body:
    async def body(lab: Lab) -> None:
        await disturb(lab, await story(lab), point)

    body.__doc__ = f"{point.sentence.removesuffix('.')} ({point.place})."
    return body
