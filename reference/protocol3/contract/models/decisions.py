"""Decisions of a controller (chapters 12, 13 and 16)."""

from dataclasses import dataclass
from typing import Self, TypeAlias, assert_never

from protocol3.contract.application import application_value, too_large
from protocol3.contract.fields import Fields, distinct, each, integer
from protocol3.contract.limits import (
    COMMANDS,
    DECISION_BYTES,
    DEFAULT_ATTEMPT_TIMEOUT_MS,
    MAX_WAIT_DURATION_MS,
    STATE_BYTES,
    UNTIL_KEYS,
)
from protocol3.contract.models.common import (
    DEFAULT_RETRY_POLICY,
    ApplicationError,
    ProgramRef,
    RetryPolicy,
    Scope,
    execution_settings,
    u64,
)
from protocol3.contract.models.submission import SubmitInput
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue, compact_size
from protocol3.contract.text import identifier
from protocol3.contract.vocabulary import ChildKind, child_kind, decision_kind, wait_kind


class DecisionInvalid(Exception):
    """A document that is no decision; `reason` names the member at fault (DEC-010…012)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCommand:
    """A child to register, normalised (CHD-001, LIM-002, CHD-059)."""

    kind: ChildKind = "task"
    key: str
    program: ProgramRef
    queue: str
    data: JsonValue
    retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY
    attempt_timeout_ms: int = DEFAULT_ATTEMPT_TIMEOUT_MS

    @classmethod
    def from_json(cls, value: JsonValue, at: str = "decision") -> Self:
        with Fields(value, at) as f:
            policy, timeout_ms = execution_settings(f)
            return cls(
                kind=f.optional("kind", "task", child_kind),
                key=f.required("key", identifier),
                program=f.required("program", ProgramRef.from_json),
                queue=f.required("queue", identifier),
                data=application_value(f.raw("data"), f"{at}.data"),
                retry_policy=policy,
                attempt_timeout_ms=timeout_ms,
            )

    def submission(self, *, scope: Scope, correlation_key: str | None) -> SubmitInput:
        """The child's input; scope and key are the parent's (CHD-002). Its identity is the key's binding (CHD-011)."""
        return SubmitInput(
            tenant_id=scope.tenant_id,
            namespace=scope.namespace,
            queue=self.queue,
            program=self.program,
            data=self.data,
            correlation_key=correlation_key,
            retry_policy=self.retry_policy,
            attempt_timeout_ms=self.attempt_timeout_ms,
        )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "kind": self.kind,
            "key": self.key,
            "program": self.program.to_json(),
            "queue": self.queue,
            "data": self.data,
            "retry_policy": self.retry_policy.to_json(),
            "attempt_timeout_ms": self.attempt_timeout_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EventWait:
    """Waits for the event of a key, `timeout_ms` from the decision's acceptance; None is no deadline (TMR-001)."""

    key: str
    timeout_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerWait:
    """Waits `delay_ms` from the decision's acceptance (TMR-002)."""

    key: str
    delay_ms: int


