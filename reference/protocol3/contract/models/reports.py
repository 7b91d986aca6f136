"""The report of an attempt: identity, outcome, observations (chapter 07).

Unknown members of a report are ignored and neither stored nor compared (DLV-073); those of `program` and
`observations` are refused.
"""

from dataclasses import dataclass
from typing import Final, Self, TypeAlias, assert_never

from protocol3.contract.application import application_value, too_large
from protocol3.contract.fields import Fields, boolean, distinct, each, integer, present
from protocol3.contract.limits import (
    CALLABLE_BYTES,
    CONTROLLER_OUTPUT_DEPTH,
    DATA_DEPTH,
    ID_BYTES,
    MAX_TIMESTAMP_MS,
    OBSERVATIONS_BYTES,
    OBSERVED_STEPS,
)
from protocol3.contract.models.common import Descriptor, u32, u64
from protocol3.contract.models.outcomes import ExecutionError, ProgramError
from protocol3.contract.strict_json import JsonValue, compact_size
from protocol3.contract.text import string, uncontrolled
from protocol3.contract.timestamps import timestamp
from protocol3.contract.vocabulary import Phase, StepState, phase, report_kind, report_status, step_state


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportIdentity:
    """What ties a report to its attempt; plain strings here, judged by comparison with `of` (DLV-078, DLV-079)."""

    source: str
    event_id: str
    tenant_id: str
    namespace: str
    run_id: str
    task_id: str
    attempt_id: str
    attempt_no: int
    program_id: str
    program_version: str
    digest: str
    traceparent: str | None = None
    tracestate: str | None = None
    workflow_id: str | None = None
    activation_id: str | None = None
    parent_workflow_id: str | None = None
    root_workflow_id: str | None = None

    @classmethod
    def of(cls, event: dict[str, JsonValue], descriptor: Descriptor) -> Self:
        """The identity that a report on this invocation event must carry. Raises Refusal if the event is not one."""
        members = {name: event[attribute] for name, attribute in _FROM_EVENT.items() if attribute in event}
        members["program"] = descriptor.program.to_json()
        members["digest"] = descriptor.digest
        with Fields(members, "event") as f:
            return cls.take(f, "event")

    @classmethod
    def take(cls, f: Fields, at: str) -> Self:
        """The identity members out of a report body."""
        with Fields(f.raw("program"), f"{at}.program") as program:
            program_id, program_version = program.required("id", string), program.required("version", string)
        return cls(
            source=f.required("source", string),
            event_id=f.required("event_id", string),
            tenant_id=f.required("tenant_id", string),
            namespace=f.required("namespace", string),
            run_id=f.required("run_id", string),
            task_id=f.required("task_id", string),
            attempt_id=f.required("attempt_id", string),
            attempt_no=f.required("attempt_no", u32),
            program_id=program_id,
            program_version=program_version,
            digest=f.required("digest", string),
            traceparent=f.optional("traceparent", None, string),
            tracestate=f.optional("tracestate", None, string),
            workflow_id=f.optional("workflow_id", None, string),
            activation_id=f.optional("activation_id", None, string),
            parent_workflow_id=f.optional("parent_workflow_id", None, string),
            root_workflow_id=f.optional("root_workflow_id", None, string),
        )

    def to_json(self) -> dict[str, JsonValue]:
        return present(
            source=self.source,
            event_id=self.event_id,
            tenant_id=self.tenant_id,
            namespace=self.namespace,
            run_id=self.run_id,
            task_id=self.task_id,
            attempt_id=self.attempt_id,
            attempt_no=self.attempt_no,
            traceparent=self.traceparent,
            tracestate=self.tracestate,
            workflow_id=self.workflow_id,
            activation_id=self.activation_id,
            parent_workflow_id=self.parent_workflow_id,
            root_workflow_id=self.root_workflow_id,
            program={"id": self.program_id, "version": self.program_version},
            digest=self.digest,
        )


