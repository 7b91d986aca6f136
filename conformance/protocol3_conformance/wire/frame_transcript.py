"""The lines of one scenario that went over the pipes of program processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol3_conformance.wire.transcript import Transcript, body_text

LINES_SHOWN = 60


@dataclass(frozen=True, slots=True)
class FrameLine:
    """One line: `direction` is `>` towards the process and `<` from it; the moment is milliseconds since the start."""

    pid: int
    direction: str
    what: str
    line: bytes
    moment_ms: float

    @property
    def reply(self) -> bytes | None:
        """Whatever came from the process answers something."""
        return self.line or None if self.direction == "<" else None


class FrameTranscript(Transcript):
    """Like the transcript of exchanges; its `exchanges` are lines."""

    def add(self, line: FrameLine) -> None:
        self.exchanges.append(line)  # type: ignore[arg-type]  # counted like exchanges, shown by this class alone

    @property
    def lines(self) -> list[FrameLine]:
        return self.exchanges[-LINES_SHOWN:]  # type: ignore[return-value]  # `add` is the only way in

    @property
    def received(self) -> bool:
        """Whether any byte came from a process."""
        return any(line.reply for line in self.lines)

    def render(self) -> str:
        """The last lines, newest at the end."""
        left_out = len(self.exchanges) - LINES_SHOWN
        head = [f"… {left_out} earlier lines left out"] if left_out > 0 else []
        return "\n".join(head + [f"{one.moment_ms:8.0f} ms  {one.pid} {_shown(one)}" for one in self.lines])

    def to_json(self) -> list[dict[str, Any]]:
        """The last lines as the report shows exchanges."""
        return [_to_json(one) | _moment(one) for one in self.lines]

    def timeline(self) -> list[dict[str, Any]]:
        """When each line went, and what it was."""
        return [_moment(one) | {"actor": f"process {one.pid}", "mark": None} for one in self.lines]


def _shown(one: FrameLine) -> str:
    return f"{one.direction} {body_text(one.line.rstrip()) or one.what}"


def _moment(one: FrameLine) -> dict[str, Any]:
    moment = round(one.moment_ms, 1)
    return {"began_ms": moment, "ended_ms": moment, "request": f"{one.direction} process {one.pid}", "status": None}


def _to_json(one: FrameLine) -> dict[str, Any]:
    shown = body_text(one.line.rstrip()) or one.what
    towards = one.direction == ">"
    return {"sent": shown if towards else "", "received": "" if towards else shown, "headers": [], "fault": None}