WaitTarget: TypeAlias = EventWait | TimerWait


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the next activation starts from, and the children that are registered with it."""

    state: JsonValue
    continuation: str
    commands: tuple[ChildCommand, ...]

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "state": self.state,
            "continuation": self.continuation,
            "commands": [command.to_json() for command in self.commands],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Resume when every child of `until` is terminal (CHD-050)."""

    activation_id: str
    revision: int
    checkpoint: Checkpoint
    until: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Continue:
    """Resume at once (CHD-052)."""

    activation_id: str
    revision: int
    checkpoint: Checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Resume on an external event or a timer (TMR)."""

    activation_id: str
    revision: int
    checkpoint: Checkpoint
    wait: WaitTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """End the workflow with an output (DEC-050)."""

    activation_id: str
    revision: int
    output: JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """End the workflow with an error, after the drain (DEC-051)."""

    activation_id: str
    revision: int
    error: ApplicationError


Decision: TypeAlias = Suspend | Continue | Wait | Complete | Fail


def decode_decision(value: JsonValue) -> Decision:
    """The decision with its commands normalised. Raises DecisionInvalid (DEC-010…012).

    The limit of the whole bounds the output too (DEC-015, JSON-068) and counts our own spelling (LIM-031).
    """
    try:
        decision = _decision(value, "decision")
        if max(compact_size(value), compact_size(decision_to_json(decision))) > DECISION_BYTES:
            raise too_large("decision", DECISION_BYTES)
    except Refusal as refusal:
        raise DecisionInvalid(refusal.message or refusal.code) from None
    return decision


def decision_to_json(decision: Decision) -> dict[str, JsonValue]:
    """The normalised document of a decision."""
    header: dict[str, JsonValue] = {"v": 1, "activation_id": decision.activation_id, "revision": decision.revision}
    match decision:
        case Suspend(checkpoint=checkpoint, until=until):
            return {**header, "kind": "suspend", **checkpoint.to_json(), "until": [*until]}
        case Continue(checkpoint=checkpoint):
            return {**header, "kind": "continue", **checkpoint.to_json()}
        case Wait(checkpoint=checkpoint, wait=wait):
            return {**header, "kind": "wait", **checkpoint.to_json(), "wait": _wait_json(wait)}
        case Complete(output=output):
            return {**header, "kind": "complete", "output": output}
        case Fail(error=error):
            return {**header, "kind": "fail", "error": error.to_json()}
        case other:
            assert_never(other)


def _decision(value: JsonValue, at: str) -> Decision:
    with Fields(value, at) as f:
        f.required("v", integer, 1, 1)
        activation_id = f.required("activation_id", identifier)
        revision = f.required("revision", u64)
        kind = f.required("kind", decision_kind)
        match kind:
            case "suspend":
                checkpoint = _checkpoint(f, at)
                until = f.required("until", each, 0, UNTIL_KEYS, identifier)
                distinct(until, f"{at}.until")
                return Suspend(activation_id=activation_id, revision=revision, checkpoint=checkpoint, until=until)
            case "continue":
                return Continue(activation_id=activation_id, revision=revision, checkpoint=_checkpoint(f, at))
            case "wait":
                checkpoint, wait = _checkpoint(f, at), f.required("wait", _wait)
                return Wait(activation_id=activation_id, revision=revision, checkpoint=checkpoint, wait=wait)
            case "complete":  # no commands can ride on these two (DEC-014)
                output = application_value(f.raw("output"), f"{at}.output")
                return Complete(activation_id=activation_id, revision=revision, output=output)
            case "fail":
                error = f.required("error", ApplicationError.from_json)
                return Fail(activation_id=activation_id, revision=revision, error=error)
            case other:
                assert_never(other)


def _checkpoint(f: Fields, at: str) -> Checkpoint:
    checkpoint = Checkpoint(
        state=application_value(f.raw("state"), f"{at}.state", max_bytes=STATE_BYTES),
        continuation=f.required("continuation", identifier),
        commands=f.required("commands", each, 0, COMMANDS, ChildCommand.from_json),
    )
    distinct((command.key for command in checkpoint.commands), f"{at}.commands")
    return checkpoint


def _wait(value: JsonValue, at: str) -> WaitTarget:
    with Fields(value, at) as f:
        match f.required("kind", wait_kind):
            case "event":
                return EventWait(
                    key=f.required("key", identifier),
                    timeout_ms=f.present("timeout_ms", integer, 0, MAX_WAIT_DURATION_MS),
                )
            case "timer":
                return TimerWait(
                    key=f.required("key", identifier), delay_ms=f.required("delay_ms", integer, 0, MAX_WAIT_DURATION_MS)
                )
            case other:
                assert_never(other)


def _wait_json(wait: WaitTarget) -> dict[str, JsonValue]:
    match wait:
        case EventWait():
            return {"kind": "event", "key": wait.key, "timeout_ms": wait.timeout_ms}
        case TimerWait():
            return {"kind": "timer", "key": wait.key, "delay_ms": wait.delay_ms}
        case other:
            assert_never(other)