_FROM_EVENT: Final = {
    "source": "source",
    "event_id": "id",
    "tenant_id": "ldgtenantid",
    "namespace": "ldgnamespace",
    "run_id": "ldgrunid",
    "task_id": "ldgtaskid",
    "attempt_id": "ldgattemptid",
    "attempt_no": "ldgattemptno",
    "traceparent": "traceparent",
    "tracestate": "tracestate",
    "workflow_id": "ldgworkflowid",
    "activation_id": "ldgactivationid",
    "parent_workflow_id": "ldgparentworkflowid",
    "root_workflow_id": "ldgrootworkflowid",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStep:
    """One local step as the runtime saw it; `elapsed_us` in microseconds."""

    key: str
    callable: str
    started_at_ms: int
    elapsed_us: int
    state: StepState

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                key=f.required("key", uncontrolled, ID_BYTES),
                callable=f.required("callable", uncontrolled, CALLABLE_BYTES),
                started_at_ms=f.required("started_at_ms", timestamp),
                elapsed_us=f.required("elapsed_us", u64),
                state=f.required("state", step_state),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "key": self.key,
            "callable": self.callable,
            "started_at_ms": self.started_at_ms,
            "elapsed_us": self.elapsed_us,
            "state": self.state,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Measurements of one invocation; a counter that is not available is None (DLV-090, DLV-091, RUN-086…092)."""

    runtime_started_at_ms: int
    runtime_elapsed_us: int
    process_cpu_user_us: int | None
    process_cpu_system_us: int | None
    process_lifetime_peak_rss_bytes: int | None
    local_steps: tuple[ObservedStep, ...]
    local_steps_truncated: bool

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            observations = cls(
                runtime_started_at_ms=f.required("runtime_started_at_ms", integer, 0, MAX_TIMESTAMP_MS),
                runtime_elapsed_us=f.required("runtime_elapsed_us", u64),
                process_cpu_user_us=f.present("process_cpu_user_us", u64),
                process_cpu_system_us=f.present("process_cpu_system_us", u64),
                process_lifetime_peak_rss_bytes=f.present("process_lifetime_peak_rss_bytes", u64),
                local_steps=f.required("local_steps", each, 0, OBSERVED_STEPS, ObservedStep.from_json),
                local_steps_truncated=f.required("local_steps_truncated", boolean),
            )
        distinct((step.key for step in observations.local_steps), f"{at}.local_steps")
        if compact_size(observations.to_json()) > OBSERVATIONS_BYTES:
            raise too_large(at, OBSERVATIONS_BYTES)
        return observations

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "runtime_started_at_ms": self.runtime_started_at_ms,
            "runtime_elapsed_us": self.runtime_elapsed_us,
            "process_cpu_user_us": self.process_cpu_user_us,
            "process_cpu_system_us": self.process_cpu_system_us,
            "process_lifetime_peak_rss_bytes": self.process_lifetime_peak_rss_bytes,
            "local_steps": [step.to_json() for step in self.local_steps],
            "local_steps_truncated": self.local_steps_truncated,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The program returned; `output` may be None."""

    output: JsonValue


ReportOutcome: TypeAlias = Success | ProgramError


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedReport:
    """The program ran to its end, well or with an error of its own; `elapsed_ms` in milliseconds."""

    identity: ReportIdentity
    process_id: int
    reused_process: bool
    elapsed_ms: int
    outcome: ReportOutcome
    observations: Observations | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at, lenient=True) as f:
            identity = ReportIdentity.take(f, at)
            # DLV-071, DEC-002; an AttemptSnapshot has six containers around it, so no reply is too deep (JSON-034).
            max_depth = DATA_DEPTH if identity.activation_id is None else CONTROLLER_OUTPUT_DEPTH
            return cls(
                identity=identity,
                process_id=f.required("process_id", u32),
                reused_process=f.required("reused_process", boolean),
                elapsed_ms=f.required("elapsed_ms", u64),
                outcome=f.required("outcome", _outcome, max_depth),
                observations=f.optional("observations", None, Observations.from_json),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return self.identity.to_json() | {
            "process_id": self.process_id,
            "reused_process": self.reused_process,
            "elapsed_ms": self.elapsed_ms,
            "outcome": _outcome_to_json(self.outcome),
            **present(observations=None if self.observations is None else self.observations.to_json()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedReport:
    """The execution failed around the program; only `error.kind` classifies it (DLV-087)."""

    identity: ReportIdentity
    error: ExecutionError
    phase: Phase
    execution_may_have_started: bool
    cleanup_error: ExecutionError | None = None
    observations: Observations | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at, lenient=True) as f:
            return cls(
                identity=ReportIdentity.take(f, at),
                error=f.required("error", ExecutionError.from_json, lenient=True),
                phase=f.required("phase", phase),
                execution_may_have_started=f.required("execution_may_have_started", boolean),
                cleanup_error=f.nullable("cleanup_error", ExecutionError.from_json, lenient=True),
                observations=f.optional("observations", None, Observations.from_json),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return self.identity.to_json() | {
            "error": self.error.to_json(),
            "phase": self.phase,
            "execution_may_have_started": self.execution_may_have_started,
            **present(
                cleanup_error=None if self.cleanup_error is None else self.cleanup_error.to_json(),
                observations=None if self.observations is None else self.observations.to_json(),
            ),
        }


Report: TypeAlias = CompletedReport | FailedReport


def report_from_json(value: JsonValue, at: str) -> Report:
    """The tagged report of a settlement: `{kind, report}` (DLV-070)."""
    with Fields(value, at, lenient=True) as f:
        match f.required("kind", report_kind):
            case "completed":
                return f.required("report", CompletedReport.from_json)
            case "failed":
                return f.required("report", FailedReport.from_json)
            case other:
                assert_never(other)


def report_to_json(report: Report) -> dict[str, JsonValue]:
    """The tagged report, absent optional members omitted."""
    kind = "completed" if isinstance(report, CompletedReport) else "failed"
    return {"kind": kind, "report": report.to_json()}


def _outcome(value: JsonValue, at: str, max_depth: int) -> ReportOutcome:
    with Fields(value, at, lenient=True) as f:
        match f.required("status", report_status):
            case "success":
                return Success(output=application_value(f.raw("output"), f"{at}.output", max_depth=max_depth))
            case "failure":
                return ProgramError(kind=f.required("kind", string), message=f.required("message", string))
            case other:
                assert_never(other)


def _outcome_to_json(outcome: ReportOutcome) -> dict[str, JsonValue]:
    match outcome:
        case Success(output=output):
            return {"status": "success", "output": output}
        case ProgramError():
            return {"status": "failure"} | outcome.to_json()
        case other:
            assert_never(other)
