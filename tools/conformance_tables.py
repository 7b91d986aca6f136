"""Tables of what the checks of a coordinator look for, and what none of them does.

    python tools/conformance_tables.py [troubles] [codes] [races] [limits]

troubles  failures of real engines, and the checks that play them
codes     every error code with every status: the checks that assert it, and those that read everything before and after
races     every race of chapter 18: run free, and forced in both orders
limits    every limit: the fields that are tried one below, at and one above it, and in which flavours

`tools/conformance_tables.toml` has the reasons for what is not so. Without a word all tables are made. The last line
counts; it ends with 1 if something is missing, or has a reason that it does not need.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "conformance"), str(ROOT / "spec")]

from asserted_codes import Asserted, asserted  # noqa: E402 - the path above
from protocol3_conformance import catalogue  # noqa: E402 - the path above
from protocol3_conformance.requirements import Requirement, requirements  # noqa: E402 - the path above
from protocol3_conformance.troubles import faults, troubles  # noqa: E402 - the path above
from protocol3_conformance.vectors import limit_recipes  # noqa: E402 - the path above
from protocol3_spec import boundaries  # noqa: E402 - the path above
from protocol3_spec.loader import errors, limits  # noqa: E402 - the path above

SCENARIOS = ROOT / "conformance" / "protocol3_conformance" / "scenarios" / "coordinator"
REASONS = ROOT / "tools" / "conformance_tables.toml"
JUDGED = {"core", "workflows", "forks", "subworkflows", "discovery", "virtual-time", "faults"}
NAMED = re.compile(r"`([a-z0-9-]+/[a-z0-9-]+)`")
SHOWN = 4
"""Checks named in a line."""

Line = tuple[str, bool]
"""What is printed, and whether it is in order."""


def several(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def reasoned(table: str, rows: dict[str, str | None]) -> Iterator[Line]:
    """A line for each row: what checks it, or else its reason. None: nothing checks it."""
    reasons: dict[str, str] = tomllib.loads(REASONS.read_text(encoding="utf-8"))[table]
    known = catalogue.everything()
    for name, checked in rows.items():
        reason = reasons.pop(name, None)
        yield f"{name}: {checked or reason or 'no check and no reason'}", (checked is None) == (reason is not None)
        for gone in [check for check in NAMED.findall(reason or "") if check not in known]:
            yield f"{name}: its reason names {gone}, which does not exist", False
    yield from ((f"{name}: a reason for what is no row of this table", False) for name in reasons)


def of_troubles() -> Iterator[Line]:
    rows = troubles()
    for row in rows:
        where = ", ".join(row.checks) or f"excluded: {row.excluded}"
        later = "\n   to name: a check that restarts the target (crashes/…)" if row.awaits_restart else ""
        yield f"{row.number:2} {row.report}\n   {where}{later}", True
    yield from ((fault, False) for fault in faults(rows, catalogue.everything()))


def of_codes() -> Iterator[Line]:
    """A code is proven where it is asserted with everything read before and after."""
    found: defaultdict[str, list[Asserted]] = defaultdict(list)
    for path in sorted(SCENARIOS.glob("test_*.py")):
        for one in asserted(path):
            found[f"{one.code} {one.status}"].append(one)
    rows: dict[str, str | None] = {}
    for error in errors().values():
        if error.profile is None:
            for name in (f"{error.code} {status}" for status in error.statuses):
                everywhere = sorted({one.check for one in found[name]})
                proven = sorted({one.check for one in found[name] if one.read_back})
                told = f"{len(everywhere)} checks, everything read before and after in {several(proven)}"
                rows[name] = told if proven else None
    return reasoned("codes", rows)


def of_races() -> Iterator[Line]:
    known = catalogue.everything()
    rows: dict[str, str | None] = {}
    for rule in requirements().values():
        if rule.id.startswith("RACE-") and JUDGED.intersection(rule.profiles):
            forced = sorted(
                check.check_id
                for check in known.values()
                if rule.id in check.cites
                and all(f"{check.check_id}-{way}" in known for way in ("one-way", "other-way"))
            )
            rows[rule.id] = f"free and in both orders in {several(forced)}" if forced else None
    return reasoned("races", rows)


def binds_coordinators(rule: Requirement) -> bool:
    return (
        rule.role in ("coordinator", "everyone")
        and rule.observed in ("wire", "time")
        and bool(JUDGED.intersection(rule.profiles))
    )


def of_limits() -> Iterator[Line]:
    """Every limit that binds a coordinator; each field in `fixtures/vectors/limits.json` is a check by itself."""
    rules = requirements()
    rows: dict[str, str | None] = {}
    for limit in limits().values():
        if limit.profile not in (None, *JUDGED) or not any(
            binds_coordinators(rules[one]) for one in limit.requirements
        ):
            continue
        recipes = [recipe for recipe in limit_recipes() if recipe.get("limit") == limit.name]
        flavours = sorted({flavour for recipe in recipes for flavour in boundaries.flavours(recipe)})
        told = f"{len(recipes)} fields, one below, at and one above, in the flavours {', '.join(flavours)}"
        rows[limit.name] = told if recipes else None
    return reasoned("limits", rows)


TABLES: dict[str, Callable[[], Iterator[Line]]] = {
    "troubles": of_troubles,
    "codes": of_codes,
    "races": of_races,
    "limits": of_limits,
}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], metavar="TABLE", help=", ".join(TABLES))
    arguments = parser.parse_args(words)
    passed = failed = 0
    for name in arguments.tables or TABLES:
        print(f"{name}:")
        for line, good in TABLES[name]():
            print(line if good else f"MISSING {line}")
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
