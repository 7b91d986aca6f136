"""Messages of workflows: snapshot, result, events; activations and forks beside them (chapters 09 and 15)."""

from dataclasses import dataclass
from typing import Final, Self

from protocol3.contract import query
from protocol3.contract.cloudevents import external_event
from protocol3.contract.fields import Fields, boolean, present
from protocol3.contract.limits import EVENT_SOURCE_BYTES
from protocol3.contract.models.activations import (
    ActivationContext,
    ChildResult,
    EventWake,
    LocalRecord,
    LocalResultCommand,
    LocalResultReceipt,
    TaskChildResult,
    TimeoutWake,
    TimerWake,
    Wake,
    WorkflowChildResult,
    inputs_bytes,
    ledger_bytes,
)
from protocol3.contract.models.common import Scope, check_lineage, u64
from protocol3.contract.models.forks import Branch, ForkCommand, ForkReceipt, ForkRequest
from protocol3.contract.models.outcomes import (
    WorkflowOutcome,
    outcome_state,
    workflow_outcome_from_json,
    workflow_outcome_to_json,
)
from protocol3.contract.models.queries import scope_of
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue, compact_size, digest
from protocol3.contract.text import correlation, identifier
from protocol3.contract.timestamps import timestamp
from protocol3.contract.vocabulary import TERMINAL, WorkflowState, workflow_state

__all__ = [
    "ActivationContext",
    "Branch",
    "ChildResult",
    "EventCommand",
    "EventReceipt",
    "EventWake",
    "ForkCommand",
    "ForkReceipt",
    "ForkRequest",
    "LocalRecord",
    "LocalResultCommand",
    "LocalResultReceipt",
    "TaskChildResult",
    "TimeoutWake",
    "TimerWake",
    "Wake",
    "WorkflowChildResult",
    "WorkflowRef",
    "WorkflowResult",
    "WorkflowSnapshot",
    "inputs_bytes",
    "ledger_bytes",
]

