"""How a task or a workflow ended: outcomes and failures as they stand in results and in the inputs of an activation."""

from dataclasses import dataclass
from typing import Self, TypeAlias, assert_never

from protocol3.contract.application import application_value
from protocol3.contract.fields import Fields, boolean
from protocol3.contract.limits import DATA_DEPTH, WORKFLOW_OUTPUT_BYTES
from protocol3.contract.models.common import ApplicationError
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.text import identifier, string
from protocol3.contract.vocabulary import (
    ErrorKind,
    Phase,
    Quiescence,
    error_kind,
    failure_kind,
    outcome_kind,
    phase,
    quiescence,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramError:
    """What a program reported about itself: two free strings (CLI-066, DLV-072)."""

    kind: str
    message: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body", *, lenient: bool = False) -> Self:
        with Fields(value, at, lenient=lenient) as f:
            return cls(kind=f.required("kind", string), message=f.required("message", string))

    def to_json(self) -> dict[str, JsonValue]:
        return {"kind": self.kind, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionError:
    """What a worker reported about an execution (CLI-067)."""

    kind: ErrorKind
    message: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body", *, lenient: bool = False) -> Self:
        with Fields(value, at, lenient=lenient) as f:
            return cls(kind=f.required("kind", error_kind), message=f.required("message", string))

    def to_json(self) -> dict[str, JsonValue]:
        return {"kind": self.kind, "message": self.message}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFailure:
    """The program failed by its own word."""

    error: ProgramError


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFailure:
    """The execution failed around the program."""

    error: ExecutionError
    phase: Phase
    cleanup_error: ExecutionError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLost:
    """No report came before the lease ran out."""


Failure: TypeAlias = ApplicationFailure | ExecutionFailure | AttemptLost


def failure_from_json(value: JsonValue, at: str) -> Failure:
    """A `failure` object (chapter 06, Result)."""
    with Fields(value, at) as f:
        match f.required("kind", failure_kind):
            case "application":
                return ApplicationFailure(error=f.required("error", ProgramError.from_json))
            case "execution":
                return ExecutionFailure(
                    error=f.required("error", ExecutionError.from_json),
                    phase=f.required("phase", phase),
                    cleanup_error=f.present("cleanup_error", ExecutionError.from_json),
                )
            case "attempt_lost":
                return AttemptLost()
            case other:
                assert_never(other)


def failure_to_json(failure: Failure) -> dict[str, JsonValue]:
    """The `failure` object; `cleanup_error` is always there (TASK-219 to TASK-221)."""
    match failure:
        case ApplicationFailure(error=error):
            return {"kind": "application", "error": error.to_json()}
        case ExecutionFailure(error=cause, phase=where, cleanup_error=cleanup):
            return {
                "kind": "execution",
                "error": cause.to_json(),
                "phase": where,
                "cleanup_error": None if cleanup is None else cleanup.to_json(),
            }
        case AttemptLost():
            return {"kind": "attempt_lost"}
        case other:
            assert_never(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSucceeded:
    """`output` may be None, which is a success all the same (TASK-064)."""

    attempt_id: str
    quiescence: Quiescence
    output: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    attempt_id: str
    quiescence: Quiescence
    execution_may_have_started: bool
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """A cancelled task or workflow names nothing else (TASK-127)."""


TaskOutcome: TypeAlias = TaskSucceeded | TaskFailed | Cancelled


def task_outcome_from_json(value: JsonValue, at: str, *, max_depth: int = DATA_DEPTH) -> TaskOutcome:
    """A task's outcome with the checks of CLI-063…068; `max_depth` bounds the output."""
    with Fields(value, at) as f:
        match f.required("kind", outcome_kind):
            case "cancelled":
                return Cancelled()
            case "succeeded":
                if not f.required("execution_may_have_started", boolean):
                    raise invalid(f"{at}.execution_may_have_started", "must be true")
                return TaskSucceeded(
                    attempt_id=f.required("attempt_id", identifier),
                    quiescence=f.required("quiescence", quiescence),
                    output=application_value(f.raw("output"), f"{at}.output", max_depth=max_depth),
                )
            case "failed":
                failed = TaskFailed(
                    attempt_id=f.required("attempt_id", identifier),
                    quiescence=f.required("quiescence", quiescence),
                    execution_may_have_started=f.required("execution_may_have_started", boolean),
                    failure=f.required("failure", failure_from_json),
                )
                _check_failed(failed, at)
                return failed
            case other:
                assert_never(other)


def _check_failed(outcome: TaskFailed, at: str) -> None:
    """TASK-062, TASK-063."""
    if isinstance(outcome.failure, ApplicationFailure) and not outcome.execution_may_have_started:
        raise invalid(f"{at}.execution_may_have_started", "must be true for an application failure")
    if isinstance(outcome.failure, AttemptLost) and outcome.quiescence != "unconfirmed":
        raise invalid(f"{at}.quiescence", "must be unconfirmed for a lost attempt")


def task_outcome_to_json(outcome: TaskOutcome) -> dict[str, JsonValue]:
    """TASK-215 to TASK-218."""
    match outcome:
        case TaskSucceeded():
            return {
                "kind": "succeeded",
                "attempt_id": outcome.attempt_id,
                "quiescence": outcome.quiescence,
                "execution_may_have_started": True,
                "output": outcome.output,
            }
        case TaskFailed():
            return {
                "kind": "failed",
                "attempt_id": outcome.attempt_id,
                "quiescence": outcome.quiescence,
                "execution_may_have_started": outcome.execution_may_have_started,
                "failure": failure_to_json(outcome.failure),
            }
        case Cancelled():
            return {"kind": "cancelled"}
        case other:
            assert_never(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSucceeded:
    """`output` may be None (WF-040)."""

    output: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFailed:
    error: ApplicationError


WorkflowOutcome: TypeAlias = WorkflowSucceeded | WorkflowFailed | Cancelled


def workflow_outcome_from_json(value: JsonValue, at: str) -> WorkflowOutcome:
    """A workflow's outcome (CLI-088)."""
    with Fields(value, at) as f:
        match f.required("kind", outcome_kind):
            case "cancelled":
                return Cancelled()
            case "succeeded":
                output = application_value(f.raw("output"), f"{at}.output", max_bytes=WORKFLOW_OUTPUT_BYTES)
                return WorkflowSucceeded(output=output)
            case "failed":
                return WorkflowFailed(error=f.required("error", ApplicationError.from_json))
            case other:
                assert_never(other)


def workflow_outcome_to_json(outcome: WorkflowOutcome) -> dict[str, JsonValue]:
    match outcome:
        case WorkflowSucceeded(output=output):
            return {"kind": "succeeded", "output": output}
        case WorkflowFailed(error=error):
            return {"kind": "failed", "error": error.to_json()}
        case Cancelled():
            return {"kind": "cancelled"}
        case other:
            assert_never(other)


def outcome_state(outcome: TaskOutcome | WorkflowOutcome) -> str:
    """The terminal state that goes with an outcome: its `kind` (TASK-060, CLI-088)."""
    match outcome:
        case TaskSucceeded() | WorkflowSucceeded():
            return "succeeded"
        case TaskFailed() | WorkflowFailed():
            return "failed"
        case Cancelled():
            return "cancelled"
        case other:
            assert_never(other)
