"""The kill matrix: what the last run of every mutant showed, kept per file of mutants, and as a page."""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mutants import bounds, record
from mutants.entries import HOME, KINDS, NO_MUTANT, ROLES, ROOT, Mutant
from mutants.judging import Ruling, Verdict
from protocol3_conformance.requirements import Requirement, requirements

sys.path.append(str(ROOT / "tools"))

from citations import Catalogue

RESULTS = HOME / "results"
PAGE = ROOT / "docs" / "kill-matrix.md"
PROFILES = frozenset({"core", "workflows", "forks", "subworkflows"})
BOUND = frozenset({*ROLES, "everyone"})
SHOWN = 3  # checks named in one cell

Kept = dict[str, dict[str, Any]]
"""By mutant ID: `digest` of its description, `verdict`, `by` the checks with the broken requirements they cite."""


def load(results: Path = RESULTS) -> Kept:
    kept: Kept = {}
    for path in sorted(results.glob("*.json")):
        kept.update(json.loads(path.read_text(encoding="utf-8")))
    return kept


def merged(kept: Kept, rulings: Iterable[Ruling]) -> Kept:
    """With the new rulings in place of older ones."""
    return {**kept, **{one.mutant.id: entry(one) for one in rulings}}


def entry(ruling: Ruling) -> dict[str, Any]:
    found: dict[str, Any] = {"digest": ruling.mutant.digest, "verdict": str(ruling.verdict)}
    if ruling.killers:
        found["by"] = {check: list(rules) for check, rules in ruling.killers}
    if ruling.others:
        found["others"] = list(ruling.others)
    return found


