"""The six states of a check, what is kept of its run, and the exit code."""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from protocol3_conformance import assertions
from protocol3_conformance.conductor import Run
from protocol3_conformance.requirements import requirements
from protocol3_conformance.wire import redaction
from protocol3_conformance.wire.faults import BrokenRule, NotDetermined
from protocol3_conformance.wire.transcript import Measurement

SCENARIOS, ROLES = (Path(__file__).parent / name for name in ("scenarios", "roles"))


class State(enum.StrEnum):
    """Only `passed` speaks for the target; `failed` and `known-failure` speak against it."""

    PASSED = "passed"
    FAILED = "failed"
    KNOWN_FAILURE = "known-failure"
    NOT_CLAIMED = "not-claimed"
    NOT_DETERMINED = "not-determined"
    HARNESS_ERROR = "harness-error"


class ExitCode(enum.IntEnum):
    """Beside pytest's own codes (0 all passed, 1 failed, 2 interrupted, 3 internal, 4 usage, 5 nothing collected)."""

    NOT_DETERMINED = 10
    HARNESS_ERROR = 11
    STALE_BASELINE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One line of a report.

    `broken` are the requirements that a failure is about: those that wire layer or model named, else all cited ones.
    `scored` is false for a check that the spec revision of the run does not know. `timeline` is kept of failures and
    races, `exchanges_shown` (see Transcript.to_json) of failures. `flaky`: it failed and held later.
    `notes`, such as how a crash point was reached, judge nothing.
    """

    check_id: str
    title: str
    state: State
    cites: tuple[str, ...]
    profiles: tuple[str, ...]
    broken: tuple[str, ...] = ()
    scored: bool = True
    detail: str = ""
    seconds: float = 0.0
    exchanges: int = 0
    rerun: str | None = None
    known: str | None = None
    attempts: int = 1
    flaky: bool = False
    notes: list[str] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    exchanges_shown: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As in the report: `id` and `requirements` in place of `check_id` and `cites`."""
        content = {**asdict(self), "state": str(self.state), "seconds": round(self.seconds, 3)}
        for name in ("profiles", "broken"):
            content[name] = list(content[name])
        return {"id": content.pop("check_id"), "requirements": list(content.pop("cites")), **content}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Outcome:
        content = {**value, "state": State(value["state"])}
        for name in ("profiles", "broken"):
            content[name] = tuple(content[name])
        return cls(check_id=content.pop("id"), cites=tuple(content.pop("requirements")), **content)


def outcome_of(run: Run) -> Outcome:
    """Blame goes to the target only for a failed assertion; anything unforeseen is the suite's own error."""
    error = run.error
    match error:
        case None:
            state = State.PASSED
        case NotDetermined():
            state = State.NOT_DETERMINED
        case AssertionError():
            state = State.FAILED
        case _:
            state = State.HARNESS_ERROR
    cites, broken = run.scenario.cites, run.scenario.cites if state is State.FAILED else ()
    if isinstance(error, BrokenRule) and error.rules:
        broken = tuple(rule for rule in error.rules if rule in requirements())
        cites = tuple(dict.fromkeys([*broken, *cites]))
    race = any(cited.startswith("RACE-") for cited in cites)
    bad = state in (State.FAILED, State.HARNESS_ERROR)
    return Outcome(
        check_id=run.scenario.check_id,
        title=run.scenario.title,
        state=state,
        cites=cites,
        profiles=run.scenario.profiles,
        broken=broken,
        detail="" if error is None else redaction.text(described(error)),
        seconds=run.seconds,
        exchanges=len(run.transcript.exchanges),
        attempts=run.attempts,
        flaky=run.flaky,
        notes=run.notes,
        measurements=run.transcript.measurements,
        timeline=run.transcript.timeline() if bad or race else [],
        exchanges_shown=run.transcript.to_json() if bad else [],
    )


def described(error: BaseException) -> str:
    """The message, the case of a table in which it happened, and the scenario's line."""
    kind = "" if isinstance(error, (AssertionError, NotDetermined)) else f"{type(error).__name__}: "
    return "\n".join([f"{kind}{error}", *getattr(error, "__notes__", []), *_scenario_line(error)])


def _frames(error: BaseException, *folders: Path) -> list[types.TracebackType]:
    frames = []
    entry = error.__traceback__
    while entry is not None:
        if any(Path(entry.tb_frame.f_code.co_filename).is_relative_to(folder) for folder in folders):
            frames.append(entry)
        entry = entry.tb_next
    return frames


def _scenario_line(error: BaseException) -> list[str]:
    """Where the scenario was when it failed, `file:line: statement`: its outermost and its innermost frame.

    And that of a role which asserted there without a word.
    """
    frames = _frames(error, SCENARIOS)
    silent = [] if isinstance(error, BrokenRule) else _frames(error, ROLES)[-1:]
    lines = []
    for entry in [*frames[:1], *frames[1:][-1:], *silent]:
        statement, *names = assertions.told(entry.tb_frame, entry.tb_lineno)
        lines += [f"at {Path(entry.tb_frame.f_code.co_filename).name}:{entry.tb_lineno}: {statement}", *names]
    return lines


def in_scenarios_only(error: BaseException) -> BaseException:
    """Drop the frames of wire layer and roles from the traceback of a failed assertion: the transcript says more."""
    if not isinstance(error, AssertionError):
        return error
    shortened = None
    for entry in reversed(_frames(error, SCENARIOS)):
        shortened = types.TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return error.with_traceback(shortened) if shortened else error


def sentences(cites: Iterable[str]) -> str:
    """The cited requirements with their text."""
    known = requirements()
    return "\n".join(f"{cited}  {known[cited].text}" for cited in cites if cited in known)


def exit_code(outcomes: Iterable[Outcome], *, stale: bool = False) -> int:
    """A failed check decides before an error of the suite, that before a stale baseline, that before what stayed open.

    Checks that are not scored count only where the suite itself failed. Known failures do not count.
    """
    scored = set()
    for outcome in outcomes:
        if outcome.scored or outcome.state is State.HARNESS_ERROR:
            scored.add(outcome.state)
    if State.FAILED in scored:
        return pytest.ExitCode.TESTS_FAILED
    if State.HARNESS_ERROR in scored:
        return ExitCode.HARNESS_ERROR
    if stale:
        return ExitCode.STALE_BASELINE
    return ExitCode.NOT_DETERMINED if State.NOT_DETERMINED in scored else pytest.ExitCode.OK
