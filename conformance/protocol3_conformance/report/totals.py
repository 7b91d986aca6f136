"""Expected against made: which checks a run owed and did not make, and the requirements by state, role and profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocol3_conformance.scenario import Scenario
from protocol3_conformance.verdict import Outcome, State

NOT_RUN = "not-run"
"""The state of a requirement that only checks cite which the run left out."""


def coverage(outcomes: Sequence[Outcome], due: Iterable[Scenario]) -> dict[str, Any]:
    """`due` are the checks that the target's description demands. `silent` ones passed and exchanged nothing."""
    judged = {outcome.check_id for outcome in outcomes}
    expected = sorted(one.check_id for one in due)
    silent = [one.check_id for one in outcomes if one.state is State.PASSED and not one.exchanges]
    return {
        "expected": len(expected),
        "made": sum(check_id in judged for check_id in expected),
        "left_out": [check_id for check_id in expected if check_id not in judged],
        "silent": silent,
    }


def with_left_out(
    judged: Mapping[str, dict[str, Any]], due: Iterable[Scenario], made: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """The judged requirements and those that only left-out checks cite; `left_out` has the latter checks of each."""
    there = set(made)
    rows = {name: {**entry, "left_out": []} for name, entry in judged.items()}
    for one in due:
        for name in one.cites if one.check_id not in there else ():
            rows.setdefault(name, {"state": NOT_RUN, "checks": [], "left_out": []})["left_out"].append(one.check_id)
    return dict(sorted(rows.items()))


def totals(rows: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, dict[str, int]]]:
    """Requirements by state, for each role that they bind and each profile in which they hold."""
    found: dict[str, dict[str, Counter[str]]] = {"roles": {}, "profiles": {}}
    for row in rows.values():
        found["roles"].setdefault(row["role"], Counter())[row["state"]] += 1
        for profile in row["profiles"]:
            found["profiles"].setdefault(profile, Counter())[row["state"]] += 1
    return {kind: {name: dict(counts) for name, counts in sorted(table.items())} for kind, table in found.items()}
