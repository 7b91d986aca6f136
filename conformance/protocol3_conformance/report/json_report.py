"""The machine-readable report: `--report-json FILE`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from protocol3_conformance.target import Target
from protocol3_conformance.verdict import Outcome, State

FORMAT = 1


def verdict(outcomes: Iterable[Outcome], *, complete: bool) -> str:
    """Three states: a run that left something open, or out, is never called conformant."""
    states = {outcome.state for outcome in outcomes}
    if State.FAILED in states:
        return "not conformant"
    judged = not states & {State.NOT_DETERMINED, State.HARNESS_ERROR}
    return "conformant" if judged and complete else "not determined"


def by_requirement(outcomes: Iterable[Outcome]) -> dict[str, dict[str, Any]]:
    """Each cited requirement with its checks and the worst of their states."""
    order = [State.FAILED, State.HARNESS_ERROR, State.NOT_DETERMINED, State.PASSED, State.NOT_APPLICABLE]
    found: dict[str, dict[str, Any]] = {}
    for outcome in outcomes:
        for identifier in outcome.cites:
            entry = found.setdefault(identifier, {"state": str(outcome.state), "checks": []})
            entry["checks"].append(outcome.check_id)
            entry["state"] = str(min(State(entry["state"]), outcome.state, key=order.index))
    return dict(sorted(found.items()))


def document(target: Target, outcomes: Sequence[Outcome], *, complete: bool) -> dict[str, Any]:
    """The whole report as JSON data. `complete`: no check of the suite was left out, but those that wait for leases."""
    return {
        "format": FORMAT,
        "target": target.endpoint.url,
        "profiles": sorted(target.profiles),
        "scope": None if target.scope is None else "/".join(target.scope),
        "program": "@".join(target.program),
        "seed": target.seed,
        "verdict": verdict(outcomes, complete=complete),
        "complete": complete,
        "counts": dict(Counter(str(outcome.state) for outcome in outcomes)),
        "checks": [outcome.to_json() for outcome in outcomes],
        "requirements": by_requirement(outcomes),
    }


def write(path: Path, target: Target, outcomes: Sequence[Outcome], *, complete: bool) -> None:
    """Raises OSError when the file cannot be written."""
    path.write_text(
        json.dumps(document(target, outcomes, complete=complete), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
