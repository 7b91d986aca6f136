"""Renewal, settlement and the attempt as it stands (chapters 06 and 07); sessions and reports beside them."""

from dataclasses import dataclass
from typing import Self

from protocol3.contract.application import too_large
from protocol3.contract.cloudevents import invocation_event
from protocol3.contract.fields import Fields, boolean
from protocol3.contract.limits import SETTLEMENT_BODY_BYTES
from protocol3.contract.models.common import Descriptor, LeaseOwner, TraceContext, u64
from protocol3.contract.models.outcomes import ExecutionError, ProgramError
from protocol3.contract.models.reports import (
    CompletedReport,
    FailedReport,
    Observations,
    ObservedStep,
    Report,
    ReportIdentity,
    ReportOutcome,
    Success,
    report_from_json,
    report_to_json,
)
from protocol3.contract.models.sessions import (
    AcquireAssigned,
    AcquireCommand,
    AcquireEmpty,
    AcquireOwnershipLost,
    AcquireReply,
    Assignment,
    Authority,
    ExtendSession,
    Lease,
    OpenSession,
    WorkerSession,
    acquire_reply_from_json,
)
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue, compact_size, digest
from protocol3.contract.text import identifier
from protocol3.contract.timestamps import timestamp
from protocol3.contract.vocabulary import (
    AttemptState,
    Quiescence,
    RenewalIntent,
    TaskState,
    attempt_state,
    quiescence,
    renewal_intent,
    task_state,
)