def write(mutants: Sequence[Mutant], kept: Kept, results: Path = RESULTS, page: Path = PAGE) -> None:
    """One file of results beside every file of mutants, and the page. What has no mutant any more goes."""
    results.mkdir(exist_ok=True)
    sources = {mutant.source for mutant in mutants}
    for path in results.glob("*.json"):
        if path.stem not in sources:
            path.unlink()
    for source in sources:
        rows = {one.id: kept[one.id] for one in mutants if one.source == source and one.id in kept}
        (results / f"{source}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    page.write_text(rendered(mutants, load(results)), encoding="utf-8")


def stale(mutants: Sequence[Mutant], kept: Kept, page: Path = PAGE) -> Iterator[str]:
    """How the committed matrix differs from the mutants that exist, and from what must hold, a line each."""
    known = {mutant.id: mutant for mutant in mutants}
    for name in kept.keys() - known.keys():
        yield f"{name}: in the matrix, but there is no such mutant; run `./dev mutants --page`"
    for name, mutant in known.items():
        if name not in kept:
            yield f"{name}: not in the matrix; run `./dev mutants --write --missing`"
        elif kept[name]["digest"] != mutant.digest:
            yield f"{name}: changed since it was run; run `./dev mutants --write --missing`"
        elif not Verdict(kept[name]["verdict"]).good:
            yield f"{name}: {kept[name]['verdict']}"
    if not page.exists() or page.read_text(encoding="utf-8") != rendered(mutants, kept):
        yield f"{page.name} is not what the results say; run `./dev mutants --page`"


def missing(mutants: Iterable[Mutant], kept: Kept) -> list[Mutant]:
    """Those without a good verdict of what they are now."""
    return [
        one
        for one in mutants
        if one.id not in kept or kept[one.id]["digest"] != one.digest or not Verdict(kept[one.id]["verdict"]).good
    ]


def due() -> dict[str, Requirement]:
    """The rules that a mutant should break: what binds an implementation, can be seen, and no other rule decides."""
    return {
        rule.id: rule
        for rule in requirements().values()
        if rule.level == "MUST"
        and rule.role in BOUND
        and rule.observed != "inside"
        and PROFILES.intersection(rule.profiles)
        and not rule.owned_by
    }


def reasons(home: Path = HOME) -> Mapping[str, str]:
    """Why a rule has no mutant, IDs of ranges written out. Raises ValueError for a key that names no rule."""
    known = Catalogue(list(requirements()))
    found: dict[str, str] = {}
    for key, reason in tomllib.loads((home / NO_MUTANT).read_text(encoding="utf-8"))["reasons"].items():
        names = [named.identifier for named in known.named(key)]
        if not names or not known.known.issuperset(names):
            raise ValueError(f"{NO_MUTANT}: {key!r} names no rule")
        found.update(dict.fromkeys(names, reason))
    return found


def proven(mutants: Iterable[Mutant], kept: Kept) -> set[str]:
    """The rules that a killed mutant breaks and a check that killed it cites."""
    return {
        rule
        for mutant in mutants
        if kept.get(mutant.id, {}).get("verdict") == Verdict.KILLED
        for rules in kept[mutant.id]["by"].values()
        for rule in rules
    }


def needless(mutants: Iterable[Mutant], kept: Kept) -> Iterator[str]:
    """Reasons that excuse what needs no excuse, a line each."""
    shown, wanted = proven(mutants, kept), due()
    for name in reasons():
        if name in shown or name not in wanted:
            yield f"{NO_MUTANT}: {name} is proven, or needs no mutant"


def rendered(mutants: Sequence[Mutant], kept: Kept) -> str:
    real = [one for one in mutants if not one.twin]
    twins = [one for one in mutants if one.twin]
    lines = [
        "# Kill matrix",
        "",
        "Generated by `./dev mutants --write`; do not edit. A mutant is our reference with one fault, a few edited "
        "lines of a copy. It is killed when a check fails that cites a requirement which the fault breaks. A twin is "
        "an edit near the fault that breaks nothing: every check must pass.",
        "",
        *_totals(real, kept),
        "",
        f"Twins: {len(twins)}, of which {_count(twins, kept, Verdict.HARMLESS)} harmless.",
    ]
    for role in ROLES:
        lines += [
            "",
            f"## {role.capitalize()}",
            "",
            "| mutant | what is broken | breaks | verdict |",
            "|" + " --- |" * 4,
        ]
        lines += [_row(one, kept) for one in real if one.role == role]
    lines += ["", "## Twins", "", "| twin | what differs | verdict |", "|" + " --- |" * 3]
    lines += [f"| `{one.id}` | {one.sentence} | {_verdict(one, kept)} |" for one in twins]
    return "\n".join([*lines, *_unproven(real, kept), *bounds.section(real), *record.section(record.read())]) + "\n"


def _count(mutants: Iterable[Mutant], kept: Kept, verdict: Verdict) -> int:
    return sum(_verdict(one, kept) == verdict for one in mutants)


def _verdict(mutant: Mutant, kept: Kept) -> str:
    found = kept.get(mutant.id)
    return str(found["verdict"]) if found else "not run"


def _totals(mutants: Sequence[Mutant], kept: Kept) -> list[str]:
    lines = ["| kind | " + " | ".join(ROLES) + " | all | killed |", "|" + " --- |" * (len(ROLES) + 3)]
    for kind in (*KINDS, None):
        of_kind = [one for one in mutants if kind in (one.kind, None)]
        counts = Counter(one.role for one in of_kind)
        cells = [kind or "**all**", *(str(counts[role]) for role in ROLES), str(len(of_kind))]
        lines.append("| " + " | ".join([*cells, str(_count(of_kind, kept, Verdict.KILLED))]) + " |")
    return lines


def _row(mutant: Mutant, kept: Kept) -> str:
    seen = f" Seen: {mutant.seen}." if mutant.seen else ""
    by = kept.get(mutant.id, {}).get("by", {})
    killers = [f"`{check}` ({', '.join(rules)})" for check, rules in list(by.items())[:SHOWN]]
    more = [f"+{len(by) - SHOWN}"] if len(by) > SHOWN else []
    verdict = _verdict(mutant, kept)
    told = f"{verdict} by {', '.join([*killers, *more])}" if killers else f"**{verdict}**"
    return f"| `{mutant.id}` | {mutant.sentence}{seen} | {', '.join(mutant.breaks)} | {told} |"


def _unproven(mutants: Sequence[Mutant], kept: Kept) -> list[str]:
    shown, excused, wanted = proven(mutants, kept), reasons(), due()
    left = [name for name in wanted if name not in shown and name not in excused]
    by_prefix: dict[str, list[str]] = {}
    for name in left:
        by_prefix.setdefault(name.partition("-")[0], []).append(name)
    given = [f"| {name} | {excused[name]} |" for name in wanted if name in excused and name not in shown]
    return [
        "",
        "## Unproven",
        "",
        f"Of {len(wanted)} rules that bind a coordinator, worker or runtime in core, forks and subworkflows and can be "
        f"seen, {len(shown & wanted.keys())} are proven by a killed mutant, {len(given)} have a reason for none, "
        f"{len(left)} are left" + (":" if left else "."),
        *(["", *(f"- {', '.join(names)}" for names in by_prefix.values())] if left else []),
        *(["", "| rule | why it has no mutant |", "| --- | --- |", *given] if given else []),
    ]
