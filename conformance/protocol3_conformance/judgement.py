"""From the states of checks to the state of every requirement, the verdict of every profile, and the claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from protocol3_conformance.scenario import Scenario
from protocol3_conformance.target import CLAIMABLE, COORDINATOR, EXPIRY, Target
from protocol3_conformance.verdict import Outcome, State

WORST_FIRST = (
    State.FAILED,
    State.KNOWN_FAILURE,
    State.HARNESS_ERROR,
    State.NOT_DETERMINED,
    State.PASSED,
    State.NOT_CLAIMED,
)
CONFORMANT, NOT_CONFORMANT, OPEN, NOT_CLAIMED = "conformant", "not conformant", "not determined", "not claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVerdict:
    """`left_out` are the checks that the profile demands and that this run did not make."""

    profile: str
    verdict: str
    counts: Mapping[str, int]
    left_out: tuple[str, ...]


def by_requirement(outcomes: Iterable[Outcome]) -> dict[str, dict[str, Any]]:
    """Each cited requirement with its checks and the worst of their states.

    A check that the wire layer or the model stopped judged the broken rule and no other: on the others it says nothing.
    """
    found: dict[str, dict[str, Any]] = {}
    for outcome in outcomes:
        for identifier in outcome.cites:
            entry = found.setdefault(identifier, {"state": str(State.NOT_CLAIMED), "checks": []})
            entry["checks"].append(outcome.check_id)
            entry["state"] = str(min(State(entry["state"]), _on(outcome, identifier), key=WORST_FIRST.index))
    return dict(sorted(found.items()))


def _on(outcome: Outcome, identifier: str) -> State:
    against = outcome.state in (State.FAILED, State.KNOWN_FAILURE)
    return State.NOT_DETERMINED if against and identifier not in outcome.broken else outcome.state


def profiles_of(conditions: Sequence[str]) -> tuple[str, ...]:
    """Whose verdict a check belongs to: the profiles it needs beside core, or core."""
    return tuple(name for name in conditions if name in CLAIMABLE) or ("core",)


def demanded(scenario: Scenario, target: Target) -> bool:
    """Whether the target's description makes this check mandatory; waiting for leases is no excuse."""
    return scenario.role in target.roles and all(
        target.claims(condition) for condition in scenario.profiles if condition != EXPIRY
    )


def by_profile(outcomes: Sequence[Outcome], suite: Iterable[Scenario], target: Target) -> list[ProfileVerdict]:
    """The verdict of every profile. `suite`: all scored checks there are."""
    judged = {outcome.check_id for outcome in outcomes}
    due = [one for one in suite if demanded(one, target)]
    verdicts = []
    for profile in ("core", *CLAIMABLE):
        own = [one for one in outcomes if one.scored and profile in profiles_of(one.profiles)]
        missing = tuple(
            one.check_id for one in due if profile in profiles_of(one.profiles) and one.check_id not in judged
        )
        judged_here = target.claims(profile) and (COORDINATOR in target.roles or own or missing)
        word = verdict(own, complete=not missing) if judged_here else NOT_CLAIMED
        counts = Counter(str(one.state) for one in own)
        verdicts.append(ProfileVerdict(profile=profile, verdict=word, counts=counts, left_out=missing))
    return verdicts


def verdict(outcomes: Iterable[Outcome], *, complete: bool) -> str:
    """A run that left something open, or out, is never called conformant; nor is one with known failures."""
    states = {outcome.state for outcome in outcomes if outcome.scored}
    if states & {State.FAILED, State.KNOWN_FAILURE}:
        return NOT_CONFORMANT
    judged = not states & {State.NOT_DETERMINED, State.HARNESS_ERROR}
    return CONFORMANT if judged and complete else OPEN


def overall(profiles: Sequence[ProfileVerdict]) -> str:
    """The verdict of the run: the worst of the claimed profiles."""
    words = {one.verdict for one in profiles}
    return next((word for word in (NOT_CONFORMANT, OPEN) if word in words), CONFORMANT)


def claim(profiles: Sequence[ProfileVerdict], revision: str, roles: Iterable[str] = (COORDINATOR,)) -> str | None:
    """The sentence a target may use; None unless every claimed profile is conformant."""
    if overall(profiles) != CONFORMANT:
        return None
    names = ", ".join(one.profile for one in profiles if one.verdict == CONFORMANT)
    judged = " and ".join(sorted(roles))
    role = "" if judged == COORDINATOR else f", as {judged},"
    return f"conforms{role} to {names} of Ledgence runtime protocol 3, specification {revision}"
