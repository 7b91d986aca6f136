"""The activation payload: tables 1.6.1 and 1.6.3 (RUN-061 … RUN-063, RUN-069, RUN-070)."""

from __future__ import annotations

from typing import Any

from . import _outcomes
from ._approval_objects import check_approval
from ._checks import fields, integer, members, text
from ._errors import WorkflowError
from ._events import check_event
from ._exact import canonical, float_allowance
from ._invocation import Invocation
from ._limits import (
    CALLABLE_BYTES,
    EVENT_BYTES,
    INPUTS,
    INPUTS_BYTES,
    INTEGER_MAX,
    LOCAL_LEDGER_BYTES,
    LOCAL_RECORD_BYTES,
    LOCAL_RECORDS,
    MAX_TIMESTAMP_MS,
    RUNTIME_DEPTH,
    STATE_BYTES,
)

SCHEMA = "ledgence.workflow.activation.v1"

_REQUIRED = members("v workflow_id activation_id revision continuation state inputs local_steps")
_OPTIONAL = members("wake parent_workflow_id root_workflow_id")
_RECORD = members("key callable input output")
_WAKES = {
    "event": members("kind key event accepted_at"),
    "timeout": members("kind key deadline"),
    "timer": members("kind key deadline"),
    "approval": members("kind approval"),
}


class Record:
    """One journal entry: callable name and canonical input, canonical output, and its share of the journal's bytes."""

    __slots__ = ("binding", "output", "size")

    def __init__(self, binding: tuple[str, bytes], output: bytes, size: int) -> None:
        self.binding = binding
        self.output = output
        self.size = size


class Activation:
    """A checked payload (RUN-062). `state`, `inputs` and `wake` are canonical texts, `records` maps keys to entries."""

    __slots__ = (
        "activation_id",
        "continuation",
        "inputs",
        "parent_workflow_id",
        "records",
        "revision",
        "root_workflow_id",
        "state",
        "wake",
        "workflow_id",
    )

    def __init__(self, payload: object) -> None:
        item = fields(payload, "payload", _REQUIRED, _OPTIONAL)
        integer(item["v"], "payload.v", 1, 1)
        self.workflow_id = text(item["workflow_id"], "payload.workflow_id")
        self.activation_id = text(item["activation_id"], "payload.activation_id")
        self.revision = integer(item["revision"], "payload.revision", 0, INTEGER_MAX)
        self.continuation = text(item["continuation"], "payload.continuation")
        self.state = canonical(item["state"], "payload.state", limit=STATE_BYTES, accepted=True)
        self.parent_workflow_id, self.root_workflow_id = self._lineage(item)
        self.records = _records(item["local_steps"])
        self.inputs = _inputs(item["inputs"])
        self.wake = self._wake(item.get("wake"))
        # The whole payload needs no bound of its own: its parts together stay below 640 KiB and 96 levels.
        if self.wake is not None:
            both = {"inputs": item["inputs"], "wake": item["wake"]}  # LIM-013
            canonical(both, "payload.inputs and wake", limit=INPUTS_BYTES, depth=RUNTIME_DEPTH, accepted=True)

    def _lineage(self, item: dict[str, Any]) -> tuple[str | None, str]:
        if not item.keys() & {"parent_workflow_id", "root_workflow_id"}:
            return None, self.workflow_id
        parent = text(item.get("parent_workflow_id"), "payload.parent_workflow_id")
        root = text(item.get("root_workflow_id"), "payload.root_workflow_id")
        if self.workflow_id in (parent, root):
            raise WorkflowError("payload: a workflow is not its own ancestor")
        return parent, root

    def _wake(self, wake: object) -> bytes | None:
        """RUN-069, HLP-042."""
        if wake is None:
            return None
        kind = wake.get("kind") if type(wake) is dict else None
        if type(kind) is not str or kind not in _WAKES:
            raise WorkflowError("payload.wake.kind: unknown")
        item = fields(wake, "payload.wake", _WAKES[kind])
        if kind == "approval":
            self._own_approval(item["approval"])
        else:
            text(item["key"], "payload.wake.key")
        if kind == "event":
            integer(item["accepted_at"], "payload.wake.accepted_at", 0, MAX_TIMESTAMP_MS)
            canonical(item["event"], "payload.wake.event", limit=EVENT_BYTES, depth=RUNTIME_DEPTH, accepted=True)
            check_event(item["event"], "payload.wake.event")
        elif kind != "approval":
            integer(item["deadline"], "payload.wake.deadline", 0, MAX_TIMESTAMP_MS)
        return canonical(item, "payload.wake", depth=RUNTIME_DEPTH)

    def _own_approval(self, approval: object) -> None:
        """RUN-070."""
        item = check_approval(approval, "payload.wake.approval")
        if item["status"] == "pending":
            raise WorkflowError("payload.wake.approval.status: still pending")
        if (item["workflow_id"], item["resumed_activation_id"]) != (self.workflow_id, self.activation_id):
            raise WorkflowError("payload.wake.approval: resumes another activation")
        if item["revision"] + 1 != self.revision:
            raise WorkflowError("payload.wake.approval.revision: not the one before this activation")


def accept(invocation: Invocation) -> Activation:
    """The activation of an invocation that carries an extension (RUN-063). Raises WorkflowError."""
    extension = fields(invocation.extension, "extension", members("schema payload"))
    if extension["schema"] != SCHEMA:
        raise WorkflowError("extension.schema: unknown")
    activation = Activation(extension["payload"])
    identity = invocation.identity
    if not activation.activation_id == identity["task_id"] == identity["activation_id"]:
        raise WorkflowError("payload.activation_id: not the event's task and activation")
    lineage = activation.workflow_id, activation.parent_workflow_id, activation.root_workflow_id
    if lineage != (identity["workflow_id"], identity["parent_workflow_id"], identity["root_workflow_id"]):
        raise WorkflowError("payload: workflow, parent or root is not the event's")
    return activation


def _records(journal: object) -> dict[str, Record]:
    if type(journal) is not list or len(journal) > LOCAL_RECORDS:
        raise WorkflowError(f"payload.local_steps: not an array of at most {LOCAL_RECORDS} records")
    records: dict[str, Record] = {}
    for number, entry in enumerate(journal):
        what = f"payload.local_steps[{number}]"
        item = fields(entry, what, _RECORD)
        key = text(item["key"], f"{what}.key")
        name = text(item["callable"], f"{what}.callable", CALLABLE_BYTES)
        if key in records:
            raise WorkflowError(f"{what}.key: occurs twice")
        binding = name, canonical(item["input"], f"{what}.input")
        output = canonical(item["output"], f"{what}.output")
        whole = canonical(item, what, limit=LOCAL_RECORD_BYTES, depth=RUNTIME_DEPTH, accepted=True)
        records[key] = Record(binding, output, len(whole) - float_allowance(item))
    canonical(journal, "payload.local_steps", limit=LOCAL_LEDGER_BYTES, depth=RUNTIME_DEPTH, accepted=True)
    return records


def _inputs(inputs: object) -> bytes:
    if type(inputs) is not dict or len(inputs) > INPUTS:
        raise WorkflowError(f"payload.inputs: not an object of at most {INPUTS} members")
    for key, outcome in inputs.items():
        _outcomes.check(outcome, f"payload.inputs[{text(key, 'payload.inputs key')!r}]")
    return canonical(inputs, "payload.inputs", limit=INPUTS_BYTES, depth=RUNTIME_DEPTH, accepted=True)
