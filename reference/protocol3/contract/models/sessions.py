"""Worker sessions and acquisitions (chapters 06 and 07)."""

from dataclasses import dataclass
from typing import Self, TypeAlias, assert_never

from protocol3.contract.cloudevents import invocation_event
from protocol3.contract.fields import Fields, boolean, integer
from protocol3.contract.limits import MAX_CONCURRENCY, MAX_WAIT_MS
from protocol3.contract.models.common import Descriptor, LeaseOwner, Scope, u32, u64
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.text import identifier
from protocol3.contract.timestamps import timestamp
from protocol3.contract.vocabulary import acquire_disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """Asks for a session of `concurrency` consumers on one scope and queue (DLV-001, DLV-002, DLV-008)."""

    scope: Scope
    queue: str
    concurrency: int

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                scope=f.required("scope", Scope.from_json),
                queue=f.required("queue", identifier),
                concurrency=f.required("concurrency", integer, 1, MAX_CONCURRENCY),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {"scope": self.scope.to_json(), "queue": self.queue, "concurrency": self.concurrency}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendSession:
    """Asks for another validity period of a session (DLV-004)."""

    worker_session_id: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(worker_session_id=f.required("worker_session_id", identifier))

    def to_json(self) -> dict[str, JsonValue]:
        return {"worker_session_id": self.worker_session_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSession:
    """A session as it stands; consumers are numbered 0…concurrency-1 (DLV-007)."""

    id: str
    scope: Scope
    queue: str
    concurrency: int
    expires_at: int

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                id=f.required("id", identifier),
                scope=f.required("scope", Scope.from_json),
                queue=f.required("queue", identifier),
                concurrency=f.required("concurrency", integer, 1, MAX_CONCURRENCY),
                expires_at=f.required("expires_at", timestamp),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "id": self.id,
            "scope": self.scope.to_json(),
            "queue": self.queue,
            "concurrency": self.concurrency,
            "expires_at": self.expires_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireCommand:
    """One poll of a consumer; `wait_ms` is no part of its identity (DLV-019) and is left out when 0."""

    scope: Scope
    queue: str
    worker_session_id: str
    consumer_id: int
    sequence: int
    wait_ms: int = 0

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                scope=f.required("scope", Scope.from_json),
                queue=f.required("queue", identifier),
                worker_session_id=f.required("worker_session_id", identifier),
                consumer_id=f.required("consumer_id", u32),
                sequence=f.required("sequence", u64),
                wait_ms=f.optional("wait_ms", 0, integer, 0, MAX_WAIT_MS),
            )

    def to_json(self) -> dict[str, JsonValue]:
        members: dict[str, JsonValue] = {
            "scope": self.scope.to_json(),
            "queue": self.queue,
            "worker_session_id": self.worker_session_id,
            "consumer_id": self.consumer_id,
            "sequence": self.sequence,
        }
        return members | {"wait_ms": self.wait_ms} if self.wait_ms else members


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who holds the attempt, and until when."""

    owner: LeaseOwner
    expires_at: int

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(owner=f.required("owner", LeaseOwner.from_json), expires_at=f.required("expires_at", timestamp))

    def to_json(self) -> dict[str, JsonValue]:
        return {"owner": self.owner.to_json(), "expires_at": self.expires_at}


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """What the owner may do from now on; remaining times in milliseconds (chapter 07, Authority)."""

    owner: LeaseOwner
    expires_at: int
    remaining_ms: int
    execution_remaining_ms: int
    renew_sequence: int
    cancel_requested: bool
    dispatch_allowed: bool

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                owner=f.required("owner", LeaseOwner.from_json),
                expires_at=f.required("expires_at", timestamp),
                remaining_ms=f.required("remaining_ms", u64),
                execution_remaining_ms=f.required("execution_remaining_ms", u64),
                renew_sequence=f.required("renew_sequence", u64),
                cancel_requested=f.required("cancel_requested", boolean),
                dispatch_allowed=f.required("dispatch_allowed", boolean),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "owner": self.owner.to_json(),
            "expires_at": self.expires_at,
            "remaining_ms": self.remaining_ms,
            "execution_remaining_ms": self.execution_remaining_ms,
            "renew_sequence": self.renew_sequence,
            "cancel_requested": self.cancel_requested,
            "dispatch_allowed": self.dispatch_allowed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """An attempt handed to a consumer; `workflow_activation_id` only for controller tasks (ACT-010)."""

    descriptor: Descriptor
    event: dict[str, JsonValue]
    lease: Lease
    authority: Authority
    attempt_deadline: int
    workflow_activation_id: str | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            assignment = cls(
                descriptor=f.required("descriptor", Descriptor.from_json),
                event=f.required("event", invocation_event),
                lease=f.required("lease", Lease.from_json),
                authority=f.required("authority", Authority.from_json),
                attempt_deadline=f.required("attempt_deadline", timestamp),
                workflow_activation_id=f.optional("workflow_activation_id", None, identifier),
            )
        assignment.check(at)
        return assignment

    def check(self, at: str = "body") -> None:
        """Refuses an assignment whose parts name different attempts (DLV-040, ACT-010)."""
        owner = self.lease.owner
        if self.authority.owner != owner or self.authority.expires_at != self.lease.expires_at:
            raise invalid(f"{at}.authority", "must repeat the lease")
        named = {
            "ldgtenantid": owner.scope.tenant_id,
            "ldgnamespace": owner.scope.namespace,
            "ldgtaskid": owner.task_id,
            "ldgattemptid": owner.attempt_id,
            "ldgattemptno": owner.generation,
        }
        for name, expected in named.items():
            if self.event[name] != expected:
                raise invalid(f"{at}.event.{name}", "must equal the lease owner's")
        if self.workflow_activation_id != self.event.get("ldgactivationid"):
            raise invalid(f"{at}.workflow_activation_id", "must equal the event's ldgactivationid")

    def to_json(self) -> dict[str, JsonValue]:
        members: dict[str, JsonValue] = {
            "descriptor": self.descriptor.to_json(),
            "event": self.event,
            "lease": self.lease.to_json(),
            "authority": self.authority.to_json(),
            "attempt_deadline": self.attempt_deadline,
        }
        if self.workflow_activation_id is not None:
            members["workflow_activation_id"] = self.workflow_activation_id
        return members


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireEmpty:
    """The sequence is complete and brought no work (DLV-012)."""

    sequence: int

    def to_json(self) -> dict[str, JsonValue]:
        return {"disposition": "empty", "sequence": self.sequence}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireAssigned:
    """The sequence brought an attempt that is still live (DLV-013)."""

    sequence: int
    assignment: Assignment

    def to_json(self) -> dict[str, JsonValue]:
        return {"disposition": "assigned", "sequence": self.sequence, "assignment": self.assignment.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AcquireOwnershipLost:
    """The sequence brought an attempt that is not live any more (DLV-014)."""

    sequence: int
    task_id: str
    attempt_id: str

    def to_json(self) -> dict[str, JsonValue]:
        assignment: dict[str, JsonValue] = {"task_id": self.task_id, "attempt_id": self.attempt_id}
        return {"disposition": "ownership_lost", "sequence": self.sequence, "assignment": assignment}


AcquireReply: TypeAlias = AcquireEmpty | AcquireAssigned | AcquireOwnershipLost


def acquire_reply_from_json(value: JsonValue, at: str = "body") -> AcquireReply:
    """The reply to a poll, by its `disposition`."""
    with Fields(value, at) as f:
        disposition = f.required("disposition", acquire_disposition)
        sequence = f.required("sequence", u64)
        match disposition:
            case "empty":
                return AcquireEmpty(sequence=sequence)
            case "assigned":
                return AcquireAssigned(sequence=sequence, assignment=f.required("assignment", Assignment.from_json))
            case "ownership_lost":
                with Fields(f.raw("assignment"), f"{at}.assignment") as lost:
                    return AcquireOwnershipLost(
                        sequence=sequence,
                        task_id=lost.required("task_id", identifier),
                        attempt_id=lost.required("attempt_id", identifier),
                    )
            case other:
                assert_never(other)