__all__ = [
    "AcquireAssigned",
    "AcquireCommand",
    "AcquireEmpty",
    "AcquireOwnershipLost",
    "AcquireReply",
    "Assignment",
    "AttemptSnapshot",
    "Authority",
    "CompletedReport",
    "ExecutionError",
    "ExtendSession",
    "FailedReport",
    "Lease",
    "Observations",
    "ObservedStep",
    "OpenSession",
    "ProgramError",
    "RenewCommand",
    "Report",
    "ReportIdentity",
    "ReportOutcome",
    "SettleCommand",
    "SettleReply",
    "Settlement",
    "SettlementReceipt",
    "Success",
    "WorkerSession",
    "acquire_reply_from_json",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewCommand:
    """One renewal; its sequence starts at 1 with each attempt (DLV-068). Equal commands are the same (`==`)."""

    owner: LeaseOwner
    sequence: int
    intent: RenewalIntent

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                owner=f.required("owner", LeaseOwner.from_json),
                sequence=f.required("sequence", u64),
                intent=f.required("intent", renewal_intent),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {"owner": self.owner.to_json(), "sequence": self.sequence, "intent": self.intent}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleCommand:
    """The report of an attempt, sent by its owner.

    `from_json` is step 1 of chapter 07, Order of decision. The texts of `processing_trace` (step 4) and the size (step
    5) are judged after the owner, so the operation calls `check_trace` and `check_size` in their turn.
    """

    owner: LeaseOwner
    operation_id: str
    report: Report
    quiescence: Quiescence
    processing_trace: TraceContext | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                owner=f.required("owner", LeaseOwner.from_json),
                operation_id=f.required("operation_id", identifier),
                report=f.required("report", report_from_json),
                quiescence=f.required("quiescence", quiescence),
                processing_trace=f.nullable("processing_trace", TraceContext.shaped),
            )

    def check_trace(self, at: str = "body") -> None:
        """Refuses a `processing_trace` outside TRC-001…004 (TRC-016)."""
        if self.processing_trace is not None:
            self.processing_trace.check(f"{at}.processing_trace")

    def check_size(self, at: str = "body") -> None:
        """Refuses a command above 8 MiB of compact JSON, a null trace not counted (JSON-067, LIM-011)."""
        command = self.to_json()
        if self.processing_trace is None:
            del command["processing_trace"]
        if compact_size(command) > SETTLEMENT_BODY_BYTES:
            raise too_large(at, SETTLEMENT_BODY_BYTES)

    def identity(self) -> bytes:
        """Digest of the stored form: equal exactly for commands that replay each other (DLV-074, DLV-076)."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, JsonValue]:
        """The stored form: `processing_trace` always there, other absent members omitted (chapter 06, Attempt).

        TASK-222.
        """
        return {
            "owner": self.owner.to_json(),
            "operation_id": self.operation_id,
            "report": report_to_json(self.report),
            "quiescence": self.quiescence,
            "processing_trace": None if self.processing_trace is None else self.processing_trace.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementReceipt:
    """Proof of acceptance, the same in every replay (DLV-074)."""

    operation_id: str
    task_id: str
    attempt_id: str
    accepted_at: int

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                operation_id=f.required("operation_id", identifier),
                task_id=f.required("task_id", identifier),
                attempt_id=f.required("attempt_id", identifier),
                accepted_at=f.required("accepted_at", timestamp),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "operation_id": self.operation_id,
            "task_id": self.task_id,
            "attempt_id": self.attempt_id,
            "accepted_at": self.accepted_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleReply:
    """Receipt and the task's current state (DLV-074, DLV-085)."""

    receipt: SettlementReceipt
    already_accepted: bool
    task_state: TaskState

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                receipt=f.required("receipt", SettlementReceipt.from_json),
                already_accepted=f.required("already_accepted", boolean),
                task_state=f.required("task_state", task_state),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "receipt": self.receipt.to_json(),
            "already_accepted": self.already_accepted,
            "task_state": self.task_state,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """An accepted command, never rewritten (DLV-086), and its receipt."""

    command: SettleCommand
    receipt: SettlementReceipt

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                command=f.required("command", SettleCommand.from_json),
                receipt=f.required("receipt", SettlementReceipt.from_json),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {"command": self.command.to_json(), "receipt": self.receipt.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSnapshot:
    """One attempt as it stands (chapter 06, Attempt); `deadline` ends user work, `authority_deadline` any lease."""

    event: dict[str, JsonValue]
    descriptor: Descriptor
    lease: Lease
    deadline: int
    authority_deadline: int
    state: AttemptState
    execution_may_have_started: bool
    last_renewal: RenewCommand | None
    quiescence: Quiescence
    settlement: Settlement | None
    finished_at: int | None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            snapshot = cls(
                event=f.required("event", invocation_event),
                descriptor=f.required("descriptor", Descriptor.from_json),
                lease=f.required("lease", Lease.from_json),
                deadline=f.required("deadline", timestamp),
                authority_deadline=f.required("authority_deadline", timestamp),
                state=f.required("state", attempt_state),
                execution_may_have_started=f.required("execution_may_have_started", boolean),
                last_renewal=f.present("last_renewal", RenewCommand.from_json),
                quiescence=f.required("quiescence", quiescence),
                settlement=f.present("settlement", Settlement.from_json),
                finished_at=f.present("finished_at", timestamp),
            )
        snapshot.check(at)
        return snapshot

    def check(self, at: str = "body") -> None:
        """Refuses a snapshot whose members contradict each other (TASK-067…069)."""
        if (self.finished_at is None) != (self.state == "active"):
            raise invalid(f"{at}.finished_at", "must be null exactly while the attempt is active")
        if self.quiescence == "confirmed" and self.settlement is None:
            raise invalid(f"{at}.settlement", "must be set once quiescence is confirmed")
        if self.state == "lost" and self.quiescence != "unconfirmed":
            raise invalid(f"{at}.quiescence", "must be unconfirmed for a lost attempt")

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "event": self.event,
            "descriptor": self.descriptor.to_json(),
            "lease": self.lease.to_json(),
            "deadline": self.deadline,
            "authority_deadline": self.authority_deadline,
            "state": self.state,
            "execution_may_have_started": self.execution_may_have_started,
            "last_renewal": None if self.last_renewal is None else self.last_renewal.to_json(),
            "quiescence": self.quiescence,
            "settlement": None if self.settlement is None else self.settlement.to_json(),
            "finished_at": self.finished_at,
        }
