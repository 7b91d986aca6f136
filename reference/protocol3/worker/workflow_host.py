"""What a workflow activation needs from the coordinator: its context, and the requests it makes (WRK-078…086)."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from protocol3.contract import limits
from protocol3.contract.models.common import TraceContext
from protocol3.contract.models.delivery import Assignment
from protocol3.contract.models.workflows import (
    ActivationContext,
    EventWake,
    ForkCommand,
    ForkReceipt,
    ForkRequest,
    LocalRecord,
    LocalResultCommand,
    LocalResultReceipt,
)
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, JsonValue, encode
from protocol3.contract.vocabulary import ErrorKind
from protocol3.telemetry.tracing import Span
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import RuntimeRequest, violation
from protocol3.worker.transport import Coordinator, Refused, Uncertain

_CONTEXT_PATH: Final = "/v1/workflows/activations/context"
_COMMIT_PATH: Final = "/v1/workflows/local-results"
_FORK_PATH: Final = "/v1/workflows/forks"

_KINDS: Final[dict[str, ErrorKind]] = {
    "ownership_lost": "cancelled",
    "invalid_input": "protocol",
    "conflict": "protocol",
    "not_found": "protocol",
}
"""How a definite refusal is reported; every other code is ``unavailable`` (WRK-080)."""

T = TypeVar("T")


class WorkflowHost:
    """Serves one activation. Runs inside user work, so that the end of permission ends every repetition (WRK-085).

    What is not confirmed is not acknowledged: an exception retires the process instead (RUN-078).
    """

    def __init__(self, coordinator: Coordinator, assignment: Assignment, *, span: Span, retry_delay_ms: int) -> None:
        self._coordinator = coordinator
        self._assignment = assignment
        self._owner = assignment.lease.owner
        self._span = span
        self._retry_delay_s = retry_delay_ms / 1000

    async def context(self) -> JsonValue:
        """The activation context as it came (WRK-078, WRK-079); its model bounds it (RUN-066)."""
        command = encode(self._owner.to_json())
        value = await self._confirmed(_CONTEXT_PATH, command, limits.CONTEXT_REPLY_BYTES, _as_it_is)
        context = _read(value, activation_context, "the activation context")
        event = self._assignment.event
        named = (context.activation_id, context.workflow_id, context.parent_workflow_id, context.root_workflow_id)
        expected = (
            self._owner.task_id,
            event.get("ldgworkflowid"),
            event.get("ldgparentworkflowid"),
            event.get("ldgrootworkflowid"),
        )
        if named != expected:
            raise violation("the activation context belongs to another activation")
        if isinstance(context.wake, EventWake) and (carrier := TraceContext.of_event(context.wake.event)) is not None:
            self._span.link(carrier)  # beside the processing context, never in its place (WRK-088, TRC-018)
        return value

    async def serve(self, request: RuntimeRequest) -> JsonValue:
        """Perform a runtime request and return the result for the program (RUN-072, WRK-086)."""
        match request.operation:
            case "local_step.commit":
                return await self._commit(request.payload)
            case "workflow.fork":
                return await self._fork(request.payload)
            case _:
                raise violation("a runtime request has an unknown operation")

    async def _commit(self, payload: JsonValue) -> JsonValue:
        """WRK-081, WRK-084."""
        record = _read(payload, LocalRecord.from_json, "a local record")
        command = encode(LocalResultCommand(owner=self._owner, record=record).to_json())
        receipt = await self._confirmed(
            _COMMIT_PATH, command, limits.LOCAL_RESULT_REPLY_BYTES, LocalResultReceipt.from_json
        )
        if receipt.key != record.key:
            raise violation("the receipt of a local result names another key")
        return {"committed": True}

    async def _fork(self, payload: JsonValue) -> JsonValue:
        """WRK-082, WRK-084."""
        fork = _read(payload, ForkRequest.from_json, "a fork")
        command = encode(ForkCommand(owner=self._owner, fork=fork, processing_trace=self._span.carrier).to_json())
        receipt = await self._confirmed(_FORK_PATH, command, limits.FORK_REPLY_BYTES, ForkReceipt.from_json)
        if receipt.key != fork.key or receipt.branch_keys != tuple(branch.key for branch in fork.branches):
            raise violation("the receipt of a fork names other branches")
        return {"committed": True, "key": fork.key, "branch_keys": list(receipt.branch_keys)}

    async def _confirmed(self, path: str, command: bytes, reply_bytes: int, read: Callable[[JsonValue, str], T]) -> T:
        """Repeat the byte-identical command until there is a definite answer (WRK-083, DLV-207)."""
        while True:
            try:
                return read(await self._coordinator.post(path, command, reply_bytes=reply_bytes), "reply")
            except (Uncertain, Refusal):
                pass
            except Refused as refused:
                if refused.code != "busy":
                    kind = _KINDS.get(refused.code, "unavailable")
                    raise ExecutionFailed(kind, f"the coordinator refused: {refused.code}") from None
            await asyncio.sleep(self._retry_delay_s)


def activation_context(value: JsonValue, at: str) -> ActivationContext:
    """A valid context. An approval wake is of an optional profile: the program's helper judges it, not the host."""
    if isinstance(value, dict) and isinstance(wake := value.get("wake"), dict) and wake.get("kind") == "approval":
        value = {name: member for name, member in value.items() if name != "wake"}
    return ActivationContext.from_json(value, at)


def _as_it_is(value: JsonValue, at: str) -> JsonValue:
    return value


def _read(value: JsonValue, read: Callable[[JsonValue, str], T], what: str) -> T:
    try:
        return read(value, what)
    except (Refusal, InvalidJson) as error:
        raise violation(str(error)) from None
