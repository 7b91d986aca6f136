"""What programs write: log frames and raw standard error, within one allowance per invocation (RUN-105…107)."""

import re
from typing import Final

from protocol3.contract import limits
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.timestamps import is_time_text
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.frames import INTERACTIVE_PROTOCOL

_LOGGING_PROTOCOL: Final = 2

_REQUIRED: Final = frozenset({"v", "type", "time", "severity", "logger", "message", "attributes"})
_TRACE: Final = frozenset({"trace_id", "span_id"})
_OPTIONAL: Final = _TRACE | {"invocation"}
_TASK: Final = frozenset({"source", "tenant_id", "namespace", "run_id", "task_id", "attempt_no"})
_IDENTITY: Final = frozenset({"event_id", "attempt_id"})
_WORKFLOW: Final = frozenset({"workflow_id", "activation_id"})
_LINEAGE: Final = frozenset({"parent_workflow_id", "root_workflow_id"})
_HEX: Final = {"trace_id": re.compile(r"[0-9a-f]{32}"), "span_id": re.compile(r"[0-9a-f]{16}")}


def is_log(frame: dict[str, JsonValue], protocol: int) -> bool:
    """Whether the frame is a log frame, valid or not; protocol 1 has none (RUN-096)."""
    return protocol >= _LOGGING_PROTOCOL and frame.get("type") == "log"


def is_valid_log(frame: dict[str, JsonValue], protocol: int, line_bytes: int) -> bool:
    """Everything RUN-106 names; an invalid log frame is dropped, never an error."""
    if line_bytes > limits.LOG_FRAME_BYTES or type(frame.get("v")) is not int or frame["v"] != protocol:
        return False
    if not frame.keys() >= _REQUIRED or not frame.keys() <= _REQUIRED | _OPTIONAL:
        return False
    texts = (frame["time"], frame["severity"], frame["logger"], frame["message"])
    if not all(isinstance(text, str) for text in texts) or not isinstance(frame["attributes"], dict):
        return False
    return is_time_text(str(frame["time"])) and _valid_trace(frame) and _valid_invocation(frame, protocol)


def _valid_trace(frame: dict[str, JsonValue]) -> bool:
    given = frame.keys() & _TRACE
    if given not in (set(), _TRACE):
        return False
    return all(isinstance(text := frame[name], str) and _HEX[name].fullmatch(text) for name in given)


def _valid_invocation(frame: dict[str, JsonValue], protocol: int) -> bool:
    if "invocation" not in frame:
        return True
    origin = frame["invocation"]
    if not isinstance(origin, dict) or not origin.keys() >= _IDENTITY:
        return False
    allowed = _IDENTITY | _TASK
    if protocol >= INTERACTIVE_PROTOCOL:
        allowed |= _WORKFLOW | _LINEAGE
    if not origin.keys() <= allowed or len(origin.keys() & _LINEAGE) == 1:
        return False
    return all(type(value) is int if name == "attempt_no" else isinstance(value, str) for name, value in origin.items())


class ProgramLog:
    """The allowance of one process, refilled at each invocation start (RUN-107)."""

    def __init__(self, diagnostics: Diagnostics, protocol: int) -> None:
        self._diagnostics = diagnostics
        self._protocol = protocol
        self._left = limits.HOST_LOG_BYTES

    def refill(self) -> None:
        self._left = limits.HOST_LOG_BYTES

    def frame(self, line: bytes, frame: dict[str, JsonValue]) -> None:
        """Pass a log frame on as the line it is, if it is valid and fits."""
        if len(line) <= self._left and is_valid_log(frame, self._protocol, len(line)):
            self._left -= len(line)
            self._diagnostics.write(line)

    def stderr(self, chunk: bytes) -> None:
        """Pass on what fits; the rest was read all the same, so that the program never blocks on it."""
        chunk = chunk[: self._left]
        if chunk:
            self._left -= len(chunk)
            self._diagnostics.write(chunk)
