"""The report for a pull request or a job summary: verdicts, totals, what failed or stayed open, every requirement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol3_conformance.report.totals import NOT_RUN

OPEN = ("failed", "known-failure", "harness-error", "not-determined")
ORDER = (*OPEN, NOT_RUN, "passed", "not-claimed")


def text(document: dict[str, Any]) -> str:
    """The whole report."""
    target = document["target"]
    version = f" {cell(target['version'])}" if target["version"] else ""
    lines = [
        f"## Conformance of {cell(target['name'] or target['host'])}: {document['verdict']}",
        "",
        *([f"The target {document['claim']}.", ""] if document["claim"] else []),
        *_profiles(document["profiles"]),
        *_coverage(document["coverage"]),
        *_totals(document["totals"]),
        *_findings(document["checks"]),
        *_measurements(document["measurements"]),
        *_requirements(document),
        f"Suite {document['suite']}, revision {document['revision']['name']}, {document['began']}, "
        f"`{target['host']}`{version}, seed {document['seed']}.",
        "",
        "```",
        document["reproduce"],
        "```",
        "",
    ]
    return "\n".join(lines)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Rows of cells that are Markdown already; nothing without rows."""
    drawn = [f"| {' | '.join(row)} |" for row in [head, *rows]]
    return [drawn[0], "|" + "---|" * len(head), *drawn[1:], ""] if rows else []


def _counts(table: Mapping[str, Mapping[str, int]], states: list[str]) -> list[list[str]]:
    return [
        [name, *(str(counts.get(state, 0)) for state in states), str(sum(counts.values()))]
        for name, counts in table.items()
    ]


def _present(tables: list[Mapping[str, int]]) -> list[str]:
    return [state for state in ORDER if any(state in counts for counts in tables)]


def _profiles(profiles: dict[str, Any]) -> list[str]:
    states = _present([one["counts"] for one in profiles.values()])
    rows = [
        [name, one["verdict"], *(str(one["counts"].get(state, 0)) for state in states), str(len(one["left_out"]))]
        for name, one in profiles.items()
    ]
    return _table(["Profile", "Verdict", *(f"checks {state}" for state in states), "left out"], rows)


def _coverage(coverage: dict[str, Any]) -> list[str]:
    lines = [f"{coverage['made']} of the {coverage['expected']} checks that this target owes were made."]
    for kind, meaning in (("left_out", "left out"), ("silent", "passed without any exchange")):
        if checks := coverage[kind]:
            shown = " ".join(f"`{check}`" for check in checks[:20])
            more = f" and {len(checks) - 20} more" if len(checks) > 20 else ""
            lines += ["", f"{len(checks)} {meaning}: {shown}{more}."]
    return [*lines, ""]


def _totals(totals: dict[str, Any]) -> list[str]:
    states = _present([counts for table in totals.values() for counts in table.values()])
    head = [*states, "all"]
    roles, profiles = (_counts(totals[kind], states) for kind in ("roles", "profiles"))
    return [*_table(["Requirements by role", *head], roles), *_table(["Requirements by profile", *head], profiles)]


def _findings(checks: list[dict[str, Any]]) -> list[str]:
    lines = []
    for state in OPEN:
        found = [one for one in checks if one["state"] == state]
        rows = [[f"`{one['id']}`", " ".join(one["broken"] or one["requirements"]), _why(one)] for one in found]
        if rows:
            lines += [f"### {state}", "", *_table(["Check", "Requirements", "What came"], rows)]
    return lines


def _measurements(measured: list[dict[str, Any]]) -> list[str]:
    rows = [
        [cell(one["name"]), f"{one['value']:g} {cell(one['unit'])}", f"`{one['check']}`" if one["check"] else ""]
        for one in measured
    ]
    return _table(["Measured, not judged", "Value", "Check"], rows)


def _requirements(document: dict[str, Any]) -> list[str]:
    """Requirement, state, checks; folded away, since it is long."""
    states = {one["id"]: one["state"] for one in document["checks"]}
    rows = []
    for name, rule in document["requirements"].items():
        checks = [(check, states[check]) for check in rule["checks"]]
        checks += [(check, NOT_RUN) for check in rule["left_out"]]
        shown = ", ".join(f"`{check}`" + ("" if state == "passed" else f" {state}") for check, state in checks)
        rows.append([name, rule["role"], rule["state"], shown])
    unchecked = document["requirements_without_check"]
    return [
        f"<details><summary>Every requirement ({len(rows)}) with its checks</summary>",
        "",
        *_table(["Requirement", "Role", "State", "Checks"], rows),
        f"{len(unchecked)} further ones have no check in this suite: {' '.join(unchecked)}." if unchecked else "",
        "",
        "</details>",
        "",
    ]


def _why(check: dict[str, Any]) -> str:
    return cell(check["detail"].partition("\n")[0][:200])


def cell(value: str) -> str:
    """Text that stays in its table cell and is no markup."""
    escaped = "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in value)
    return escaped.replace("\n", " ")
