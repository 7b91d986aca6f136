"""Run checks against a URL without pytest."""

from __future__ import annotations

from typing import Any

from protocol3_conformance import catalogue
from protocol3_conformance.conductor import Conductor
from protocol3_conformance.target import PROFILES, Patience, Target
from protocol3_conformance.verdict import Outcome, outcome_of
from protocol3_conformance.wire.peer import Endpoint


def target(url: str, **changes: Any) -> Target:
    described: dict[str, Any] = {
        "endpoint": Endpoint.parse(url),
        "profiles": frozenset(PROFILES),
        "scope": None,
        "program": ("mixed-workflow", "1.0.1"),
        "patience": Patience(),
        "seed": 1,
    }
    return Target(**{**described, **changes})


def judged(url: str, *check_ids: str, **changes: Any) -> dict[str, Outcome]:
    """The outcomes of these checks; `changes` are those of the target's description."""
    known = catalogue.everything()
    conductor = Conductor(target(url, **changes))
    conductor.start([known[check_id] for check_id in check_ids])
    try:
        return {check_id: outcome_of(conductor.result(check_id)) for check_id in check_ids}
    finally:
        conductor.stop()
