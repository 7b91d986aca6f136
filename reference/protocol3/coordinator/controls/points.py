"""Every point at which a process that changes something can be struck: (operation or step) x place.

Derived from the routes and from what a rule may say; there is no other list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, get_args

from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.controls.rules import Exchange, Match, Step, StepName, Where
from protocol3.coordinator.http.routes import ROUTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """`of` is the operation of a POST route, or the name of a step."""

    of: str
    match: Match
    where: Where

    @property
    def name(self) -> str:
        return f"{self.of}:{self.where}"

    def rule(self, scope: dict[str, JsonValue], act: dict[str, JsonValue], **counts: JsonValue) -> JsonValue:
        """The body that adds a rule for this point; `counts` are `skip` and `times`."""
        return {"scope": scope, "match": self.match.to_json(), "where": self.where, "act": act, **counts}


def _matches() -> Iterator[tuple[str, Match]]:
    for route in ROUTES:
        if route.method == "POST":
            yield route.operation, Exchange(method=route.method, path=route.path)
    for name in get_args(StepName):
        yield name, Step(name=name)


POINTS: Final = tuple(Point(of=of, match=match, where=where) for of, match in _matches() for where in match.places)
