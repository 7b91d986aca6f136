"""What two conversations differ in. Pure: recorded lines in, differences out.

Compared exactly: which frames come in which order, their members, JSON types, number spellings, the exit. Left open, as
the contract does: process ids, instants and measured amounts, the text of a helper's own error messages, and the place
of log frames among others (RUN-101).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from parity.child import Conversation

SAID = "said:"  # begins what handlers put into exceptions, so that this text is compared


class Number(NamedTuple):
    """A number as it was spelled: 1, 1.0 and 1e0 differ."""

    text: str


@dataclass(frozen=True)
class Difference:
    """`path` names the place, as frames.1.output.x; each side is JSON text, or `absent`."""

    path: str
    ours: str
    theirs: str


class Absent:
    pass


ABSENT = Absent()


def differences(ours: Conversation, theirs: Conversation, *, unordered: bool = False) -> list[Difference]:
    """All places in which the conversations differ."""
    found: list[Difference] = []
    _walk("", _comparable(ours, unordered), _comparable(theirs, unordered), found)
    return found


def _comparable(heard: Conversation, unordered: bool) -> dict[str, Any]:
    frames = [_normal(line, heard.pid) for line in heard.lines]
    logs = [frame for frame in frames if isinstance(frame, dict) and frame.get("type") == "log"]
    if unordered:
        logs.sort(key=_text)
    others = [frame for frame in frames if not (isinstance(frame, dict) and frame.get("type") == "log")]
    return {"frames": others, "logs": logs, "end": heard.end, "stderr": heard.marks}


def _normal(line: str, pid: int) -> Any:
    """A frame with what is left open replaced by its kind."""
    try:
        frame = json.loads(line, parse_int=Number, parse_float=Number, parse_constant=Number, object_pairs_hook=_object)
    except ValueError:
        return {"no JSON": line}
    if not isinstance(frame, dict):
        return frame
    if (
        not line.endswith("\n")
        or line != json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")) + "\n"
    ):
        frame["compact"] = False  # RUN-021
    if "pid" in frame and frame["pid"] == Number(str(pid)):
        frame["pid"] = "the child's"
    if frame.get("type") == "log":
        frame["time"] = type(frame.get("time")).__name__
    if isinstance(frame.get("error"), dict):
        frame["error"] = _open_message(frame["error"])
    if isinstance(frame.get("observations"), dict):
        frame["observations"] = _open_amounts(frame["observations"])
    return frame


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    found = dict(pairs)
    if len(found) != len(names):
        found["duplicate names"] = names
    return found


def _open_message(error: dict[str, Any]) -> dict[str, Any]:
    message = error.get("message")
    if isinstance(message, str) and not message.startswith(SAID):
        return error | {"message": "some text" if message else ""}
    return error


def _open_amounts(observations: dict[str, Any]) -> dict[str, Any]:
    found = {name: "amount" if isinstance(value, Number) else value for name, value in observations.items()}
    if isinstance(found.get("local_steps"), list):
        found["local_steps"] = [
            _open_amounts(step) if isinstance(step, dict) else step for step in found["local_steps"]
        ]
    return found


def _walk(path: str, ours: Any, theirs: Any, found: list[Difference]) -> None:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in [*ours, *(name for name in theirs if name not in ours)]:
            _walk(f"{path}.{name}", ours.get(name, ABSENT), theirs.get(name, ABSENT), found)
    elif isinstance(ours, list) and isinstance(theirs, list):
        for index in range(max(len(ours), len(theirs))):
            mine, other = (side[index] if index < len(side) else ABSENT for side in (ours, theirs))
            _walk(f"{path}.{index}", mine, other, found)
    elif type(ours) is not type(theirs) or ours != theirs:
        found.append(Difference(path.removeprefix("."), _text(ours), _text(theirs)))


def _text(value: Any) -> str:
    return "absent" if value is ABSENT else json.dumps(_plain(value), ensure_ascii=False, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Number):
        return f"number {value.text}"
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
