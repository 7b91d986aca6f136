"""The scripted worker on the pipes of a program process: sends frames, judges every frame that comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.wire.faults import Violation
from protocol3_conformance.wire.frame_transcript import FrameLine, FrameTranscript
from protocol3_conformance.wire.frames import Frame, Judge, parsed
from protocol3_conformance.wire.pipes import Process
from protocol3_conformance.wire.strict_json import JsonValue, encode

SCHEMA = "ledgence.workflow.activation.v1"
EVENT: Frame = {
    "specversion": "1.0",
    "id": "evt_1",
    "source": "urn:ledgence:orchestrator",
    "type": "com.ledgence.task.invocation.requested.v1",
    "subject": "tasks/task_1",
    "time": "2026-03-01T12:00:01.543Z",
    "datacontenttype": "application/json",
    "ldgtenantid": "north",
    "ldgnamespace": "reports",
    "ldgrunid": "run_1",
    "ldgtaskid": "task_1",
    "ldgattemptid": "att_1",
    "ldgattemptno": 1,
}

Reply = Callable[[Frame], Frame | bytes | None]
"""From a request to its reply; None ends standard input instead."""


def accepted(request: Frame) -> Frame:
    """The reply that accepts a request."""
    result: Frame = {"committed": True}
    if request["operation"] == "workflow.fork":
        payload = request["payload"]
        result |= {"key": payload["key"], "branch_keys": [branch["key"] for branch in payload["branches"]]}
    return answered(request, result)


def answered(request: Frame, result: JsonValue) -> Frame:
    """A reply with this result."""
    identity = {name: request[name] for name in ("v", "event_id", "attempt_id", "id")}
    return identity | {"type": "runtime_reply", "result": result}


def refusing(request: Frame) -> Frame:
    """A reply that is no acknowledgement (RUN-079)."""
    return answered(request, {"committed": False})


def without(members: Frame) -> Frame:
    """The members whose value is not `...`."""
    return {name: value for name, value in members.items() if value is not ...}


def activation(**changes: Any) -> Frame:
    """An activation context; a change to `...` removes the member."""
    context = {
        "v": 1,
        "workflow_id": "wf_1",
        "activation_id": "task_1",
        "revision": 0,
        "continuation": "start",
        "state": None,
        "inputs": {},
        "local_steps": [],
    }
    return without(context | changes)


def invocation(protocol: int, data: JsonValue = None, *, payload: Frame | None = None, **changes: Any) -> Frame:
    """An `invoke` frame. `event` changes the event's members; a change to `...` removes the member."""
    event = {**EVENT, "data": data}
    frame: Frame = {"v": protocol, "type": "invoke", "event_id": EVENT["id"], "attempt_id": EVENT["ldgattemptid"]}
    if payload is not None:
        event |= {"ldgworkflowid": payload.get("workflow_id"), "ldgactivationid": payload.get("activation_id")}
        for name in ("parent_workflow_id", "root_workflow_id"):
            if name in payload:
                event["ldg" + name.replace("_", "")] = payload[name]
        frame["extension"] = {"schema": SCHEMA, "payload": payload}
    if protocol >= 2:
        frame["processing_context"] = None
    frame["event"] = without(event | changes.pop("event", {}))
    return without(frame | changes)


@dataclass(slots=True, kw_only=True)
class Program:
    """One program process. Log frames are put aside in `logs`, requests of the last invocation in `requests`."""

    process: Process
    protocol: int
    judge: Judge
    limit: int
    transcript: FrameTranscript
    began: float
    logs: list[Frame] = field(default_factory=list)
    requests: list[Frame] = field(default_factory=list)

    def invocation(self, data: JsonValue = None, **settings: Any) -> Frame:
        return invocation(self.protocol, data, **settings)

    async def send(self, frame: Frame | bytes) -> None:
        """A frame, or bytes as they are."""
        line = frame if isinstance(frame, bytes) else encode(frame) + b"\n"
        self._note(">", line, "bytes" if isinstance(frame, bytes) else str(frame.get("type")))
        if not isinstance(frame, bytes):
            self.judge.sent(frame)
        await self.process.send(line)

    async def raw_line(self) -> bytes:
        """The next line, recorded and not judged; b"" at the end of the stream."""
        line = await self.process.line()
        self._note("<", line, "end of the stream" if not line else "")
        return line

    async def any_frame(self) -> Frame | None:
        """The next frame, judged; None at the end of the stream."""
        line = await self.raw_line()
        if not line:
            return None
        frame = parsed(line, self.limit)
        self.judge.take(frame)
        return frame

    async def frame(self) -> Frame | None:
        """The next frame that is no log."""
        while (frame := await self.any_frame()) is not None and frame["type"] == "log":
            self.logs.append(frame)
        return frame

    async def ready(self) -> Program:
        frame = await self.frame()
        if frame is None:
            raise Violation("start", f"no `ready` came; {self.process.said()}", "RUN-031")
        return self

    async def invoke(self, data: JsonValue = None, *, reply: Reply = accepted, **settings: Any) -> Frame:
        """Send an invocation, answer its requests, and return its result."""
        await self.send(self.invocation(data, **settings))
        return await self.result(reply)

    async def result(self, reply: Reply = accepted) -> Frame:
        """Answer the requests of the running invocation and return its result."""
        self.requests = []
        while (frame := await self.frame()) is not None:
            if frame["type"] == "result":
                return frame
            assert frame["type"] == "runtime_request", f"a {frame['type']} frame while a result is awaited"
            self.requests.append(frame)
            answer = reply(frame)
            if answer is None:
                self.close_input()
                self.judge.answered = True
            else:
                await self.send(answer)
                self.judge.answered = True
        raise Violation("result", f"the stream ended before it; {self.process.said()}", "RUN-053", "RUN-064")

    async def logged(self, count: int) -> list[Frame]:
        """The first log frames since the last call, `count` of them."""
        while len(self.logs) < count:
            frame = await self.any_frame()
            assert frame is not None, f"the stream ended; {len(self.logs)} of {count} log frames came"
            assert frame["type"] == "log", f"a {frame['type']} frame came where a log was expected"
            self.logs.append(frame)
        logs, self.logs = self.logs, []
        return logs

    async def silent(self, seconds: float = 0.05) -> bool:
        return await self.process.silent(seconds)

    async def ends(self) -> int:
        """The exit code of a process that must end without another frame but logs."""
        frame = await self.frame()
        assert frame is None, f"a {frame['type']} frame came instead of the end"
        return await self.process.ended()

    async def finish(self) -> int:
        """End its standard input; the exit code."""
        self.close_input()
        return await self.ends()

    async def shut_down(self) -> Frame | None:
        """Ask for the end; the next frame that is no log."""
        await self.send({"v": self.protocol, "type": "shutdown"})
        return await self.frame()

    def close_input(self) -> None:
        self._note(">", b"", "end of standard input")
        self.process.close_input()

    def _note(self, direction: str, line: bytes, what: str) -> None:
        moment = (time.monotonic() - self.began) * 1000
        self.transcript.add(FrameLine(self.process.pid, direction, what, line, moment))
