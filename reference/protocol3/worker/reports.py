"""From an outcome to the report of an attempt, as pure functions (WRK-050…068)."""

from dataclasses import dataclass
from typing import assert_never

from protocol3.contract.models.delivery import (
    CompletedReport,
    ExecutionError,
    FailedReport,
    ProgramError,
    Report,
    ReportIdentity,
    Success,
)
from protocol3.contract.vocabulary import Phase
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import Result, RuntimeFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an attempt has come. ``started`` is true from the moment a process has it (WRK-065)."""

    phase: Phase = "admission"
    started: bool = False


ADMISSION = Progress(phase="admission")
PREPARATION = Progress(phase="preparation")
STARTUP = Progress(phase="startup")
EXECUTION = Progress(phase="execution", started=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """Which process ran the invocation, and for how many milliseconds."""

    process_id: int
    reused: bool
    elapsed_ms: int


def completed(identity: ReportIdentity, result: Result, use: ProcessUse) -> Report:
    """The report of a result: completed, except for a `runtime_error` (WRK-050, WRK-051, WRK-060).

    A decision is an output like any other (WRK-087).
    """
    match result.outcome:
        case RuntimeFailed(message=message):
            failure = ExecutionFailed("runtime", message)
            return failed(identity, failure, EXECUTION, result=result)
        case Success() | ProgramError():
            return CompletedReport(
                identity=identity,
                process_id=use.process_id,
                reused_process=use.reused,
                elapsed_ms=use.elapsed_ms,
                outcome=result.outcome,
                observations=result.observations,
            )
        case other:
            assert_never(other)


def failed(
    identity: ReportIdentity,
    failure: ExecutionFailed,
    progress: Progress,
    *,
    cleanup: ExecutionFailed | None = None,
    result: Result | None = None,
) -> FailedReport:
    """The report of an execution that failed around the program (WRK-052…063, WRK-066)."""
    return FailedReport(
        identity=identity,
        error=_error(failure),
        phase=progress.phase,
        execution_may_have_started=progress.started,
        cleanup_error=None if cleanup is None else _error(cleanup),
        observations=None if result is None else result.observations,
    )


def _error(failure: ExecutionFailed) -> ExecutionError:
    return ExecutionError(kind=failure.kind, message=failure.message)
