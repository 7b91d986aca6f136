"""One `invoke` frame: its checks, and the identity that application code and log records see (RUN-035 … RUN-039)."""

from __future__ import annotations

from contextvars import ContextVar

from ._frames import ProtocolViolation, parse
from ._trace import is_traceparent, is_tracestate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Every invocation runs in a fresh, empty context; only the helper sets this, so no reset is needed (HLP-006).
running: ContextVar[Invocation | None] = ContextVar("ledgence.worker.running", default=None)

_FROM_EVENT = {
    "source": "source",
    "tenant_id": "ldgtenantid",
    "namespace": "ldgnamespace",
    "run_id": "ldgrunid",
    "task_id": "ldgtaskid",
    "attempt_no": "ldgattemptno",
    "workflow_id": "ldgworkflowid",
    "activation_id": "ldgactivationid",
    "parent_workflow_id": "ldgparentworkflowid",
    "root_workflow_id": "ldgrootworkflowid",
}


class Invocation:
    """`event` for the handler; the rest is captured before the handler can change the event (RUN-109).

    `identity` maps the field names of InvocationContext to the envelope's values, `carrier` is
    `(traceparent, tracestate)` or None, `extension` is None for an ordinary task.
    """

    __slots__ = ("attempt_id", "carrier", "event", "event_id", "extension", "identity", "observe")

    def __init__(self, frame: dict[str, Any], protocol: int) -> None:
        event = frame.get("event")
        if not isinstance(event, dict):
            raise ProtocolViolation("event is not an object")
        self.event: dict[str, Any] = event
        self.event_id = _same_id(frame.get("event_id"), event.get("id"), "event_id")
        self.attempt_id = _same_id(frame.get("attempt_id"), event.get("ldgattemptid"), "attempt_id")
        self.observe = frame.get("observe") is True
        self.carrier = _carrier(frame) if protocol >= 2 else None
        self.extension = frame.get("extension") if protocol >= 3 else None
        self.identity: dict[str, Any] = {name: event.get(attribute) for name, attribute in _FROM_EVENT.items()}
        if "ldgrootworkflowid" not in event:  # HLP-003
            self.identity["root_workflow_id"] = self.identity["workflow_id"]


def read(line: bytes, protocol: int) -> Invocation | None:
    """The invocation of a received line, or None for `shutdown`. Raises ProtocolViolation (RUN-024, RUN-026)."""
    try:
        frame = parse(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation(f"a frame is not JSON: {error}") from None
    if not isinstance(frame, dict) or type(frame.get("v")) is not int or frame["v"] != protocol:
        raise ProtocolViolation(f"a frame is not an object of protocol {protocol}")
    if frame.get("type") == "shutdown":
        return None
    if frame.get("type") != "invoke":
        raise ProtocolViolation("a frame is neither invoke nor shutdown")
    return Invocation(frame, protocol)


def _same_id(given: object, in_event: object, name: str) -> str:
    if not isinstance(given, str) or not given or given != in_event:
        raise ProtocolViolation(f"{name} is not the event's")
    return given


def _carrier(frame: dict[str, Any]) -> tuple[str, str | None] | None:
    """RUN-037, RUN-108."""
    if "processing_context" not in frame:
        raise ProtocolViolation("processing_context is missing")
    carrier = frame["processing_context"]
    if carrier is None:
        return None
    if not isinstance(carrier, dict) or not {"traceparent"} <= carrier.keys() <= {"traceparent", "tracestate"}:
        raise ProtocolViolation("processing_context has other members")
    parent, state = carrier["traceparent"], carrier.get("tracestate")
    if not is_traceparent(parent) or not (state is None or is_tracestate(state)):
        raise ProtocolViolation("processing_context is not a W3C carrier")
    return parent, state
