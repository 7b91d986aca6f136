"""Submission of a task or a workflow (chapters 06 and 09)."""

from dataclasses import dataclass
from typing import Self

from protocol3.contract.application import application_value
from protocol3.contract.fields import Fields, present
from protocol3.contract.limits import DATA_BYTES, DEFAULT_ATTEMPT_TIMEOUT_MS, IDEMPOTENCY_KEY_BYTES
from protocol3.contract.models.common import (
    DEFAULT_RETRY_POLICY,
    ProgramRef,
    RetryPolicy,
    Scope,
    TraceContext,
    execution_settings,
)
from protocol3.contract.strict_json import JsonValue, digest
from protocol3.contract.text import correlation, identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitInput:
    """What is to run, normalised: defaults written out, no correlation key is None (JSON-045).

    Queues exist by being named (TASK-115), and a correlation key is only a label (TASK-114).
    """

    tenant_id: str
    namespace: str
    queue: str
    program: ProgramRef
    data: JsonValue
    correlation_key: str | None = None
    retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY
    attempt_timeout_ms: int = DEFAULT_ATTEMPT_TIMEOUT_MS

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            policy, timeout_ms = execution_settings(f)
            return cls(
                tenant_id=f.required("tenant_id", identifier),
                namespace=f.required("namespace", identifier),
                queue=f.required("queue", identifier),
                program=f.required("program", ProgramRef.from_json),
                data=application_value(f.raw("data"), f"{at}.data", max_bytes=DATA_BYTES),  # TASK-113, JSON-060
                correlation_key=f.nullable("correlation_key", correlation),
                retry_policy=policy,
                attempt_timeout_ms=timeout_ms,
            )

    @property
    def scope(self) -> Scope:
        return Scope(tenant_id=self.tenant_id, namespace=self.namespace)

    def identity(self) -> bytes:
        """Digest of the normalised input: equal exactly for submissions that replay each other (TASK-104…107)."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, JsonValue]:
        """TASK-213."""
        members: dict[str, JsonValue] = {
            "tenant_id": self.tenant_id,
            "namespace": self.namespace,
            "queue": self.queue,
            "program": self.program.to_json(),
            "data": self.data,
        }
        if self.correlation_key is not None:
            members["correlation_key"] = self.correlation_key
        members["retry_policy"] = self.retry_policy.to_json()
        members["attempt_timeout_ms"] = self.attempt_timeout_ms
        return members


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitCommand:
    """Submission of a task or of a workflow; `origin_trace` is no part of its identity (TASK-108, WF-014).

    It is judged all the same, before anything is looked up (TASK-111, TRC-010).
    """

    idempotency_key: str
    input: SubmitInput
    origin_trace: TraceContext | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                idempotency_key=f.required("idempotency_key", identifier, IDEMPOTENCY_KEY_BYTES),
                input=f.required("input", SubmitInput.from_json),
                origin_trace=f.nullable("origin_trace", TraceContext.from_json),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return present(
            idempotency_key=self.idempotency_key,
            input=self.input.to_json(),
            origin_trace=None if self.origin_trace is None else self.origin_trace.to_json(),
        )
