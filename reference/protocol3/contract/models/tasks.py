"""Messages of tasks: submission, snapshot, status, result, history, list (chapter 06)."""

from dataclasses import dataclass
from typing import Self

from protocol3.contract.fields import Fields, each, integer, present
from protocol3.contract.limits import (
    CONTROLLER_OUTPUT_DEPTH,
    CURSOR_BYTES,
    DATA_DEPTH,
    IDEMPOTENCY_KEY_BYTES,
    MAX_ATTEMPTS,
    TASK_PAGE,
)
from protocol3.contract.models.common import (
    Descriptor,
    Scope,
    TraceContext,
    check_lineage,
    u64,
)
from protocol3.contract.models.outcomes import (
    Cancelled,
    TaskOutcome,
    outcome_state,
    task_outcome_from_json,
    task_outcome_to_json,
)
from protocol3.contract.models.queries import AttemptQuery, HistoryQuery, TaskListQuery, TaskQuery
from protocol3.contract.models.submission import SubmitCommand, SubmitInput
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.text import correlation, identifier
from protocol3.contract.timestamps import timestamp
from protocol3.contract.vocabulary import TERMINAL, HistoryReason, TaskState, history_reason, task_state

__all__ = [
    "AttemptQuery",
    "HistoryQuery",
    "HistoryRecord",
    "SubmitCommand",
    "SubmitInput",
    "TaskCancel",
    "TaskListQuery",
    "TaskPage",
    "TaskQuery",
    "TaskResult",
    "TaskSnapshot",
    "TaskStatus",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCancel:
    """Names the task to cancel (chapter 06, Cancellation)."""

    scope: Scope
    task_id: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(scope=f.required("scope", Scope.from_json), task_id=f.required("task_id", identifier))

    def to_json(self) -> dict[str, JsonValue]:
        return {"scope": self.scope.to_json(), "task_id": self.task_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSnapshot:
    """The task in full; the four workflow members are omitted when None (TASK-051, ACT-007)."""

    task_id: str
    run_id: str
    idempotency_key: str
    input: SubmitInput
    descriptor: Descriptor
    origin_trace: TraceContext | None
    state: TaskState
    submitted_at: int
    available_at: int
    terminal_at: int | None
    current_attempt_id: str | None
    attempt_count: int
    cancel_requested_at: int | None
    workflow_id: str | None = None
    workflow_activation_id: str | None = None
    parent_workflow_id: str | None = None
    root_workflow_id: str | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            snapshot = cls(
                task_id=f.required("task_id", identifier),
                run_id=f.required("run_id", identifier),
                idempotency_key=f.required("idempotency_key", identifier, IDEMPOTENCY_KEY_BYTES),
                input=f.required("input", SubmitInput.from_json),
                descriptor=f.required("descriptor", Descriptor.from_json),
                origin_trace=f.present("origin_trace", TraceContext.from_json),
                state=f.required("state", task_state),
                submitted_at=f.required("submitted_at", timestamp),
                available_at=f.required("available_at", timestamp),
                terminal_at=f.present("terminal_at", timestamp),
                current_attempt_id=f.present("current_attempt_id", identifier),
                attempt_count=f.required("attempt_count", integer, 0, MAX_ATTEMPTS),
                cancel_requested_at=f.present("cancel_requested_at", timestamp),
                workflow_id=f.optional("workflow_id", None, identifier),
                workflow_activation_id=f.optional("workflow_activation_id", None, identifier),
                parent_workflow_id=f.optional("parent_workflow_id", None, identifier),
                root_workflow_id=f.optional("root_workflow_id", None, identifier),
            )
        snapshot.check(at)
        return snapshot

    def check(self, at: str = "body") -> None:
        """Refuses a snapshot whose members contradict each other (CLI-056, CLI-058, TASK-058)."""
        if self.descriptor.program != self.input.program:
            raise invalid(f"{at}.descriptor.program", "must equal the program of the input")
        _check_state(self, at)
        check_lineage(at, self.workflow_id, self.parent_workflow_id, self.root_workflow_id)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "task_id": self.task_id,
            "run_id": self.run_id,
            "idempotency_key": self.idempotency_key,
            "input": self.input.to_json(),
            "descriptor": self.descriptor.to_json(),
            "origin_trace": None if self.origin_trace is None else self.origin_trace.to_json(),
            "state": self.state,
            "submitted_at": self.submitted_at,
            "available_at": self.available_at,
            "terminal_at": self.terminal_at,
            "current_attempt_id": self.current_attempt_id,
            "attempt_count": self.attempt_count,
            "cancel_requested_at": self.cancel_requested_at,
            **present(
                workflow_id=self.workflow_id,
                workflow_activation_id=self.workflow_activation_id,
                parent_workflow_id=self.parent_workflow_id,
                root_workflow_id=self.root_workflow_id,
            ),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """The task in short; the two workflow members are omitted when None (TASK-052, DISC-023).

    Its texts are bounded, so that it always fits a reply (TASK-059).
    """

    scope: Scope
    task_id: str
    run_id: str
    queue: str
    correlation_key: str | None
    state: TaskState
    attempt_count: int
    current_attempt_id: str | None
    latest_attempt_id: str | None
    submitted_at: int
    available_at: int
    terminal_at: int | None
    cancel_requested_at: int | None
    workflow_id: str | None = None
    workflow_activation_id: str | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            status = cls(
                scope=f.required("scope", Scope.from_json),
                task_id=f.required("task_id", identifier),
                run_id=f.required("run_id", identifier),
                queue=f.required("queue", identifier),
                correlation_key=f.present("correlation_key", correlation),
                state=f.required("state", task_state),
                attempt_count=f.required("attempt_count", integer, 0, MAX_ATTEMPTS),
                current_attempt_id=f.present("current_attempt_id", identifier),
                latest_attempt_id=f.present("latest_attempt_id", identifier),
                submitted_at=f.required("submitted_at", timestamp),
                available_at=f.required("available_at", timestamp),
                terminal_at=f.present("terminal_at", timestamp),
                cancel_requested_at=f.present("cancel_requested_at", timestamp),
                workflow_id=f.optional("workflow_id", None, identifier),
                workflow_activation_id=f.optional("workflow_activation_id", None, identifier),
            )
        status.check(at)
        return status

    def check(self, at: str = "body") -> None:
        """Refuses a status whose members contradict each other (TASK-053…058)."""
        if (self.latest_attempt_id is None) != (self.attempt_count == 0):
            raise invalid(f"{at}.latest_attempt_id", "must be null exactly before the first attempt")
        if self.current_attempt_id is not None and self.current_attempt_id != self.latest_attempt_id:
            raise invalid(f"{at}.current_attempt_id", "must be the latest attempt")
        _check_state(self, at)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "scope": self.scope.to_json(),
            "task_id": self.task_id,
            "run_id": self.run_id,
            "queue": self.queue,
            "correlation_key": self.correlation_key,
            "state": self.state,
            "attempt_count": self.attempt_count,
            "current_attempt_id": self.current_attempt_id,
            "latest_attempt_id": self.latest_attempt_id,
            "submitted_at": self.submitted_at,
            "available_at": self.available_at,
            "terminal_at": self.terminal_at,
            "cancel_requested_at": self.cancel_requested_at,
            **present(workflow_id=self.workflow_id, workflow_activation_id=self.workflow_activation_id),
        }


def _check_state(task: TaskSnapshot | TaskStatus, at: str) -> None:
    """The relations that snapshot and status share (TASK-054…058)."""
    if (task.current_attempt_id is not None) != (task.state == "active"):
        raise invalid(f"{at}.current_attempt_id", "must be set exactly while the task is active")
    if (task.terminal_at is not None) != (task.state in TERMINAL):
        raise invalid(f"{at}.terminal_at", "must be set exactly in a terminal state")
    if task.state in ("active", "succeeded", "failed") and task.attempt_count == 0:
        raise invalid(f"{at}.attempt_count", f"must be at least 1 in state {task.state}")
    if (task.state == "cancelled") and task.cancel_requested_at is None:
        raise invalid(f"{at}.cancel_requested_at", "must be set for a cancelled task")
    if task.cancel_requested_at is not None and task.state not in ("active", "cancelled"):
        raise invalid(f"{at}.cancel_requested_at", f"must be null in state {task.state}")
    if task.workflow_activation_id is not None:
        if task.workflow_activation_id != task.task_id:
            raise invalid(f"{at}.workflow_activation_id", "must equal task_id")
        if task.workflow_id is None:
            raise invalid(f"{at}.workflow_id", "is missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """Status and outcome; the outcome is None exactly until the task is terminal (TASK-060…064)."""

    task: TaskStatus
    outcome: TaskOutcome | None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            task = f.required("task", TaskStatus.from_json)
            depth = DATA_DEPTH if task.workflow_activation_id is None else CONTROLLER_OUTPUT_DEPTH
            result = cls(task=task, outcome=f.present("outcome", task_outcome_from_json, max_depth=depth))
        result.check(at)
        return result

    def check(self, at: str = "body") -> None:
        """Refuses an outcome that does not go with the status."""
        if (self.outcome is None) != (self.task.state not in TERMINAL):
            raise invalid(f"{at}.outcome", "must be null exactly until the task is terminal")
        if self.outcome is None:
            return
        if outcome_state(self.outcome) != self.task.state:
            raise invalid(f"{at}.outcome.kind", "must equal task.state")
        named = None if isinstance(self.outcome, Cancelled) else self.outcome.attempt_id
        if named is not None and named != self.task.latest_attempt_id:
            raise invalid(f"{at}.outcome.attempt_id", "must equal task.latest_attempt_id")

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "task": self.task.to_json(),
            "outcome": None if self.outcome is None else task_outcome_to_json(self.outcome),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRecord:
    """One transition of a task; sequences start at 1 and have no gaps (TASK-132)."""

    sequence: int
    task_id: str
    attempt_id: str | None
    at: int
    reason: HistoryReason

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            sequence = f.required("sequence", u64)
            with Fields(f.raw("event"), f"{at}.event") as event:
                return cls(
                    sequence=sequence,
                    task_id=event.required("task_id", identifier),
                    attempt_id=event.present("attempt_id", identifier),
                    at=event.required("at", timestamp),
                    reason=event.required("reason", history_reason),
                )

    def to_json(self) -> dict[str, JsonValue]:
        event: dict[str, JsonValue] = {
            "task_id": self.task_id,
            "attempt_id": self.attempt_id,
            "at": self.at,
            "reason": self.reason,
        }
        return {"sequence": self.sequence, "event": event}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPage:
    """One page of the task list, newest first (DISC-009, DISC-012); the cursor is opaque text (DISC-024, DISC-027)."""

    items: tuple[TaskStatus, ...]
    next_cursor: str | None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                items=f.required("items", each, 0, TASK_PAGE, TaskStatus.from_json),
                next_cursor=f.present("next_cursor", identifier, CURSOR_BYTES),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {"items": [item.to_json() for item in self.items], "next_cursor": self.next_cursor}
