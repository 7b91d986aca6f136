"""Lets the suite judge one mutant and draws the verdict.

The suite's own conductor runs the checks, in this process: a pytest for every mutant would cost more than most of them.
"""

from __future__ import annotations

import enum
import logging
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
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
NEAR = 12
"""Lines before and after an edit, about a function."""
RULE = re.compile(r"\b[A-Z]{2,}-\d+\b")
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

    `killers` are failed checks with the broken requirements that they show, `others` failed ones that show none.
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
    """How much is spent on one mutant: `seconds` of checks at most; `every` check of the role.

    The first kill ends it; with `prove` only when every broken rule that a check cites has its killer, with `on` never.
    """

    seconds: float = 60.0
    every: bool = False
    prove: bool = False
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
    """The outcomes of the checks that are about it; then, while it lives, of a look at the rest. And what hung.

    With `every` the rest is judged whatever came before.
    """
    outcomes: list[Outcome] = []
    unended: list[str] = []
    end = time.monotonic() + effort.seconds
    for checks in rounds(mutant, subject, every=effort.every):
        if checks and (effort.every or not (unended or any(map(failed, outcomes)))):
            found = _conducted(mutant, subject, checks, effort, end=end)
            ended = {one.check_id for one in found}
            outcomes += found
            unended += [one.check_id for one in checks if one.check_id not in ended]
    return outcomes, unended


def rounds(mutant: Mutant, subject: Target, *, every: bool = False) -> Iterable[list[Scenario]]:
    """First the checks that cite a broken requirement, then the first look, or `every` other check of the role.

    For a mutant that names none, all but the long ones that wait for each other and kill it: first those that cite
    what the source says around the edit, then what its file says.
    """
    fit = [one for one in _checks(mutant.role) if all(map(subject.claims, one.profiles))]
    fit = [one for one in fit if mutant.breaks or not one.deadly]
    for rules in [set(mutant.breaks)] if mutant.breaks else map(_named, _around(mutant)):
        about = [one for one in fit if rules.intersection(one.cites)]
        fit = [one for one in fit if one not in about]
        yield about
    yield fit if every or not mutant.breaks else [one for one in fit if one.check_id in _first_look(mutant.role)]


def _around(mutant: Mutant) -> Iterator[str]:
    """The lines near an edit, and all of the file."""
    for edit in mutant.edits:
        old, new = edit.old.splitlines(), edit.new.splitlines()
        at = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
        yield "\n".join(old[max(at - NEAR, 0) : at + NEAR])
        yield edit.old


def _named(text: str) -> set[str]:
    return set(RULE.findall(text))


@cache
def _checks(role: str) -> tuple[Scenario, ...]:
    return tuple(one for one in catalogue.everything().values() if one.role == role)


@cache
def _first_look(role: str) -> frozenset[str]:
    names = sorted(one.check_id for one in _checks(role))
    return frozenset(SMOKE).intersection(names) or frozenset(names[:: max(len(names) // FIRST_LOOK, 1)])


def _conducted(
    mutant: Mutant, subject: Target, checks: Sequence[Scenario], effort: Effort, *, end: float
) -> list[Outcome]:
    """The outcomes of what had ended when all had, or enough did, or the time was over. The others are cancelled."""
    conductor = Conductor(subject)
    conductor.start(checks)
    seen: dict[str, Outcome] = {}
    try:
        while True:
            over = conductor.wait(POLL_SECONDS) or time.monotonic() > end
            for run in conductor.ended():
                if run.scenario.check_id not in seen:
                    seen[run.scenario.check_id] = outcome_of(run)
            if over or enough(mutant, checks, seen.values(), effort):
                return list(seen.values())
    finally:
        conductor.stop()


def enough(mutant: Mutant, checks: Iterable[Scenario], seen: Iterable[Outcome], effort: Effort) -> bool:
    """Whether what was seen says all that is asked about a mutant. A twin has to pass everything."""
    killers = [outcome for outcome in seen if kills(mutant, outcome)]
    if mutant.twin or effort.on or not killers:
        return False
    cited = {rule for one in checks for rule in one.cites} if effort.prove else set()
    return cited & set(mutant.breaks) <= {rule for one in killers for rule in about(mutant, one)}


def failed(outcome: Outcome) -> bool:
    return outcome.state is State.FAILED


def kills(mutant: Mutant, outcome: Outcome) -> bool:
    """Failed, and for the right reason: what the failure is about is broken.

    Of a mutant that names none, nobody knows the right reason.
    """
    return failed(outcome) and (not mutant.breaks or bool(about(mutant, outcome).intersection(mutant.breaks)))


def about(mutant: Mutant, outcome: Outcome) -> frozenset[str]:
    """The rules that a failure shows to be broken: what wire layer or model named, where the mutant breaks it.

    Otherwise what they named is how the breach of a cited rule came out: a member that was taken and left out, a
    program that ended; or the rule of a client that has to refuse it.
    """
    named = set(outcome.broken).intersection(mutant.breaks)
    return frozenset(named or outcome.cites)


def _shown(mutant: Mutant, outcome: Outcome) -> tuple[str, ...]:
    """What a failure is about, of what is broken; all of it where nobody knows that."""
    return tuple(name for name in mutant.breaks or outcome.cites if name in about(mutant, outcome))


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
        killers=tuple((one.check_id, _shown(mutant, one)) for one in killers),
        others=tuple(one.check_id for one in others),
        checks=len(outcomes),
        unended=len(unended),
        seconds=seconds,
        detail="; ".join(detail),
    )


def quiet() -> None:
    """For a process that only rules: checks that are cancelled leave asyncio with complaints that mean nothing."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
