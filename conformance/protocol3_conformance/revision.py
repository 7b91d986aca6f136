"""Which checks count for which revision of the specification: `protocol3_spec/revisions/NAME.json`.

The set of a revision is frozen with it. A check that came later runs and is reported, and does not score.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from protocol3_conformance.judgement import profiles_of
from protocol3_conformance.scenario import Scenario

CURRENT, ALL = "1.0", "all"


class UnknownRevision(ValueError):
    """There is no such revision; the message names those there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """`checks` by profile; None scores everything the suite has (`--revision all`), which is no basis of a claim."""

    name: str
    frozen: bool
    checks: Mapping[str, frozenset[str]] | None

    def scores(self, check_id: str) -> bool:
        return self.checks is None or any(check_id in ids for ids in self.checks.values())


def names() -> list[str]:
    """The revisions there are."""
    entries = files("protocol3_spec").joinpath("revisions").iterdir()
    return sorted(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json"))


def read(name: str) -> dict[str, Any]:
    """The content of one revision's file. Raises UnknownRevision."""
    if name not in names():
        raise UnknownRevision(f"there is no revision {name}; there are {', '.join(names())} and {ALL}")
    text = files("protocol3_spec").joinpath("revisions", f"{name}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def revision(name: str) -> Revision:
    """One revision by name. Raises UnknownRevision."""
    if name == ALL:
        return Revision(name=ALL, frozen=False, checks=None)
    content = read(name)
    checks = {profile: frozenset(ids) for profile, ids in content["checks"].items()}
    return Revision(name=name, frozen=content["status"] == "frozen", checks=checks)


def sets_of(scenarios: Iterable[Scenario]) -> dict[str, list[str]]:
    """The check IDs by profile, as a revision's file holds them."""
    found: dict[str, list[str]] = {}
    for one in scenarios:
        for profile in profiles_of(one.profiles):
            found.setdefault(profile, []).append(one.check_id)
    return {profile: sorted(ids) for profile, ids in sorted(found.items())}


def digest(checks: Mapping[str, Iterable[str]]) -> str:
    """The seal of a set: an edit of the file by hand does not go unnoticed."""
    canonical = json.dumps({profile: sorted(ids) for profile, ids in checks.items()}, sort_keys=True)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def faults(name: str, scenarios: Mapping[str, Scenario]) -> list[str]:
    """What is wrong with a revision's file: broken seal, checks that are gone or changed their profile."""
    content = read(name)
    present = sets_of(scenarios.values())
    found = [] if content["digest"] == digest(content["checks"]) else ["the set was changed without its seal"]
    for profile, ids in content["checks"].items():
        gone = sorted(set(ids) - set(present.get(profile, [])))
        found += [f"{check_id} is no check of profile {profile} any more" for check_id in gone]
    return found
