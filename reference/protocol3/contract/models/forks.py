"""Forks: branches of the running controller as workflows of their own (chapter 14)."""

from dataclasses import dataclass
from typing import Self

from protocol3.contract.application import application_value, too_large
from protocol3.contract.fields import Fields, boolean, distinct, each, present
from protocol3.contract.limits import BRANCHES, DEFAULT_ATTEMPT_TIMEOUT_MS, FORK_REQUEST_BYTES
from protocol3.contract.models.common import (
    DEFAULT_RETRY_POLICY,
    LeaseOwner,
    ProgramRef,
    RetryPolicy,
    Scope,
    TraceContext,
    execution_settings,
)
from protocol3.contract.models.submission import SubmitInput
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue, compact_size, digest
from protocol3.contract.text import identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One branch, normalised; it carries no program of its own (FRK-001)."""

    key: str
    entrypoint: str
    queue: str
    data: JsonValue
    retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY
    attempt_timeout_ms: int = DEFAULT_ATTEMPT_TIMEOUT_MS

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            policy, timeout_ms = execution_settings(f)
            return cls(
                key=f.required("key", identifier),
                entrypoint=f.required("entrypoint", identifier),
                queue=f.required("queue", identifier),
                data=application_value(f.raw("data"), f"{at}.data"),
                retry_policy=policy,
                attempt_timeout_ms=timeout_ms,
            )

    def submission(self, *, scope: Scope, program: ProgramRef, correlation_key: str | None) -> SubmitInput:
        """The input of the branch's workflow; scope, program and key are the parent's (FRK-001, FRK-004)."""
        return SubmitInput(
            tenant_id=scope.tenant_id,
            namespace=scope.namespace,
            queue=self.queue,
            program=program,
            data=self.data,
            correlation_key=correlation_key,
            retry_policy=self.retry_policy,
            attempt_timeout_ms=self.attempt_timeout_ms,
        )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "key": self.key,
            "entrypoint": self.entrypoint,
            "queue": self.queue,
            "data": self.data,
            "retry_policy": self.retry_policy.to_json(),
            "attempt_timeout_ms": self.attempt_timeout_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """A fork with 1…64 branches of distinct keys, at most 128 KiB with defaults written out (FRK-010)."""

    key: str
    branches: tuple[Branch, ...]

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            request = cls(
                key=f.required("key", identifier),
                branches=f.required("branches", each, 1, BRANCHES, Branch.from_json),
            )
        distinct((branch.key for branch in request.branches), f"{at}.branches")
        if request.size() > FORK_REQUEST_BYTES:
            raise too_large(at, FORK_REQUEST_BYTES)
        return request

    def size(self) -> int:
        """Compact bytes, what the fork ledger sums (LIM-012)."""
        return compact_size(self.to_json())

    def identity(self) -> bytes:
        """Digest of the normalised request, branch order included (FRK-010, step 5)."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, JsonValue]:
        return {"key": self.key, "branches": [branch.to_json() for branch in self.branches]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkCommand:
    """A fork by its owner; `processing_trace` is no part of its identity (FRK-007).

    The compact limit of the whole command follows from those of its parts (FRK-010), so it has no check.
    """

    owner: LeaseOwner
    fork: ForkRequest
    processing_trace: TraceContext | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            command = cls(
                owner=f.required("owner", LeaseOwner.from_json),
                fork=f.required("fork", ForkRequest.from_json),
                processing_trace=f.nullable("processing_trace", TraceContext.from_json),
            )
        if command.owner.generation < 1:
            raise invalid(f"{at}.owner.generation", "must be at least 1")
        return command

    def to_json(self) -> dict[str, JsonValue]:
        return present(
            owner=self.owner.to_json(),
            fork=self.fork.to_json(),
            processing_trace=None if self.processing_trace is None else self.processing_trace.to_json(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkReceipt:
    """Acceptance of a fork; branch keys in request order (FRK-022)."""

    key: str
    branch_keys: tuple[str, ...]
    already_accepted: bool

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                key=f.required("key", identifier),
                branch_keys=f.required("branch_keys", each, 1, BRANCHES, identifier),
                already_accepted=f.required("already_accepted", boolean),
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "key": self.key,
            "branch_keys": list(self.branch_keys),
            "already_accepted": self.already_accepted,
        }
