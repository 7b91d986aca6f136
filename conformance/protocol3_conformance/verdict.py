"""The five states of a check, and the exit code of a run."""

from __future__ import annotations

import enum
import linecache
import types
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from protocol3_conformance.conductor import Run
from protocol3_conformance.requirements import requirements
from protocol3_conformance.wire.faults import NotDetermined, Violation

SCENARIOS = Path(__file__).parent / "scenarios"


class State(enum.StrEnum):
    """Only `passed` speaks for the target; only `failed` speaks against it."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not-applicable"
    NOT_DETERMINED = "not-determined"
    HARNESS_ERROR = "harness-error"


class ExitCode(enum.IntEnum):
    """Beside pytest's own codes (0 all passed, 1 failed, 2 interrupted, 3 internal, 4 usage, 5 nothing collected)."""

    NOT_DETERMINED = 10
    HARNESS_ERROR = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One line of a report."""

    check_id: str
    title: str
    state: State
    cites: tuple[str, ...]
    detail: str
    seconds: float
    exchanges: int

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.check_id,
            "title": self.title,
            "state": str(self.state),
            "requirements": list(self.cites),
            "detail": self.detail,
            "seconds": round(self.seconds, 3),
            "exchanges": self.exchanges,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Outcome:
        return cls(
            check_id=value["id"],
            title=value["title"],
            state=State(value["state"]),
            cites=tuple(value["requirements"]),
            detail=value["detail"],
            seconds=value["seconds"],
            exchanges=value["exchanges"],
        )


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
    cites = run.scenario.cites
    if isinstance(error, Violation):
        cites = tuple(dict.fromkeys([*error.rules, *cites]))
    return Outcome(
        check_id=run.scenario.check_id,
        title=run.scenario.title,
        state=state,
        cites=cites,
        detail="" if error is None else described(error),
        seconds=run.seconds,
        exchanges=len(run.transcript.exchanges),
    )


def described(error: BaseException) -> str:
    """The message, the case of a table in which it happened, and the scenario's line."""
    kind = "" if isinstance(error, (AssertionError, NotDetermined)) else f"{type(error).__name__}: "
    return "\n".join([f"{kind}{error}", *getattr(error, "__notes__", []), *_scenario_line(error)])


def _scenario_frames(error: BaseException) -> list[types.TracebackType]:
    frames = []
    entry = error.__traceback__
    while entry is not None:
        if Path(entry.tb_frame.f_code.co_filename).is_relative_to(SCENARIOS):
            frames.append(entry)
        entry = entry.tb_next
    return frames


def _scenario_line(error: BaseException) -> list[str]:
    """Where the scenario was when it failed, outermost frame: `file:line: source`."""
    for entry in _scenario_frames(error)[:1]:
        file = entry.tb_frame.f_code.co_filename
        return [f"at {Path(file).name}:{entry.tb_lineno}: {linecache.getline(file, entry.tb_lineno).strip()}"]
    return []


def in_scenarios_only(error: BaseException) -> BaseException:
    """Drop the frames of wire layer and roles from the traceback of a failed assertion: the transcript says more."""
    if not isinstance(error, AssertionError):
        return error
    shortened = None
    for entry in reversed(_scenario_frames(error)):
        shortened = types.TracebackType(shortened, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return error.with_traceback(shortened) if shortened else error


def sentences(cites: Iterable[str]) -> str:
    """The cited requirements with their text."""
    known = requirements()
    return "\n".join(f"{cited}  {known[cited].text}" for cited in cites if cited in known)


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """A failed check decides before an error of the suite, and that before a check that was not determined."""
    states = {outcome.state for outcome in outcomes}
    if State.FAILED in states:
        return pytest.ExitCode.TESTS_FAILED
    if State.HARNESS_ERROR in states:
        return ExitCode.HARNESS_ERROR
    return ExitCode.NOT_DETERMINED if State.NOT_DETERMINED in states else pytest.ExitCode.OK
