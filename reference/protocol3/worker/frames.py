"""The host side of the frames between worker and program process, as pure functions (RUN-021…040, 066…085)."""

from dataclasses import dataclass
from typing import Final

from protocol3.contract import limits
from protocol3.contract.models.common import TraceContext
from protocol3.contract.models.delivery import Observations, ProgramError, Success
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode, deeper_than, depth, encode, fits
from protocol3.contract.text import uncontrolled
from protocol3.worker.failures import ExecutionFailed

ACTIVATION_SCHEMA: Final = "ledgence.workflow.activation.v1"
INTERACTIVE_PROTOCOL: Final = 3
"""The first protocol with runtime requests, and the one workflows need (WRK-049)."""

_READY: Final = frozenset({"v", "type", "pid", "python_version"})
_REQUEST: Final = frozenset({"v", "type", "event_id", "attempt_id", "id", "operation", "payload"})
_OPERATION_BYTES: Final = 256

Frame = dict[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One invocation as it goes into a process. ``activation`` is the payload of a workflow activation, else None.

    ``trace`` is the worker's processing context (RUN-108, RUN-109), None while tracing is off.
    """

    protocol: int
    event: dict[str, JsonValue]
    activation: JsonValue = None
    trace: TraceContext | None = None

    @property
    def interactive(self) -> bool:
        """Whether the program may send runtime requests."""
        return self.activation is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFailed:
    """A `runtime_error` result: the invocation failed as a whole, the process is retired (RUN-084)."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of an invocation. Malformed observations count as absent (RUN-094)."""

    outcome: Success | ProgramError | RuntimeFailed
    observations: Observations | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeRequest:
    """What a running activation asks of its host."""

    id: int
    operation: str
    payload: JsonValue


def decode_frame(line: bytes) -> Frame:
    """One line of a program process. Raises ``protocol`` (RUN-028, RUN-114)."""
    try:
        frame = decode(line)
    except InvalidJson as error:
        raise violation(f"a frame is {error}") from None
    if not isinstance(frame, dict):
        raise violation("a frame is not an object")
    return frame


def check_ready(frame: Frame, *, protocol: int, pid: int, python: str) -> None:
    """RUN-032: exactly these members with exactly these values."""
    expected: Frame = {"v": protocol, "type": "ready", "pid": pid, "python_version": python}
    if frame.keys() != _READY or not _equal(frame, expected):
        raise violation("the first frame is not the expected ready frame")


def is_closing(frame: Frame, protocol: int) -> bool:
    """RUN-113."""
    expected: Frame = {"v": protocol, "type": "closing"}
    return frame.keys() == expected.keys() and _equal(frame, expected)


def invoke_frame(invocation: Invocation, limit: int) -> bytes:
    """The event goes in as it came (RUN-040). Raises ``invalid_input`` above the limit (RUN-030, WRK-063, RUN-114)."""
    event = invocation.event
    frame: Frame = {
        "v": invocation.protocol,
        "type": "invoke",
        "event_id": event["id"],
        "attempt_id": event["ldgattemptid"],
        "event": event,
        "observe": True,
    }
    if invocation.protocol > 1:
        frame["processing_context"] = None if invocation.trace is None else invocation.trace.to_json()
    if invocation.activation is not None:
        frame["extension"] = {"schema": ACTIVATION_SCHEMA, "payload": invocation.activation}
    return _line(frame, limit)


def reply_frame(invocation: Invocation, request: RuntimeRequest, result: JsonValue, limit: int) -> bytes:
    """The acknowledgement of a runtime request (RUN-077)."""
    frame: Frame = {
        "v": invocation.protocol,
        "type": "runtime_reply",
        "event_id": invocation.event["id"],
        "attempt_id": invocation.event["ldgattemptid"],
        "id": request.id,
        "result": result,
    }
    return _line(frame, limit)


def shutdown_frame(protocol: int) -> bytes:
    return encode({"v": protocol, "type": "shutdown"}) + b"\n"


def read_running(frame: Frame, line: bytes, invocation: Invocation, next_id: int) -> Result | RuntimeRequest:
    """The frame that ``line`` holds, for a running invocation. Raises ``protocol`` (RUN-073, RUN-074, RUN-081…085)."""
    identity: Frame = {
        "v": invocation.protocol,
        "event_id": invocation.event["id"],
        "attempt_id": invocation.event["ldgattemptid"],
    }
    if not _equal(frame, identity):
        raise violation("a frame belongs to another invocation or protocol version")
    match frame.get("type"):
        case "result":
            return Result(outcome=_outcome(frame, line, invocation), observations=_observations(frame))
        case "runtime_request" if invocation.interactive:
            return _request(frame, line, next_id)
        case _:
            raise violation("a frame of an unexpected type arrived during an invocation")


def violation(message: str) -> ExecutionFailed:
    """WRK-061."""
    return ExecutionFailed("protocol", message)


def _line(frame: Frame, limit: int) -> bytes:
    line = encode(frame) + b"\n"
    if len(line) > limit:
        raise ExecutionFailed("invalid_input", f"the {frame['type']} frame is larger than {limit} bytes")
    return line


def _equal(frame: Frame, expected: Frame) -> bool:
    """Equal in value and JSON type: 1.0 and true are not 1."""
    return all(type(frame.get(name)) is type(value) and frame[name] == value for name, value in expected.items())


def _outcome(frame: Frame, line: bytes, invocation: Invocation) -> Success | ProgramError | RuntimeFailed:
    match frame.get("status"):
        case "success":
            return Success(output=_output(frame, line, invocation))
        case "error":
            error = _error(frame)
            return ProgramError(kind=error[0], message=error[1])
        case "runtime_error" if invocation.interactive:
            return RuntimeFailed(message=": ".join(_error(frame)))
        case _:
            raise violation("a result has an unexpected status")


def _output(frame: Frame, line: bytes, invocation: Invocation) -> JsonValue:
    if "output" not in frame:
        raise violation("a result has no output")
    most = limits.CONTROLLER_OUTPUT_DEPTH if invocation.interactive else limits.DATA_DEPTH
    if _nests_beyond(most, frame["output"], line):
        raise violation("an output is nested too deeply")
    return frame["output"]


def _nests_beyond(most: int, value: JsonValue, line: bytes) -> bool:
    """The whole line settles it for nearly every frame; only a deep one is walked through."""
    return deeper_than(most + 1, line) and depth(value) > most


def _error(frame: Frame) -> tuple[str, str]:
    match frame.get("error"):
        case {"kind": str(kind), "message": str(message)} if kind:
            return kind, message
    raise violation("a result has no error of kind and message")


def _observations(frame: Frame) -> Observations | None:
    if "observations" not in frame:
        return None
    try:
        return Observations.from_json(frame["observations"])
    except Refusal:
        return None


def _request(frame: Frame, line: bytes, next_id: int) -> RuntimeRequest:
    if frame.keys() != _REQUEST:
        raise violation("a runtime request has other members")
    identifier, payload = frame["id"], frame["payload"]
    if type(identifier) is not int or identifier != next_id:
        raise violation("a runtime request has another id than the next one")
    try:
        operation = uncontrolled(frame["operation"], "operation", _OPERATION_BYTES)
    except Refusal:
        raise violation("a runtime request has no valid operation") from None
    if _nests_beyond(limits.RUNTIME_DEPTH, payload, line) or not fits(payload, line, limits.RUNTIME_EXCHANGE_BYTES):
        raise violation("the payload of a runtime request is too large or too deep")
    return RuntimeRequest(id=identifier, operation=operation, payload=payload)
