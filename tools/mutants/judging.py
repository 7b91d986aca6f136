"""Lets the suite judge one mutant and draws the verdict.

The suite's own conductor runs the checks, in this process: a pytest for every mutant would cost more than most of them.
"""

from __future__ import annotations

import enum
import logging
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mutants.copies import copy
from mutants.entries import Mutant
from mutants.subjects import Shared, Stillborn, target
from protocol3_conformance import catalogue
from protocol3_conformance.conductor import Conductor
from protocol3_conformance.scenario import Scenario
from protocol3_conformance.smoke import SMOKE
from protocol3_conformance.target import Target
from protocol3_conformance.verdict import Outcome, State, outcome_of

POLL_SECONDS = 0.1
FIRST_LOOK = 30
"""Checks of a role without a first look of its own, spread over its subjects, that look for wrong reasons."""


class Verdict(enum.StrEnum):
    """Only `killed` and, for a twin, `harmless` are as they must be."""

    KILLED = "killed"
    SURVIVED = "survived"
    WRONG_REASON = "wrong reason"
    STILLBORN = "stillborn"
    HARMLESS = "harmless"
    FALSELY_FAILED = "falsely failed"

    @property
    def good(self) -> bool:
        return self in (Verdict.KILLED, Verdict.HARMLESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What became of one mutant.

    `killers` are failed checks with the broken requirements that they cite, `others` failed ones that cite none.
    `checks` counts those that ended, `unended` those that the clock or a kill stopped; `detail` is for people: why it
    was not as it must be.
    """

    mutant: Mutant
    verdict: Verdict
    killers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    others: tuple[str, ...] = ()
    checks: int = 0
    unended: int = 0
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is spent on one mutant: `seconds` of checks at most; `every` check of the role; `on` after a kill."""

    seconds: float = 60.0
    every: bool = False
    on: bool = False


def rule(mutant: Mutant, common: Shared | None, effort: Effort) -> Ruling:
    """Start it, let the checks judge it, end it."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        place = Path(folder).resolve()
        copy(mutant, place)
        try:
            with target(mutant, place, common) as subject:
                outcomes, unended = _judged(mutant, subject, effort)
        except Stillborn as reason:
            return Ruling(
                mutant=mutant,
                verdict=Verdict.STILLBORN,
                seconds=time.monotonic() - began,
                detail=f"it does not start: {reason}",
            )
    return ruling(mutant, outcomes, unended=unended, seconds=time.monotonic() - began)


def _judged(mutant: Mutant, subject: Target, effort: Effort) -> tuple[list[Outcome], list[str]]:
    """The outcomes of the checks that are about it; then, while it lives, of a look at the rest. And what hung."""
    outcomes: list[Outcome] = []
    unended: list[str] = []
    end = time.monotonic() + effort.seconds
    for checks in rounds(mutant, subject, every=effort.every):
        if checks and not (unended or any(map(failed, outcomes))):
            found = _conducted(mutant, subject, checks, end=end, stop_early=not (effort.on or mutant.twin))
            ended = {one.check_id for one in found}
            outcomes += found
            unended += [one.check_id for one in checks if one.check_id not in ended]
    return outcomes, unended


def rounds(mutant: Mutant, subject: Target, *, every: bool = False) -> Iterable[list[Scenario]]:
    """First the checks that cite a broken requirement, then the first look, or `every` other check of the role.

    For a mutant that names none, all but the long ones that wait for each other and kill it.
    """
    fit = [one for one in _checks(mutant.role) if all(map(subject.claims, one.profiles))]
    fit = [one for one in fit if mutant.breaks or not one.deadly]
    about = [one for one in fit if not mutant.breaks or set(one.cites) & set(mutant.breaks)]
    rest = [one for one in fit if one not in about]
    yield about
    yield rest if every else [one for one in rest if one.check_id in _first_look(mutant.role)]


@cache
def _checks(role: str) -> tuple[Scenario, ...]:
    return tuple(one for one in catalogue.everything().values() if one.role == role)


@cache
def _first_look(role: str) -> frozenset[str]:
    names = sorted(one.check_id for one in _checks(role))
    return frozenset(SMOKE).intersection(names) or frozenset(names[:: max(len(names) // FIRST_LOOK, 1)])


def _conducted(
    mutant: Mutant, subject: Target, checks: Sequence[Scenario], *, end: float, stop_early: bool
) -> list[Outcome]:
    """The outcomes of what had ended when all had, or one killed, or the time was over. The others are cancelled."""
    conductor = Conductor(subject)
    conductor.start(checks)
    seen: dict[str, Outcome] = {}
    try:
        while True:
            over = conductor.wait(POLL_SECONDS) or time.monotonic() > end
            for run in conductor.ended():
                if run.scenario.check_id not in seen:
                    seen[run.scenario.check_id] = outcome_of(run)
            if over or (stop_early and any(kills(mutant, outcome) for outcome in seen.values())):
                return list(seen.values())
    finally:
        conductor.stop()


def failed(outcome: Outcome) -> bool:
    return outcome.state is State.FAILED


def kills(mutant: Mutant, outcome: Outcome) -> bool:
    """Failed, and for the right reason: it cites a broken requirement, or the wire layer named one in it.

    Of a mutant that names none, nobody knows the right reason.
    """
    return failed(outcome) and (not mutant.breaks or bool(set(outcome.cites) & set(mutant.breaks)))


def ruling(mutant: Mutant, outcomes: Sequence[Outcome], *, unended: Sequence[str] = (), seconds: float = 0.0) -> Ruling:
    """The verdict that these outcomes mean. A check that did not end speaks neither for the mutant nor against it."""
    ordered = sorted(outcomes, key=lambda one: one.check_id)
    killers = [one for one in ordered if kills(mutant, one)]
    others = [one for one in ordered if failed(one) and one not in killers]
    errors = [one.check_id for one in ordered if one.state is State.HARNESS_ERROR]
    if mutant.twin:
        harmless = outcomes and not (killers or others or errors or unended)
        verdict = Verdict.HARMLESS if harmless else Verdict.FALSELY_FAILED
    elif killers:
        verdict = Verdict.KILLED
    else:
        verdict = Verdict.WRONG_REASON if others else Verdict.SURVIVED
    first = next(iter([*killers, *others]), None)
    detail = [
        *([] if first is None else [f"{first.check_id}: {first.detail}"]),
        *([f"errors of the suite: {', '.join(errors)}"] if errors else []),
        *([f"{len(unended)} checks did not end: {', '.join(unended[:3])} …"] if unended and not killers else []),
    ]
    return Ruling(
        mutant=mutant,
        verdict=verdict,
        killers=tuple((one.check_id, tuple(name for name in mutant.breaks if name in one.cites)) for one in killers),
        others=tuple(one.check_id for one in others),
        checks=len(outcomes),
        unended=len(unended),
        seconds=seconds,
        detail="; ".join(detail),
    )


def quiet() -> None:
    """For a process that only rules: checks that are cancelled leave asyncio with complaints that mean nothing."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
