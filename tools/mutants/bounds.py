"""The bounds of the protocol that no mutant moves: each has its reason, which the kill matrix shows."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mutants.entries import HOME, NO_MUTANT, ROOT, Edit, Mutant

LIMITS = ROOT / "spec" / "protocol3_spec" / "limits.json"
WORD = re.compile(r"\w+")


def profiles() -> dict[str, str]:
    """Each bound's profile by its name, "" for one that belongs to every implementation."""
    groups = json.loads(LIMITS.read_text(encoding="utf-8"))["groups"]
    return {name: bound.get("profile", "") for group in groups.values() for name, bound in group.items()}


def moved(mutants: Iterable[Mutant]) -> set[str]:
    """What stands in the lines that a fault changes. A name that is left as it was says only where an edit goes."""
    return {name for mutant in mutants if not mutant.twin for edit in mutant.edits for name in _changed(edit)}


def _changed(edit: Edit) -> set[str]:
    differing = set(edit.old.splitlines()) ^ set(edit.new.splitlines())
    return {name for line in differing for name in WORD.findall(line)}


def reasons(home: Path = HOME) -> Mapping[str, str]:
    """Why no mutant moves a bound. A key names bounds, or a profile for all of its bounds, with blanks between.

    Raises ValueError for a name that is neither.
    """
    known = profiles()
    found: dict[str, str] = {}
    for key, reason in tomllib.loads((home / NO_MUTANT).read_text(encoding="utf-8"))["limits"].items():
        for name in key.split():
            named = [name] if name in known else [bound for bound, profile in known.items() if profile == name]
            if not named:
                raise ValueError(f"{NO_MUTANT}: {name!r} is no bound and no profile with bounds")
            found.update(dict.fromkeys(named, reason))
    return found


def faults(mutants: Iterable[Mutant], home: Path = HOME) -> Iterator[str]:
    """Bounds without mutant and reason, and reasons that a mutant has made needless, a line each."""
    touched, excused = moved(mutants), reasons(home)
    for name in profiles():
        if name not in touched and name not in excused:
            yield f"{name}: no mutant moves this bound, and {NO_MUTANT} has no reason"
        elif name in touched and name in excused:
            yield f"{NO_MUTANT}: a mutant moves {name}, which needs no reason"


def section(mutants: Iterable[Mutant]) -> list[str]:
    """Their part of the page."""
    known, touched, excused = profiles(), moved(mutants), reasons()
    by_reason: dict[str, list[str]] = {}
    for name in known:
        if name in excused and name not in touched:
            by_reason.setdefault(excused[name], []).append(name)
    return [
        "",
        "## Bounds",
        "",
        f"Of the {len(known)} bounds of `limits.json`, {len(known.keys() & touched)} are moved by a mutant; the others "
        "have a reason:",
        "",
        "| bounds | why no mutant moves them |",
        "| --- | --- |",
        *(f"| {', '.join(names)} | {reason} |" for reason, names in by_reason.items()),
    ]
