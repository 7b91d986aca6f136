"""How the reference reads each message: by schema, a function from JSON text to whether it is accepted."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from protocol3.contract import cloudevents, text, timestamps, trace, uri, vocabulary
from protocol3.contract.fields import integer
from protocol3.contract.limits import CALLABLE_BYTES, IDEMPOTENCY_KEY_BYTES, MAX_ATTEMPTS, MAX_CONCURRENCY
from protocol3.contract.models import (
    activations,
    common,
    decisions,
    delivery,
    forks,
    outcomes,
    reports,
    sessions,
    tasks,
    workflows,
)
from protocol3.contract.models.decisions import DecisionInvalid
from protocol3.contract.models.submission import SubmitCommand, SubmitInput
from protocol3.contract.refusal import Refusal, invalid
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode
from protocol3.coordinator.controls.clock import Advance
from protocol3.coordinator.controls.rules import AddFault, Pick
from protocol3.programs.errors import ProgramError
from protocol3.programs.manifest import parse_manifest
from protocol3.worker import frames, logs
from protocol3.worker.failures import ExecutionFailed

Reader = Callable[[JsonValue, str], object]
Judge = Callable[[str], bool]


def helper(name: str) -> ModuleType:
    """A private module of the runtime helper, which is an import root of its own."""
    root = str(Path(frames.__file__).parents[1] / "runtime")
    if root not in sys.path:
        sys.path.append(root)
    return __import__(f"ledgence.worker.{name}", fromlist=["_"])


def read_by(reader: Reader) -> Judge:
    """The judge that decodes strictly and reads a model."""

    def judge(message: str) -> bool:
        try:
            reader(decode(message.encode()), "message")
        except (InvalidJson, Refusal, DecisionInvalid):
            return False
        return True

    return judge


def settle(value: JsonValue, at: str) -> None:
    command = delivery.SettleCommand.from_json(value, at)
    command.check_trace()
    command.check_size()


def history(value: JsonValue, at: str) -> None:
    if not isinstance(value, list):
        raise invalid(at, "must be an array")
    for record in value:
        tasks.HistoryRecord.from_json(record, at)


def manifest(message: str) -> bool:
    try:
        parse_manifest(message.encode())
    except ProgramError:
        return False
    return True


# Frames: the judge expects what the frame itself says as far as anybody could expect it.


def by_host(check: Callable[[frames.Frame, bytes], object]) -> Judge:
    """A frame of the child, as the worker judges it."""

    def judge(message: str) -> bool:
        try:
            return check(frames.decode_frame(message.encode()), message.encode()) is not False
        except ExecutionFailed:
            return False

    return judge


def protocol_of(frame: frames.Frame, known: Iterable[int] = (1, 2, 3)) -> int:
    version = frame.get("v")
    return version if type(version) is int and version in known else 3


def ready(frame: frames.Frame, _: bytes) -> None:
    pid, python = frame.get("pid"), frame.get("python_version")
    real = type(pid) is int and pid > 0
    named = isinstance(python, str) and re.fullmatch(r"3\.(0|[1-9][0-9]*)", python)
    frames.check_ready(
        frame, protocol=protocol_of(frame), pid=int(str(pid)) if real else 1, python=str(python) if named else "3.12"
    )


def running(frame: frames.Frame, line: bytes) -> None:
    protocol = protocol_of(frame)
    names = {"id": frame.get("event_id") or "evt_5", "ldgattemptid": frame.get("attempt_id") or "att_9"}
    event: dict[str, JsonValue] = {name: value if isinstance(value, str) else "x" for name, value in names.items()}
    invocation = frames.Invocation(protocol=protocol, event=event, activation={} if protocol == 3 else None)
    number = frame.get("id")
    found = frames.read_running(frame, line, invocation, number if type(number) is int and number >= 1 else 1)
    if isinstance(found, frames.RuntimeRequest):
        read = {"local_step.commit": activations.LocalRecord.from_json, "workflow.fork": forks.ForkRequest.from_json}
        if found.operation not in read:
            raise frames.violation("unknown operation")
        try:
            read[found.operation](found.payload, "payload")
        except Refusal as refusal:
            raise frames.violation(str(refusal)) from None


def log(frame: frames.Frame, line: bytes) -> bool:
    protocol = protocol_of(frame)
    return logs.is_log(frame, protocol) and logs.is_valid_log(frame, protocol, len(line))


def closing(frame: frames.Frame, _: bytes) -> bool:
    return frames.is_closing(frame, protocol_of(frame))


def loosely(message: str) -> Any:
    """The members of a frame as far as they can be read."""
    try:
        frame = json.loads(message)
    except ValueError:
        return {}
    return frame if isinstance(frame, dict) else {}


def by_child(kind: str) -> Judge:
    """A frame of the host, as the helper judges it: `invoke`, with its extension, or `shutdown`."""

    def judge(message: str) -> bool:
        child, errors = helper("_invocation"), helper("_errors")
        try:
            invocation = child.read(message.encode(), protocol_of(loosely(message)))
            if invocation is not None and invocation.extension is not None:
                helper("_activation").accept(invocation)
        except (helper("_frames").ProtocolViolation, errors.WorkflowError):
            return False
        return (invocation is None) == (kind == "shutdown")

    return judge


def runtime_reply(message: str) -> bool:
    """The reply to a request with the identity, number and keys that it names itself."""
    exchange, errors = helper("_exchange"), helper("_errors")
    said = loosely(message)
    names = {name: said.get(name) or "x" for name in ("event_id", "attempt_id")}
    identity = {"v": 3, **{name: value if isinstance(value, str) else "x" for name, value in names.items()}}
    waiting = exchange.Exchange(None, None, 2**20, identity)
    number = said.get("id")
    waiting._last_id = number if type(number) is int and 1 <= number < 2**64 else 1
    try:
        result = waiting._result(message.encode())
    except errors.WorkflowError:
        return False
    fork = isinstance(result, dict) and ("key" in result or "branch_keys" in result)
    expected: dict[str, Any] = {"committed": True}
    if fork:
        keys = result.get("branch_keys")
        branches = [{"key": key, "entrypoint": "e", "queue": "q", "data": None} for key in keys or []]
        try:
            forks.ForkRequest.from_json({"key": result.get("key"), "branches": branches}, "fork")
        except Refusal:
            return False
        expected |= {"key": result.get("key"), "branch_keys": keys}
    same: bool = helper("_requests")._same(result, expected)
    return same


def by_helper(check: Callable[[Any], object]) -> Judge:
    """Something of the approvals profile, which only the helper knows."""

    def judge(message: str) -> bool:
        try:
            check(decode(message.encode()))
        except (InvalidJson, helper("_errors").WorkflowError):
            return False
        return True

    return judge


def approval_wake(value: Any) -> None:
    payload = {"v": 1, "workflow_id": "wf_9", "activation_id": "task_4", "revision": 4, "continuation": "c"}
    approval = value.get("approval") if isinstance(value, dict) else None
    if isinstance(approval, dict):  # the activation that it resumes
        named = {"workflow_id": approval.get("workflow_id"), "activation_id": approval.get("resumed_activation_id")}
        payload |= {name: text for name, text in named.items() if isinstance(text, str)}
        revision = approval.get("revision")
        payload["revision"] = revision + 1 if type(revision) is int and revision < 2**64 - 1 else 4
    helper("_activation").Activation({**payload, "state": None, "inputs": {}, "local_steps": [], "wake": value})


def decision(value: JsonValue, _: str) -> None:
    decisions.decode_decision(value)


def outcome(value: JsonValue, at: str) -> None:
    outcomes.task_outcome_from_json(value, at, max_depth=96)


MODELS: Final[dict[str, Judge]] = {
    **{
        name: read_by(reader)
        for name, reader in {
            "accepted-input": SubmitInput.from_json,
            "acquire-command": sessions.AcquireCommand.from_json,
            "acquire-reply": sessions.acquire_reply_from_json,
            "activation-context": workflows.ActivationContext.from_json,
            "application-error": common.ApplicationError.from_json,
            "assignment": sessions.Assignment.from_json,
            "attempt-snapshot": delivery.AttemptSnapshot.from_json,
            "authority": sessions.Authority.from_json,
            "branch": forks.Branch.from_json,
            "child-command": decisions.ChildCommand.from_json,
            "child-result": activations.child_result_from_json,
            "clock-advance": Advance.from_json,
            "completed-report": reports.CompletedReport.from_json,
            "decision": decision,
            "descriptor": common.Descriptor.from_json,
            "event-command": workflows.EventCommand.from_json,
            "event-receipt": workflows.EventReceipt.from_json,
            "execution-error": outcomes.ExecutionError.from_json,
            "extend-session": sessions.ExtendSession.from_json,
            "external-event": cloudevents.external_event,
            "failed-report": reports.FailedReport.from_json,
            "fault-command": AddFault.from_json,
            "fault-pick": Pick.from_json,
            "fork-command": forks.ForkCommand.from_json,
            "fork-receipt": forks.ForkReceipt.from_json,
            "fork-request": forks.ForkRequest.from_json,
            "history-record": tasks.HistoryRecord.from_json,
            "invocation-event": cloudevents.invocation_event,
            "lease": sessions.Lease.from_json,
            "lease-owner": common.LeaseOwner.from_json,
            "local-record": activations.LocalRecord.from_json,
            "local-result-command": activations.LocalResultCommand.from_json,
            "local-result-receipt": activations.LocalResultReceipt.from_json,
            "observations": reports.Observations.from_json,
            "open-session": sessions.OpenSession.from_json,
            "program-error": outcomes.ProgramError.from_json,
            "program-ref": common.ProgramRef.from_json,
            "renew-command": delivery.RenewCommand.from_json,
            "retry-policy": common.RetryPolicy.from_json,
            "scope": common.Scope.from_json,
            "settle-command": settle,
            "settle-reply": delivery.SettleReply.from_json,
            "settlement": delivery.Settlement.from_json,
            "settlement-receipt": delivery.SettlementReceipt.from_json,
            "submit-command": SubmitCommand.from_json,
            "submit-input": SubmitInput.from_json,
            "task-cancel": tasks.TaskCancel.from_json,
            "task-failure": outcomes.failure_from_json,
            "task-history": history,
            "task-outcome": outcome,
            "task-page": tasks.TaskPage.from_json,
            "task-result": tasks.TaskResult.from_json,
            "task-snapshot": tasks.TaskSnapshot.from_json,
            "task-state": vocabulary.task_state,
            "task-status": tasks.TaskStatus.from_json,
            "trace-context": common.TraceContext.from_json,
            "wait": decisions._wait,
            "wake": activations.wake_from_json,
            "worker-session": sessions.WorkerSession.from_json,
            "workflow-outcome": outcomes.workflow_outcome_from_json,
            "workflow-ref": workflows.WorkflowRef.from_json,
            "workflow-result": workflows.WorkflowResult.from_json,
            "workflow-snapshot": workflows.WorkflowSnapshot.from_json,
        }.items()
    },
    "manifest": manifest,
    "frame-ready": by_host(ready),
    "frame-result": by_host(running),
    "frame-runtime-request": by_host(running),
    "frame-log": by_host(log),
    "frame-closing": by_host(closing),
    "frame-invoke": by_child("invoke"),
    "frame-shutdown": by_child("shutdown"),
    "frame-runtime-reply": runtime_reply,
    "approval": by_helper(lambda value: helper("_approval_objects").check_approval(value, "approval")),
    "approval-action": by_helper(lambda value: helper("_approval_objects").encode_action(value, "action")),
    "approval-wait": by_helper(lambda value: helper("_decisions")._check_wait(value)),
    "approval-wake": by_helper(approval_wake),
}


def texts(accepts: Callable[[str], bool]) -> Reader:
    def reader(value: JsonValue, at: str) -> None:
        if not accepts(text.string(value, at)):
            raise invalid(at, "is not of this class")

    return reader


def sized(read: Callable[..., object], *bounds: int) -> Reader:
    return lambda value, at: read(value, at, *bounds)


SCALARS: Final[dict[str, Judge]] = {
    name: read_by(reader)
    for name, reader in {
        "Identifier": text.identifier,
        "IdempotencyKey": sized(text.identifier, IDEMPOTENCY_KEY_BYTES),
        "CallableName": sized(text.identifier, CALLABLE_BYTES),
        "CorrelationKey": text.correlation,
        "ProgramName": text.program_name,
        "Digest": text.digest,
        "FreeText": text.free_text,
        "ObservedKey": sized(text.uncontrolled, 128),
        "ObservedCallable": sized(text.uncontrolled, CALLABLE_BYTES),
        "SchemaUri": texts(uri.is_absolute_uri),
        "EventTime": timestamps.time_text,
        "Traceparent": texts(trace.is_traceparent),
        "Tracestate": texts(trace.is_tracestate),
        "Timestamp": timestamps.timestamp,
        "U32": common.u32,
        "U64": common.u64,
        "AttemptCount": sized(integer, 0, MAX_ATTEMPTS),
        "Concurrency": sized(integer, 1, MAX_CONCURRENCY),
        "TaskState": vocabulary.task_state,
        "WorkflowState": vocabulary.workflow_state,
        "Quiescence": vocabulary.quiescence,
        "ErrorKind": vocabulary.error_kind,
        "Phase": vocabulary.phase,
        "HistoryReason": vocabulary.history_reason,
    }.items()
}

_WRITTEN: Final = "the reference only writes it"
_PROFILE: Final = "a profile that the reference does not offer"
NO_MODEL: Final = {
    **dict.fromkeys(
        ("clock-reading", "clock-advanced", "fault", "fault-list", "fault-released", "fault-cleared"), _WRITTEN
    ),
    **dict.fromkeys(("health-live", "health-ready"), _WRITTEN),
    "error": "read together with its status, by the worker's transport and by the client",
    **dict.fromkeys(
        ("approval-inspect", "approval-list", "approval-page", "approval-decide", "approval-receipt"), _PROFILE
    ),
    **dict.fromkeys(("claim-command", "claim-reply"), _PROFILE),
    **dict.fromkeys(
        ("completion-command", "completion-retry", "completion-event", "completion-subscription"), _PROFILE
    ),
    **dict.fromkeys(("publication", "publication-capabilities", "publication-error"), _PROFILE),
}
"""Schemas without a reader in the reference, and why."""