_WORKFLOW: Final = frozenset({"tenant_id", "namespace", "workflow_id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRef:
    """Names one workflow: the body of cancel, the query of status and result."""

    scope: Scope
    workflow_id: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(scope=f.required("scope", Scope.from_json), workflow_id=f.required("workflow_id", identifier))

    @classmethod
    def from_query(cls, raw: str | bytes) -> Self:
        given = query.fields(raw, _WORKFLOW)
        return cls(scope=scope_of(given), workflow_id=identifier(given["workflow_id"], "query.workflow_id"))

    def to_json(self) -> dict[str, JsonValue]:
        return {"scope": self.scope.to_json(), "workflow_id": self.workflow_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSnapshot:
    """The workflow as it stands; roots omit parent and root (WF-030…034)."""

    workflow_id: str
    scope: Scope
    state: WorkflowState
    revision: int
    activation_id: str | None
    submitted_at: int
    terminal_at: int | None
    correlation_key: str | None
    parent_workflow_id: str | None = None
    root_workflow_id: str | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            snapshot = cls(
                workflow_id=f.required("workflow_id", identifier),
                scope=f.required("scope", Scope.from_json),
                state=f.required("state", workflow_state),
                revision=f.required("revision", u64),
                activation_id=f.present("activation_id", identifier),
                submitted_at=f.required("submitted_at", timestamp),
                terminal_at=f.present("terminal_at", timestamp),
                correlation_key=f.present("correlation_key", correlation),
                parent_workflow_id=f.optional("parent_workflow_id", None, identifier),
                root_workflow_id=f.optional("root_workflow_id", None, identifier),
            )
        snapshot.check(at)
        return snapshot

    def check(self, at: str = "body") -> None:
        """Refuses a snapshot whose members contradict each other (WF-030…032)."""
        if (self.terminal_at is not None) != (self.state in TERMINAL):
            raise invalid(f"{at}.terminal_at", "must be set exactly in a terminal state")
        if self.terminal_at is not None and self.terminal_at < self.submitted_at:
            raise invalid(f"{at}.terminal_at", "must not be before submitted_at")
        if self.state == "running" and self.activation_id is None:
            raise invalid(f"{at}.activation_id", "must be set while the workflow is running")
        if self.activation_id is not None and (self.state == "waiting" or self.state in TERMINAL):
            raise invalid(f"{at}.activation_id", f"must be null in state {self.state}")
        check_lineage(at, self.workflow_id, self.parent_workflow_id, self.root_workflow_id)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "workflow_id": self.workflow_id,
            "scope": self.scope.to_json(),
            "state": self.state,
            "revision": self.revision,
            "activation_id": self.activation_id,
            "submitted_at": self.submitted_at,
            "terminal_at": self.terminal_at,
            "correlation_key": self.correlation_key,
            **present(parent_workflow_id=self.parent_workflow_id, root_workflow_id=self.root_workflow_id),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowResult:
    """Snapshot and outcome; the outcome is None exactly until the workflow is terminal (WF-040, WF-066)."""

    workflow: WorkflowSnapshot
    outcome: WorkflowOutcome | None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            result = cls(
                workflow=f.required("workflow", WorkflowSnapshot.from_json),
                outcome=f.present("outcome", workflow_outcome_from_json),
            )
        result.check(at)
        return result

    def check(self, at: str = "body") -> None:
        """Refuses an outcome that does not go with the snapshot."""
        if (self.outcome is None) != (self.workflow.state not in TERMINAL):
            raise invalid(f"{at}.outcome", "must be null exactly until the workflow is terminal")
        if self.outcome is not None and outcome_state(self.outcome) != self.workflow.state:
            raise invalid(f"{at}.outcome.kind", "must equal workflow.state")

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "workflow": self.workflow.to_json(),
            "outcome": None if self.outcome is None else workflow_outcome_to_json(self.outcome),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCommand:
    """An external event for one wait key, kept as it came (EVT-001); its first three members route it (EVT-003).

    The compact limit of the whole command (JSON-064) follows from those of its parts (JSON-063, TXT-001).
    """

    scope: Scope
    workflow_id: str
    key: str
    event: dict[str, JsonValue]

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                scope=f.required("scope", Scope.from_json),
                workflow_id=f.required("workflow_id", identifier),
                key=f.required("key", identifier),
                event=f.required("event", external_event),
            )

    @property
    def event_id(self) -> str:
        return str(self.event["id"])

    @property
    def event_source(self) -> str:
        return str(self.event["source"])

    def event_size(self) -> int:
        """Compact bytes of the event in our own spelling, what the inbox sums (LIM-012, EVT-005)."""
        return compact_size(self.event)

    def identity(self) -> bytes:
        """Digest of key and event: equal exactly for a replay within one workflow (EVT-011)."""
        return digest({"key": self.key, "event": self.event})

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "scope": self.scope.to_json(),
            "workflow_id": self.workflow_id,
            "key": self.key,
            "event": self.event,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReceipt:
    """Durable acceptance of an event, the same in every replay but for `already_accepted` (EVT-012, EVT-023)."""

    scope: Scope
    workflow_id: str
    key: str
    event_id: str
    event_source: str
    accepted_at: int
    already_accepted: bool

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                scope=f.required("scope", Scope.from_json),
                workflow_id=f.required("workflow_id", identifier),
                key=f.required("key", identifier),
                event_id=f.required("event_id", identifier),
                event_source=f.required("event_source", identifier, EVENT_SOURCE_BYTES),
                accepted_at=f.required("accepted_at", timestamp),
                already_accepted=f.required("already_accepted", boolean),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "scope": self.scope.to_json(),
            "workflow_id": self.workflow_id,
            "key": self.key,
            "event_id": self.event_id,
            "event_source": self.event_source,
            "accepted_at": self.accepted_at,
            "already_accepted": self.already_accepted,
        }
