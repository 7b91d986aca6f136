"""The exchanges of one scenario: as data with times, redacted, bodies cut to a readable length; and as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

from protocol3_conformance.wire import redaction
from protocol3_conformance.wire.actors import Actors, mark_of
from protocol3_conformance.wire.exchange import Exchange

BODY_SHOWN = 700
EXCHANGES_SHOWN = 40
TIMELINE_SHOWN = 80
SHOWN_HEADERS = (
    "content-type",
    "cache-control",
    "request-id",
    "allow",
    "content-encoding",
    "location",
    "server",
)


class Measurement(TypedDict):
    """A figure that is reported and not judged, such as how long a restart took."""

    name: str
    value: float
    unit: str


@dataclass(slots=True)
class Transcript:
    """All exchanges in the order in which they were begun, and what was measured meanwhile."""

    exchanges: list[Exchange] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)

    def to_json(self) -> list[dict[str, Any]]:
        """The last exchanges, newest at the end, bodies cut and redacted. Times are milliseconds."""
        return [_to_json(exchange) for exchange in self.exchanges[-EXCHANGES_SHOWN:]]

    def timeline(self) -> list[dict[str, Any]]:
        """When each of the last exchanges began and ended, its status, whose it was, what it did to others."""
        actors = Actors()
        named = [{"actor": actors.of(exchange), "mark": mark_of(exchange)} for exchange in self.exchanges]
        shown = zip(self.exchanges, named, strict=True)
        return [_moments(exchange) | who for exchange, who in list(shown)[-TIMELINE_SHOWN:]]

    def render(self) -> str:
        """The last exchanges as text."""
        return render(self.to_json(), len(self.exchanges))


def _moments(exchange: Exchange) -> dict[str, Any]:
    return {
        "began_ms": round(exchange.started_ms, 1),
        "ended_ms": None if exchange.ended_ms is None else round(exchange.ended_ms, 1),
        "request": f"{exchange.method} {_cut(exchange.path)}",
        "status": None if exchange.reply is None else exchange.reply.status,
    }


def _to_json(exchange: Exchange) -> dict[str, Any]:
    reply = exchange.reply
    shown = [] if reply is None else [pair for pair in reply.headers if pair[0].lower() in SHOWN_HEADERS]
    return {
        **_moments(exchange),
        "request": f"{exchange.method} {_cut(exchange.target)}",
        "sent": body_text(exchange.body),
        "headers": [f"{name}: {redaction.header(name, value)}" for name, value in shown],
        "received": "" if reply is None else body_text(reply.body),
        "fault": exchange.fault,
    }


def render(shown: list[dict[str, Any]], total: int) -> str:
    """Exchanges as `to_json` gives them: what was sent, what came, when."""
    lines = [f"… {total - len(shown)} earlier exchanges left out"] if total > len(shown) else []
    for one in shown:
        lines.append(f"{one['began_ms']:8.0f} ms  {one['request']}")
        if one["sent"]:
            lines.append(f"             > {one['sent']}")
        moment = "           " if one["ended_ms"] is None else f"{one['ended_ms']:8.0f} ms"
        if one["status"] is None:
            lines.append(f"{moment}  no reply: {one['fault'] or 'not awaited'}")
            continue
        lines.append(f"{moment}  {one['status']}  {' | '.join(one['headers'])}")
        if one["received"]:
            lines.append(f"             < {one['received']}")
    return "\n".join(lines)


def body_text(body: bytes) -> str:
    """A body as text on one line. It is redacted before it is cut, so that a cut hides no name from the mask."""
    whole = redaction.text(body[: 4 * BODY_SHOWN].decode("utf-8", "backslashreplace"))
    shown = whole[:BODY_SHOWN].replace("\n", "\\n").replace("\r", "\\r")
    return shown if len(body) <= BODY_SHOWN else f"{shown}… ({len(body)} bytes)"


def _cut(target: str) -> str:
    return target if len(target) <= BODY_SHOWN else f"{target[:BODY_SHOWN]}… ({len(target)} characters)"
