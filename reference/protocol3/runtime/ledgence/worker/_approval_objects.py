"""Approval data: what is asked for, and what was observed (HLP-082 … HLP-084)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ._calls import Function, callable_name, effective_arguments
from ._checks import fields, free_text, integer, members, one_of, text
from ._errors import WorkflowError
from ._exact import canonical, copy
from ._limits import (
    ACTION_BYTES,
    CALLABLE_BYTES,
    FREE_TEXT_BYTES,
    INTEGER_MAX,
    MAX_TIMESTAMP_MS,
    MAX_WAIT_DURATION_MS,
    PROPOSED_ARGUMENTS_BYTES,
    RUNTIME_DEPTH,
)

_ACTION = members("name version arguments")
_SCOPE = members("tenant_id namespace")
_DECISION = members("decision_id decision reviewer reason decided_at")
_APPROVAL = members(
    "scope workflow_id key activation_id revision action proposed_arguments created_at deadline status decision"
    " resumed_activation_id"
)
_VERDICTS = {"approved": "approve", "rejected": "reject"}


class ApprovalStatus(StrEnum):
    """State of an approval; a workflow never resumes from a pending or cancelled one (HLP-024)."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, init=False)
class ApprovalAction:
    """What a reviewer decides on: at most 32 KiB of compact JSON, arguments alone and all together (HLP-082)."""

    _encoded: bytes

    def __init__(self, name: str, *, version: str, arguments: dict[str, Any]) -> None:
        encoded = encode_action({"name": name, "version": version, "arguments": arguments}, "action")
        object.__setattr__(self, "_encoded", encoded)

    @classmethod
    def for_callable(cls, fn: Function, *, version: str, arguments: dict[str, Any]) -> ApprovalAction:
        """The action that `approved_local(fn, version=version)` will run (HLP-083)."""
        return cls(callable_name(fn), version=version, arguments=effective_arguments(fn, arguments))

    @property
    def name(self) -> str:
        return str(copy(self._encoded)["name"])

    @property
    def version(self) -> str:
        return str(copy(self._encoded)["version"])

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(copy(self._encoded)["arguments"])

    def to_dict(self) -> dict[str, Any]:
        return dict(copy(self._encoded))


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """`decision` is `approve` or `reject`; `decided_at` is in Unix milliseconds."""

    decision_id: str
    decision: str
    reviewer: str
    reason: str | None
    decided_at: int


@dataclass(frozen=True, slots=True)
class Approval:
    """A checked observation; times are Unix milliseconds, every getter returns a copy (HLP-084)."""

    _encoded: bytes

    @property
    def status(self) -> ApprovalStatus:
        return ApprovalStatus(self.to_dict()["status"])

    @property
    def action(self) -> ApprovalAction:
        return accepted_action(self.to_dict()["action"])

    @property
    def key(self) -> str:
        return str(self.to_dict()["key"])

    @property
    def scope(self) -> dict[str, str]:
        return dict(self.to_dict()["scope"])

    @property
    def workflow_id(self) -> str:
        return str(self.to_dict()["workflow_id"])

    @property
    def activation_id(self) -> str:
        return str(self.to_dict()["activation_id"])

    @property
    def revision(self) -> int:
        return int(self.to_dict()["revision"])

    @property
    def resumed_activation_id(self) -> str | None:
        resumed: str | None = self.to_dict()["resumed_activation_id"]
        return resumed

    @property
    def decision(self) -> ApprovalDecision | None:
        decision = self.to_dict()["decision"]
        return None if decision is None else ApprovalDecision(**decision)

    @property
    def proposed_arguments(self) -> dict[str, Any] | None:
        proposed: dict[str, Any] | None = self.to_dict()["proposed_arguments"]
        return proposed

    @property
    def created_at(self) -> int:
        return int(self.to_dict()["created_at"])

    @property
    def deadline(self) -> int:
        return int(self.to_dict()["deadline"])

    def to_dict(self) -> dict[str, Any]:
        return dict(copy(self._encoded))


def accepted_action(action: dict[str, Any]) -> ApprovalAction:
    """The action of an approval that the server has accepted, whatever our own float text makes of its size."""
    accepted = object.__new__(ApprovalAction)
    object.__setattr__(accepted, "_encoded", encode_action(action, "action", accepted=True))
    return accepted


def encode_action(action: object, what: str, *, accepted: bool = False) -> bytes:
    """Canonical text of an action given as a dict. Raises WorkflowError."""
    item = fields(action, what, _ACTION)
    text(item["name"], f"{what}.name", CALLABLE_BYTES)
    text(item["version"], f"{what}.version")
    check_arguments(item["arguments"], f"{what}.arguments", ACTION_BYTES, accepted=accepted)
    return canonical(item, what, limit=ACTION_BYTES, depth=RUNTIME_DEPTH, accepted=accepted)


def check_arguments(arguments: object, what: str, limit: int, *, accepted: bool = False) -> None:
    """Raise WorkflowError unless this is an object of at most `limit` bytes."""
    if type(arguments) is not dict:
        raise WorkflowError(f"{what}: not an object")
    canonical(arguments, what, limit=limit, accepted=accepted)


def check_approval(approval: object, what: str) -> dict[str, Any]:
    """Raise WorkflowError unless the table of chapter 23 holds; returns the object (HLP-146)."""
    item = fields(approval, what, _APPROVAL)
    for name, value in fields(item["scope"], f"{what}.scope", _SCOPE).items():
        text(value, f"{what}.scope.{name}")
    for name in ("workflow_id", "key", "activation_id"):
        text(item[name], f"{what}.{name}")
    integer(item["revision"], f"{what}.revision", 0, INTEGER_MAX)
    encode_action(item["action"], f"{what}.action", accepted=True)
    if item["proposed_arguments"] is not None:
        check_arguments(
            item["proposed_arguments"], f"{what}.proposed_arguments", PROPOSED_ARGUMENTS_BYTES, accepted=True
        )
    created = integer(item["created_at"], f"{what}.created_at", 0, MAX_TIMESTAMP_MS)
    last = min(created + MAX_WAIT_DURATION_MS, MAX_TIMESTAMP_MS)
    integer(item["deadline"], f"{what}.deadline", created, last)
    status = one_of(item["status"], f"{what}.status", frozenset(ApprovalStatus))
    _check_decision(item, status, what)
    _check_resumed(item, status, what)
    return item


def _check_decision(item: dict[str, Any], status: str, what: str) -> None:
    if status not in _VERDICTS:
        if item["decision"] is not None:
            raise WorkflowError(f"{what}.decision: status {status} has none")
        return
    decision = fields(item["decision"], f"{what}.decision", _DECISION)
    text(decision["decision_id"], f"{what}.decision.decision_id")
    one_of(decision["decision"], f"{what}.decision.decision", frozenset([_VERDICTS[status]]))
    text(decision["reviewer"], f"{what}.decision.reviewer")
    if decision["reason"] is not None:
        free_text(decision["reason"], f"{what}.decision.reason", FREE_TEXT_BYTES)
    integer(decision["decided_at"], f"{what}.decision.decided_at", item["created_at"], item["deadline"] - 1)


def _check_resumed(item: dict[str, Any], status: str, what: str) -> None:
    resumed = item["resumed_activation_id"]
    if resumed is None:
        return
    text(resumed, f"{what}.resumed_activation_id")
    if status in ("pending", "cancelled") or resumed == item["activation_id"]:
        raise WorkflowError(f"{what}.resumed_activation_id: this approval resumed no such activation")
