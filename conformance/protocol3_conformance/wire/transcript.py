"""The exchanges of one scenario, printed with times and bodies cut to a readable length."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocol3_conformance.wire.exchange import Exchange

BODY_SHOWN = 700
EXCHANGES_SHOWN = 40


@dataclass(slots=True)
class Transcript:
    """All exchanges in the order in which they were begun."""

    exchanges: list[Exchange] = field(default_factory=list)

    def render(self) -> str:
        """The last exchanges, newest at the end."""
        left_out = len(self.exchanges) - EXCHANGES_SHOWN
        head = [f"… {left_out} earlier exchanges left out"] if left_out > 0 else []
        return "\n".join([*head, *(render(exchange) for exchange in self.exchanges[-EXCHANGES_SHOWN:])])


def render(exchange: Exchange) -> str:
    """One exchange: what was sent, what came, when."""
    lines = [f"{exchange.started_ms:8.0f} ms  {exchange.method} {_cut(exchange.target)}"]
    if exchange.body:
        lines.append(f"             > {body_text(exchange.body)}")
    if exchange.reply is None:
        return "\n".join([*lines, f"{_moment(exchange)}  no reply: {exchange.fault or 'not awaited'}"])
    reply = exchange.reply
    named = [f"{name}: {value}" for name, value in reply.headers if name.lower() in SHOWN_HEADERS]
    lines.append(f"{_moment(exchange)}  {reply.status}  {' | '.join(named)}")
    if reply.body:
        lines.append(f"             < {body_text(reply.body)}")
    return "\n".join(lines)


SHOWN_HEADERS = ("content-type", "cache-control", "request-id", "allow", "content-encoding")


def _moment(exchange: Exchange) -> str:
    return f"{exchange.ended_ms:8.0f} ms" if exchange.ended_ms is not None else "           "


def body_text(body: bytes) -> str:
    """A body as text on one line."""
    shown = body[:BODY_SHOWN].decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\r", "\\r")
    return shown if len(body) <= BODY_SHOWN else f"{shown}… ({len(body)} bytes)"


def _cut(target: str) -> str:
    return target if len(target) <= BODY_SHOWN else f"{target[:BODY_SHOWN]}… ({len(target)} characters)"
