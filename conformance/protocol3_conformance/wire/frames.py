"""Frames that a program process writes: their exact members, and what must hold between them (chapter 21)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.wire import text
from protocol3_conformance.wire.delivery import OBSERVATIONS
from protocol3_conformance.wire.faults import Violation
from protocol3_conformance.wire.shapes import Check, application, array, brief, integer, mapping, only, record, string
from protocol3_conformance.wire.strict_json import InvalidJson, JsonValue, compact_size, decode
from protocol3_conformance.wire.values import FREE, ID, U32, require

Frame = dict[str, Any]

STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
LOG_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
HEX = {"trace_id": re.compile(r"[0-9a-f]{32}"), "span_id": re.compile(r"[0-9a-f]{16}")}

ERROR = record({"kind": string(lambda value: None if value else "is empty"), "message": FREE})
INVOCATION = {"event_id": FREE, "attempt_id": FREE}
INVOCATION_OPTIONAL: dict[str, Check] = {
    "source": FREE,
    "tenant_id": FREE,
    "namespace": FREE,
    "run_id": FREE,
    "task_id": FREE,
    "attempt_no": U32,
}
LINEAGE: dict[str, Check] = dict.fromkeys(
    ("workflow_id", "activation_id", "parent_workflow_id", "root_workflow_id"), FREE
)
COMMIT = record({"key": ID, "callable": FREE, "input": application("RUNTIME_DEPTH"), "output": application()})
POLICY = record(
    {
        "max_attempts": integer(1, bound("MAX_ATTEMPTS")),
        "retry_delay_ms": integer(0, bound("MAX_RETRY_DELAY_MS")),
    }
)
BRANCH = record(
    {
        "key": ID,
        "entrypoint": ID,
        "queue": ID,
        "data": application(),
        "retry_policy": POLICY,
        "attempt_timeout_ms": integer(bound("MIN_ATTEMPT_TIMEOUT_MS"), bound("MAX_ATTEMPT_TIMEOUT_MS")),
    }
)
PAYLOADS = {
    "local_step.commit": COMMIT,
    "workflow.fork": record({"key": ID, "branches": array(BRANCH, most=bound("BRANCHES"))}),
}


def by_rule(check: Check, value: JsonValue, at: str, *rules: str) -> None:
    """A shape's check whose violation names these rules in place of those of HTTP replies."""
    try:
        check(value, at)
    except Violation as violation:
        raise Violation(violation.at, violation.why, *rules) from None


def parsed(line: bytes, limit: int) -> Frame:
    """One line as a frame. Raises Violation (RUN-021, RUN-022)."""
    shown = line[:120]
    require(line.endswith(b"\n"), "frame", f"the stream ended inside a frame: {shown!r}", "RUN-021", "RUN-022")
    require(len(line) <= limit, "frame", f"{len(line)} bytes with its LF, at most {limit}", "RUN-021")
    bare = STRINGS.sub(b"", line[:-1])
    require(not re.search(rb"\s", bare), "frame", f"is not compact JSON: {shown!r}", "RUN-021")
    try:
        frame = decode(line[:-1])
    except InvalidJson as error:
        raise Violation("frame", f"{error}; it begins with {shown!r}", "RUN-021", "RUN-013") from None
    if not isinstance(frame, dict):
        raise Violation("frame", f"expected an object, came {brief(frame)}", "RUN-021")
    return frame


