"""Objects that many messages share: scope, program, descriptor, retry policy, trace carrier, lease owner, error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from protocol3.contract.fields import Fields, integer, present
from protocol3.contract.limits import (
    DEFAULT_ATTEMPT_TIMEOUT_MS,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_RETRY_DELAY_MS,
    INTEGER_MAX,
    MAX_ATTEMPT_TIMEOUT_MS,
    MAX_ATTEMPTS,
    MAX_RETRY_DELAY_MS,
    MIN_ATTEMPT_TIMEOUT_MS,
    U32_MAX,
    U64_MAX,
)
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.text import digest, free_text, identifier, program_name, string
from protocol3.contract.trace import is_traceparent, is_tracestate, join_headers


def u32(value: JsonValue, at: str) -> int:
    """An integer token 0…2^32-1."""
    return integer(value, at, 0, U32_MAX)


def u64(value: JsonValue, at: str) -> int:
    """An integer token 0…2^64-1."""
    return integer(value, at, 0, U64_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Tenant and namespace, an exact-match boundary (TASK-050)."""

    tenant_id: str
    namespace: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(tenant_id=f.required("tenant_id", identifier), namespace=f.required("namespace", identifier))

    def to_json(self) -> dict[str, JsonValue]:
        return {"tenant_id": self.tenant_id, "namespace": self.namespace}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRef:
    """The name of a published program (TXT-005)."""

    id: str
    version: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(id=f.required("id", program_name), version=f.required("version", program_name))

    def to_json(self) -> dict[str, JsonValue]:
        return {"id": self.id, "version": self.version}


@dataclass(frozen=True, slots=True, kw_only=True)
class Descriptor:
    """A program resolved to its archive: `digest` as TXT-006, `size` in bytes, at least 1 (CLI-056)."""

    program: ProgramRef
    digest: str
    size: int

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                program=f.required("program", ProgramRef.from_json),
                digest=f.required("digest", digest),
                size=f.required("size", integer, 1, INTEGER_MAX),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {"program": self.program.to_json(), "digest": self.digest, "size": self.size}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Attempts in all, the first included, and the milliseconds between two of them (DLV-116, DLV-118)."""

    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    retry_delay_ms: int = DEFAULT_RETRY_DELAY_MS

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                max_attempts=f.required("max_attempts", integer, 1, MAX_ATTEMPTS),
                retry_delay_ms=f.required("retry_delay_ms", integer, 0, MAX_RETRY_DELAY_MS),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {"max_attempts": self.max_attempts, "retry_delay_ms": self.retry_delay_ms}


DEFAULT_RETRY_POLICY: Final = RetryPolicy()


def execution_settings(fields: Fields) -> tuple[RetryPolicy, int]:
    """`retry_policy` and `attempt_timeout_ms` of a submission, child or branch, with their defaults (JSON-045).

    TASK-212.
    """
    policy = fields.optional("retry_policy", DEFAULT_RETRY_POLICY, RetryPolicy.from_json)
    timeout_ms = fields.optional(
        "attempt_timeout_ms", DEFAULT_ATTEMPT_TIMEOUT_MS, integer, MIN_ATTEMPT_TIMEOUT_MS, MAX_ATTEMPT_TIMEOUT_MS
    )
    return policy, timeout_ms


def check_lineage(at: str, workflow_id: str | None, parent: str | None, root: str | None) -> None:
    """Refuses a parent without a root, the reverse, or either equal to the workflow itself (WF-032, ACT-006)."""
    if (parent is None) != (root is None) or (parent is not None and workflow_id in (None, parent, root)):
        raise invalid(f"{at}.parent_workflow_id", "needs root_workflow_id, both other than workflow_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """A W3C carrier (TRC-001…005)."""

    traceparent: str
    tracestate: str | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        context = cls.shaped(value, at)
        context.check(at)
        return context

    @classmethod
    def shaped(cls, value: JsonValue, at: str = "body") -> Self:
        """The carrier with its members and types judged, but not yet its texts; `check` does that."""
        with Fields(value, at) as f:
            return cls(traceparent=f.required("traceparent", string), tracestate=f.nullable("tracestate", string))

    @classmethod
    def from_headers(cls, traceparents: Sequence[str], tracestates: Sequence[str]) -> Self | None:
        """The carrier of transport headers, or None; never a refusal (TRC-011…013)."""
        carrier = join_headers(traceparents, tracestates)
        return None if carrier is None else cls(traceparent=carrier[0], tracestate=carrier[1])

    @classmethod
    def of_event(cls, event: Mapping[str, JsonValue]) -> Self | None:
        """The carrier in the attributes of a valid event, or None (DLV-046, TRC-018)."""
        parent, state = event.get("traceparent"), event.get("tracestate")
        if not isinstance(parent, str):
            return None
        return cls(traceparent=parent, tracestate=state if isinstance(state, str) else None)

    def check(self, at: str = "body") -> None:
        """Refuses texts outside TRC-001…004."""
        if not is_traceparent(self.traceparent):
            raise invalid(f"{at}.traceparent", "must be a version 00 traceparent")
        if self.tracestate is not None and not is_tracestate(self.tracestate):
            raise invalid(f"{at}.tracestate", "must be a tracestate")

    def to_json(self) -> dict[str, JsonValue]:
        return present(traceparent=self.traceparent, tracestate=self.tracestate)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOwner:
    """Who holds an attempt; `generation` equals the attempt number (chapter 06)."""

    scope: Scope
    task_id: str
    attempt_id: str
    lease_id: str
    generation: int
    worker_session_id: str
    consumer_id: int

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                scope=f.required("scope", Scope.from_json),
                task_id=f.required("task_id", identifier),
                attempt_id=f.required("attempt_id", identifier),
                lease_id=f.required("lease_id", identifier),
                generation=f.required("generation", u32),
                worker_session_id=f.required("worker_session_id", identifier),
                consumer_id=f.required("consumer_id", u32),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "scope": self.scope.to_json(),
            "task_id": self.task_id,
            "attempt_id": self.attempt_id,
            "lease_id": self.lease_id,
            "generation": self.generation,
            "worker_session_id": self.worker_session_id,
            "consumer_id": self.consumer_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationError:
    """A workflow error: `kind` an identifier, `message` free text of at most 4096 bytes (chapter 04)."""

    kind: str
    message: str

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(kind=f.required("kind", identifier), message=f.required("message", free_text))

    def to_json(self) -> dict[str, JsonValue]:
        return {"kind": self.kind, "message": self.message}
