"""What a controller is given and what it records: context, inputs, wake, local results (chapters 10, 11 and 16)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias, assert_never

from protocol3.contract.application import application_value, too_large
from protocol3.contract.cloudevents import external_event
from protocol3.contract.fields import Fields, boolean, distinct, each, integer, present
from protocol3.contract.limits import (
    CALLABLE_BYTES,
    INPUTS,
    INPUTS_BYTES,
    LOCAL_LEDGER_BYTES,
    LOCAL_RECORD_BYTES,
    LOCAL_RECORDS,
    STATE_BYTES,
)
from protocol3.contract.models.common import LeaseOwner, check_lineage, u64
from protocol3.contract.models.outcomes import (
    TaskOutcome,
    WorkflowOutcome,
    outcome_state,
    task_outcome_from_json,
    task_outcome_to_json,
    workflow_outcome_from_json,
    workflow_outcome_to_json,
)
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue, compact_size, digest
from protocol3.contract.text import identifier
from protocol3.contract.timestamps import timestamp
from protocol3.contract.vocabulary import child_kind, task_state, wake_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRecord:
    """One committed local step, at most 128 KiB; the whole record is the binding of its key (LOC-003)."""

    key: str
    callable: str
    input: JsonValue
    output: JsonValue

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            record = cls(
                key=f.required("key", identifier),
                callable=f.required("callable", identifier, CALLABLE_BYTES),
                input=application_value(f.raw("input"), f"{at}.input"),
                output=application_value(f.raw("output"), f"{at}.output"),
            )
        if record.size() > LOCAL_RECORD_BYTES:
            raise too_large(at, LOCAL_RECORD_BYTES)
        return record

    def size(self) -> int:
        """Compact bytes, as `ledger_bytes` wants them."""
        return compact_size(self.to_json())

    def identity(self) -> bytes:
        """Digest of the record: equal exactly for a replay (LOC-003)."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, JsonValue]:
        return {"key": self.key, "callable": self.callable, "input": self.input, "output": self.output}


def ledger_bytes(record_sizes: Iterable[int]) -> int:
    """Compact bytes of the array of all records: the records, a comma between two, the brackets (LIM-012)."""
    sizes = list(record_sizes)
    return sum(sizes) + max(len(sizes) - 1, 0) + 2


def inputs_bytes(inputs: JsonValue, wake: JsonValue = None) -> int:
    """Compact bytes of the inputs; with a wake, of the object that frames both (LIM-013)."""
    return compact_size(inputs) if wake is None else compact_size({"inputs": inputs, "wake": wake})


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResultCommand:
    """A local record by the owner of the attempt that made it."""

    owner: LeaseOwner
    record: LocalRecord

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(
                record=f.required("record", LocalRecord.from_json), owner=f.required("owner", LeaseOwner.from_json)
            )

    def to_json(self) -> dict[str, JsonValue]:
        return {"owner": self.owner.to_json(), "record": self.record.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResultReceipt:
    """The record is durable (LOC-002, LOC-013)."""

    key: str
    already_accepted: bool

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            return cls(key=f.required("key", identifier), already_accepted=f.required("already_accepted", boolean))

    def to_json(self) -> dict[str, JsonValue]:
        return {"key": self.key, "already_accepted": self.already_accepted}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChildResult:
    """How a task child ended; its state is the outcome's (CHD-040, CHD-060)."""

    task_id: str
    outcome: TaskOutcome

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "task_id": self.task_id,
            "state": outcome_state(self.outcome),
            "outcome": task_outcome_to_json(self.outcome),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowChildResult:
    """How a workflow child or a branch ended; its state is the outcome's (CHD-040, CHD-060)."""

    workflow_id: str
    outcome: WorkflowOutcome

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "kind": "workflow",
            "workflow_id": self.workflow_id,
            "state": outcome_state(self.outcome),
            "outcome": workflow_outcome_to_json(self.outcome),
        }


ChildResult: TypeAlias = TaskChildResult | WorkflowChildResult


def child_result_from_json(value: JsonValue, at: str) -> ChildResult:
    """A task result has no `kind`, a workflow result has the kind `workflow` (CHD-041)."""
    result: ChildResult
    with Fields(value, at) as f:
        state = f.required("state", task_state)
        if "kind" in f:
            if f.required("kind", child_kind) != "workflow":
                raise invalid(f"{at}.kind", "must be workflow or absent")
            result = WorkflowChildResult(
                workflow_id=f.required("workflow_id", identifier),
                outcome=f.required("outcome", workflow_outcome_from_json),
            )
        else:
            result = TaskChildResult(
                task_id=f.required("task_id", identifier), outcome=f.required("outcome", task_outcome_from_json)
            )
    if outcome_state(result.outcome) != state:
        raise invalid(f"{at}.outcome.kind", "must equal state")
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWake:
    """The event wait was satisfied: the complete envelope and when it was accepted (TMR-020)."""

    key: str
    event: dict[str, JsonValue]
    accepted_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutWake:
    """The event wait passed its stored deadline."""

    key: str
    deadline: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerWake:
    """The timer reached its stored deadline."""

    key: str
    deadline: int


