"""A case: one program, what a host sends to it, and how it answers. Plain data, to be kept and run again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

Frame = dict[str, Any]

FRAME_LIMIT = 2 * 1024 * 1024
SCHEMA = "ledgence.workflow.activation.v1"


@dataclass(frozen=True, kw_only=True)
class Step:
    """A line to the child, and the answers to the requests that follow it; `close` ends stdin behind the line.

    The line is a frame, or text sent as it is. An answer is one of {"result": VALUE}, {"change": MEMBERS of the right
    answer, null included}, {"drop": [NAMES]}, {"raw": TEXT}, {"eof": true} or {} (the right answer, which also serves
    the requests beyond the last). `until_log` waits for a log frame with this message too: they come at their own pace.
    """

    line: Frame | str
    answers: tuple[Frame, ...] = ()
    close: bool = False
    until_log: str | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """`files` is the package of a process of its own; without files the laboratory program runs in a shared process.

    `arguments` change the command line, None removes one. `unordered` says that log frames come in any order.
    """

    name: str
    protocol: int = 3
    files: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str | None] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    unordered: bool = False

    @property
    def shared(self) -> bool:
        """Whether it runs in the laboratory, in a process that other cases use as well."""
        return not (self.files or self.arguments)

    def source(self) -> str:
        """The code of the handlers, for people."""
        if self.files:
            return "\n".join(f"# {name}\n{text.strip()}" for name, text in self.files.items())
        codes = [step.line["event"]["data"]["code"] for step in self.steps if isinstance(step.line, dict)]
        return "\n# then\n".join(code.strip() for code in codes)

    def as_json(self) -> Frame:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Frame) -> Case:
        steps = tuple(Step(**{**step, "answers": tuple(step["answers"])}) for step in value["steps"])
        return cls(**{**value, "steps": steps})


def invoke(data: Any = None, *, protocol: int = 3, payload: Any = None, **changes: Any) -> Frame:
    """An `invoke` frame; `event` changes are merged into the event, a change to `...` removes the member."""
    event = {
        "specversion": "1.0",
        "id": "ev",
        "source": "urn:host",
        "type": "invocation",
        "ldgtenantid": "tenant",
        "ldgnamespace": "space",
        "ldgrunid": "run",
        "ldgtaskid": "act",
        "ldgattemptid": "at",
        "ldgattemptno": 1,
        "data": data,
    }
    frame: Frame = {"v": protocol, "type": "invoke", "event_id": "ev", "attempt_id": "at"}
    if payload is not None:
        event |= {"ldgworkflowid": "wf", "ldgactivationid": "act"}
        if isinstance(payload, dict):
            for name in ("parent_workflow_id", "root_workflow_id"):
                if name in payload:
                    event["ldg" + name.replace("_", "")] = payload[name]
        frame["extension"] = {"schema": SCHEMA, "payload": payload}
    if protocol >= 2:
        frame["processing_context"] = None
    event |= changes.pop("event", {})
    frame["event"] = _without_removed(event)
    return _without_removed(frame | changes)


def activation(**changes: Any) -> Frame:
    """An activation payload (RUN-062); a change to `...` removes the member."""
    payload: Frame = {
        "v": 1,
        "workflow_id": "wf",
        "activation_id": "act",
        "revision": 0,
        "continuation": "start",
        "state": None,
        "inputs": {},
        "local_steps": [],
    }
    return _without_removed(payload | changes)


def _without_removed(members: Frame) -> Frame:
    return {name: value for name, value in members.items() if value is not ...}


def task(name: str, code: str, data: Any = None, *, protocol: int = 3, **changes: Any) -> Case:
    """One ordinary task in the laboratory: the body of a function of (event, data)."""
    frame = invoke({"code": code, "data": data}, protocol=protocol, **changes)
    return Case(name=name, protocol=protocol, steps=(Step(line=frame),))


def controller(
    name: str,
    code: str,
    *,
    answers: tuple[Frame, ...] = (),
    close: bool = False,
    frame: Frame | None = None,
    **payload: Any,
) -> Case:
    """One activation in the laboratory: the body of an async function of (event, ctx)."""
    line = invoke({"code": code}, payload=activation(**payload), **(frame or {}))
    return Case(name=name, steps=(Step(line=line, answers=answers, close=close),))


def program(name: str, source: str, *steps: Step, **settings: Any) -> Case:
    """A process of its own whose program.py is `source`; without steps it is started and ended."""
    return Case(name=name, files={"program.py": source} | settings.pop("files", {}), steps=steps, **settings)


def encoded(step: Step) -> bytes:
    """The bytes for the child; compact JSON, as a host writes it."""
    if isinstance(step.line, str):
        return step.line.encode("utf-8", "surrogateescape")
    return compact(step.line)


def compact(frame: Any) -> bytes:
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"