@dataclass(slots=True, kw_only=True)
class Judge:
    """What a process has said so far, and whether it may say the next thing.

    `invoke` is the invocation that runs; `asked` counts its requests; `answered` whether the last one has its reply.
    """

    protocol: int
    pid: int
    python_version: str
    invoke: Frame | None = None
    asked: int = 0
    answered: bool = True
    started: bool = False
    closing: bool = False
    asked_to_close: bool = False
    waiting: list[Frame] = field(default_factory=list)

    def sent(self, frame: JsonValue) -> None:
        """What the suite has written; texts that are no frames say nothing."""
        kind = frame.get("type") if isinstance(frame, dict) else None
        if kind == "invoke":
            self.waiting.append(frame)
        elif kind == "runtime_reply":
            self.answered = True
        elif kind == "shutdown":
            self.asked_to_close = True

    def take(self, frame: Frame) -> None:
        """Judge the next frame. Raises Violation."""
        kind = frame.get("type")
        at = f"{kind} frame"
        require(not self.closing, at, "came after `closing`", "RUN-103", "RUN-110")
        if not self.started:
            require(kind == "ready", at, "came before `ready`", "RUN-031", "RUN-102")
            self._ready(frame)
            return
        members = {"result": self._result, "runtime_request": self._request, "log": self._log, "closing": self._closing}
        require(kind in members, "frame", f"type {brief(kind)} is none of {', '.join(members)}", "RUN-031", "RUN-114")
        require(
            "v" in frame and frame["v"] == self.protocol and type(frame["v"]) is int,
            at,
            f"v is {brief(frame.get('v'))} in protocol {self.protocol}",
            "RUN-036",
            "RUN-081",
        )
        members[str(kind)](frame, at)

    def _ready(self, frame: Frame) -> None:
        exact = {"v": self.protocol, "type": "ready", "pid": self.pid, "python_version": self.python_version}
        by_rule(only_members(exact), frame, "ready frame", "RUN-031", "RUN-032")
        self.started = True

    def _running(self, frame: Frame, at: str) -> Frame:
        """The invocation that a result or request belongs to."""
        if self.invoke is None and self.waiting:
            self.invoke, self.asked, self.answered = self.waiting.pop(0), 0, True
        invoke = self.invoke
        if invoke is None:
            raise Violation(at, "no invocation is running", "RUN-034", "RUN-036")
        for name in ("event_id", "attempt_id"):
            same = frame.get(name) == invoke[name]
            require(same, f"{at}.{name}", f"is {brief(frame.get(name))}, expected {invoke[name]}", "RUN-036")
        return invoke

    def _result(self, frame: Frame, at: str) -> None:
        invoke = self._running(frame, at)
        require(self.answered, at, "came while a request had no reply", "HLP-053", "HLP-113")
        status = frame.get("status")
        activation = self.protocol == 3 and invoke.get("extension") is not None
        allowed = ("success", "runtime_error") if activation else ("success", "error")
        require(status in allowed, f"{at}.status", f"is {brief(status)}, expected {allowed}", "RUN-064", "RUN-055")
        members: dict[str, Check] = dict.fromkeys(("type", "event_id", "attempt_id", "status"), FREE)
        members["v"] = only(self.protocol)
        depth = "CONTROLLER_OUTPUT_DEPTH" if activation else "DATA_DEPTH"
        members |= {"output": application(depth)} if status == "success" else {"error": ERROR}
        optional = {"observations": OBSERVATIONS} if invoke.get("observe") is True else {}
        by_rule(record(members, optional=optional), frame, at, "RUN-053", "RUN-086", "RUN-039")
        if status != "success":
            self._error(frame["error"], activation)
        if "observations" in frame:
            size, most = compact_size(frame["observations"]), bound("OBSERVATIONS_BYTES")
            require(size <= most, f"{at}.observations", f"{size} bytes, at most {most}", "RUN-092")
        self.invoke = None

    @staticmethod
    def _error(error: Frame, activation: bool) -> None:
        kinds = ("workflow_error",) if activation else ("business_error", "invalid_output")
        require(error["kind"] in kinds, "error.kind", f"is {error['kind']}, expected {kinds}", "RUN-064", "RUN-055")
        require(len(error["message"]) <= 512, "error.message", "has more than 512 characters", "RUN-057")

    def _request(self, frame: Frame, at: str) -> None:
        invoke = self._running(frame, at)
        proper = self.protocol == 3 and invoke.get("extension") is not None
        require(proper, at, "in an invocation that is no activation", "RUN-059", "RUN-074")
        require(self.answered, at, "came while another one had no reply", "RUN-071", "HLP-059")
        self.asked += 1
        numbered = frame.get("id") == self.asked and type(frame.get("id")) is int
        require(numbered, f"{at}.id", f"is {brief(frame.get('id'))}, expected {self.asked}", "RUN-071")
        operation = frame.get("operation")
        require(operation in PAYLOADS, f"{at}.operation", f"is {brief(operation)}", "RUN-072")
        members = dict.fromkeys(("type", "event_id", "attempt_id", "operation"), FREE)
        whole = record({**members, "v": only(3), "id": U32, "payload": application("RUNTIME_DEPTH")})
        by_rule(whole, frame, at, "RUN-114", "RUN-036")
        by_rule(PAYLOADS[str(operation)], frame["payload"], f"{at}.payload", "RUN-115")
        self.answered = False

    def _log(self, frame: Frame, at: str) -> None:
        require(self.protocol >= 2, at, "in protocol 1", "RUN-096")
        texts = {name: _text(name) for name in ("severity", "logger", "message")}
        members = {"v": only(self.protocol), "type": FREE, "time": _log_time, "attributes": _attributes, **texts}
        optional = {"invocation": _invocation(self.protocol), **{name: _hex(name) for name in HEX}}
        by_rule(record(members, optional=optional), frame, at, "RUN-116", "RUN-098", "HLP-013", "RUN-106")
        paired = ("trace_id" in frame) == ("span_id" in frame)
        require(paired, at, "has only one of trace_id and span_id", "HLP-015", "RUN-106")
        size, most = compact_size(frame) + 1, bound("LOG_FRAME_BYTES")
        require(size <= most, at, f"{size} bytes, at most {most}", "RUN-099")

    def _closing(self, frame: Frame, at: str) -> None:
        require(self.asked_to_close, at, "came although nobody asked", "RUN-025", "RUN-110")
        by_rule(only_members({"v": self.protocol, "type": "closing"}), frame, at, "RUN-110", "RUN-113")
        self.closing = True


def only_members(exact: Frame) -> Check:
    """An object with exactly these values."""
    return record({name: only(value) for name, value in exact.items()})


def _text(name: str) -> Check:
    most = {"severity": 32, "logger": 256, "message": 4096}[name]
    return string(lambda value: None if len(value) <= most else f"has more than {most} characters")


def _log_time(value: JsonValue, at: str) -> None:
    string(lambda given: None if LOG_TIME.fullmatch(given) else "is no UTC time with offset")(value, at)


def _attributes(value: JsonValue, at: str) -> None:
    mapping(FREE, application("DATA_DEPTH"), most=32)(value, at)


def _invocation(protocol: int) -> Check:
    return record(INVOCATION, optional=INVOCATION_OPTIONAL | (LINEAGE if protocol == 3 else {}))


def _hex(name: str) -> Check:
    return string(lambda value: None if HEX[name].fullmatch(value) else f"is no {name}")


def traceparent(trace: str = "4bf92f3577b34da6a3ce929d0e0e4736") -> str:
    """A valid carrier."""
    value = f"00-{trace}-00f067aa0ba902b7-01"
    assert text.TRACEPARENT.fullmatch(value)
    return value