Wake: TypeAlias = EventWake | TimeoutWake | TimerWake


def wake_from_json(value: JsonValue, at: str) -> Wake:
    """A wake by its `kind`, exact members (chapter 16, Wakes)."""
    with Fields(value, at) as f:
        kind = f.required("kind", wake_kind)
        key = f.required("key", identifier)
        match kind:
            case "event":
                return EventWake(
                    key=key,
                    event=f.required("event", external_event),
                    accepted_at=f.required("accepted_at", timestamp),
                )
            case "timeout":
                return TimeoutWake(key=key, deadline=f.required("deadline", timestamp))
            case "timer":
                return TimerWake(key=key, deadline=f.required("deadline", timestamp))
            case other:
                assert_never(other)


def wake_to_json(wake: Wake) -> dict[str, JsonValue]:
    """TMR-024."""
    match wake:
        case EventWake():
            return {"kind": "event", "key": wake.key, "event": wake.event, "accepted_at": wake.accepted_at}
        case TimeoutWake():
            return {"kind": "timeout", "key": wake.key, "deadline": wake.deadline}
        case TimerWake():
            return {"kind": "timer", "key": wake.key, "deadline": wake.deadline}
        case other:
            assert_never(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationContext:
    """What one activation starts from; only `local_steps` may grow between two reads (ACT-020, ACT-021, ACT-049)."""

    workflow_id: str
    activation_id: str
    revision: int
    continuation: str
    state: JsonValue
    inputs: Mapping[str, ChildResult]
    local_steps: tuple[LocalRecord, ...]
    wake: Wake | None = None
    parent_workflow_id: str | None = None
    root_workflow_id: str | None = None

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "body") -> Self:
        with Fields(value, at) as f:
            f.required("v", integer, 1, 1)
            context = cls(
                workflow_id=f.required("workflow_id", identifier),
                activation_id=f.required("activation_id", identifier),
                revision=f.required("revision", u64),
                continuation=f.required("continuation", identifier),
                state=application_value(f.raw("state"), f"{at}.state", max_bytes=STATE_BYTES),
                inputs=f.required("inputs", _inputs),
                local_steps=f.required("local_steps", each, 0, LOCAL_RECORDS, LocalRecord.from_json),
                wake=f.optional("wake", None, wake_from_json),
                parent_workflow_id=f.optional("parent_workflow_id", None, identifier),
                root_workflow_id=f.optional("root_workflow_id", None, identifier),
            )
        context.check(at)
        return context

    def check(self, at: str = "body") -> None:
        """Refuses a context whose members contradict each other or break a size (ACT-021, ACT-022, WF-032).

        The limit of the whole follows from those of its parts (LIM-022).
        """
        check_lineage(at, self.workflow_id, self.parent_workflow_id, self.root_workflow_id)
        if self.wake is not None and self.inputs:
            raise invalid(f"{at}.inputs", "must be empty beside a wake")
        distinct((step.key for step in self.local_steps), f"{at}.local_steps")
        context = self.to_json()
        if inputs_bytes(context["inputs"], context.get("wake")) > INPUTS_BYTES:
            raise too_large(f"{at}.inputs", INPUTS_BYTES)
        if compact_size(context["local_steps"]) > LOCAL_LEDGER_BYTES:
            raise too_large(f"{at}.local_steps", LOCAL_LEDGER_BYTES)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "v": 1,
            "workflow_id": self.workflow_id,
            "activation_id": self.activation_id,
            "revision": self.revision,
            "continuation": self.continuation,
            "state": self.state,
            "inputs": {key: result.to_json() for key, result in self.inputs.items()},
            "local_steps": [step.to_json() for step in self.local_steps],
            **present(
                wake=None if self.wake is None else wake_to_json(self.wake),
                parent_workflow_id=self.parent_workflow_id,
                root_workflow_id=self.root_workflow_id,
            ),
        }


def _inputs(value: JsonValue, at: str) -> dict[str, ChildResult]:
    if not isinstance(value, dict) or len(value) > INPUTS:
        raise invalid(at, f"must be an object of at most {INPUTS} members")
    return {identifier(key, f"{at} key"): child_result_from_json(result, f"{at}[]") for key, result in value.items()}
