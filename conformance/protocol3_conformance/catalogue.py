"""Which checks exist and what they are about: `--list`, `--explain`, `--check`."""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import pkgutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence

from protocol3_conformance import scenarios as checks
from protocol3_conformance.requirements import requirements
from protocol3_conformance.scenario import ATTRIBUTE, Scenario

WIDTH = 110


class UnknownName(ValueError):
    """Nothing has this name; the message offers near ones."""


def everything() -> dict[str, Scenario]:
    """Every check of the suite by its ID, whatever this run selected."""
    found = {}
    for module in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(declared := getattr(value, ATTRIBUTE, None), Scenario):
                found[declared.check_id] = declared
    return found


def duplicates(scenarios: Iterable[Scenario]) -> list[str]:
    """Check IDs that are declared more than once."""
    return [check_id for check_id, count in Counter(one.check_id for one in scenarios).items() if count > 1]


def selected(scenarios: Sequence[Scenario], patterns: Sequence[str], cited: Sequence[str] = ()) -> set[str]:
    """The check IDs that match any pattern or cite any of the requirements; all of them where neither is asked for.

    Raises UnknownName for a pattern that matches nothing and for a requirement that does not exist or has no check.
    """
    known = [one.check_id for one in scenarios]
    if not patterns and not cited:
        return set(known)
    chosen: set[str] = set()
    for pattern in patterns:
        matching = fnmatch.filter(known, pattern)
        if not matching:
            raise UnknownName(f"--check {pattern} matches no check{_near(pattern, known)}")
        chosen.update(matching)
    for identifier in cited:
        if identifier not in requirements():
            raise UnknownName(f"no requirement is called {identifier}{_near(identifier, requirements())}")
        citing = {one.check_id for one in scenarios if identifier in one.cites}
        if not citing:
            raise UnknownName(f"no check cites {identifier}; --explain {identifier} shows what it is about")
        chosen |= citing
    return chosen


def listing(scenarios: Sequence[Scenario]) -> str:
    """One line per check: ID, profiles, citations, title."""
    lines = [f"{one.check_id:45} {' '.join(one.profiles):22} {one.title}" for one in scenarios]
    cited = {identifier for one in scenarios for identifier in one.cites}
    return "\n".join([*lines, "", f"{len(scenarios)} checks cite {len(cited)} requirements"])


def explanation(identifier: str, scenarios: Sequence[Scenario]) -> str:
    """A requirement's sentence and the checks that cite it. Raises UnknownName."""
    known = requirements()
    if identifier not in known:
        raise UnknownName(f"no requirement is called {identifier}{_near(identifier, known)}")
    rule = known[identifier]
    owners = [f"{owner}  {known[owner].text}" for owner in rule.owned_by if owner in known]
    citing = [f"{one.check_id:45} {one.title}" for one in scenarios if identifier in one.cites]
    paragraphs = [
        f"{rule.id} ({rule.level}, {rule.role}, {rule.place})",
        _wrapped(rule.text),
        *(f"decided by\n{_wrapped(owner)}" for owner in owners),
        "checked by\n" + "\n".join(f"  {check}" for check in citing or ["no check of this suite cites it"]),
    ]
    return "\n\n".join(paragraphs)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _near(name: str, known: Iterable[str]) -> str:
    names = list(known)
    same = [one for one in names if one.casefold() == name.casefold()]
    longer = same or [one for one in names if one.startswith(name)]
    close = longer[:3] or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"; did you mean {', '.join(close)}?" if close else ""
