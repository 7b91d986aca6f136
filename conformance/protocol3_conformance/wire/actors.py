"""Whose an exchange is, and what it does to the others: read off the request, for the diagrams of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.strict_json import InvalidJson, decode

CLOCK, FAULTS = "/testing/v1/clock", "/testing/v1/faults"
CONTROLS, CLIENT = "controls", "client"


@dataclass(slots=True)
class Actors:
    """Names actors of one scenario in the order in which they appear: `client`, `worker 1`, `worker 1 consumer 2`."""

    _sessions: dict[str, int] = field(default_factory=dict)

    def of(self, exchange: Exchange) -> str:
        """A worker is known by its session, which the reply to its first request names."""
        if exchange.path.startswith("/testing/"):
            return CONTROLS
        command = _members(exchange)
        owner = command.get("owner")
        named = owner if isinstance(owner, Mapping) else command
        session = named.get("worker_session_id")
        if exchange.path.startswith("/v1/worker-sessions"):
            session = _session_in(exchange, command)
        if not isinstance(session, str):
            return CLIENT
        worker = f"worker {self._sessions.setdefault(session, len(self._sessions) + 1)}"
        return f"{worker} consumer {named['consumer_id']}" if "consumer_id" in named else worker


def _session_in(exchange: Exchange, command: Mapping[str, Any]) -> object:
    opened = exchange.value if isinstance(exchange.value, Mapping) else {}
    return opened.get("id") or command.get("worker_session_id") or command.get("id")


def mark_of(exchange: Exchange) -> str | None:
    """`hold`, `release` or `clock` where the exchange holds a step of the target, lets it go on, or moves its clock."""
    if exchange.method != "POST" or exchange.reply is None or exchange.reply.status != 200:
        return None
    if exchange.path == CLOCK:
        return "clock"
    if exchange.path in (f"{FAULTS}/clear", f"{FAULTS}/release"):
        return "release"
    act = _members(exchange).get("act")
    return "hold" if exchange.path == FAULTS and isinstance(act, Mapping) and act.get("kind") == "hold" else None


def _members(exchange: Exchange) -> Mapping[str, Any]:
    """Those of the request's body. Many a check sends what is no object, or no JSON."""
    if exchange.method != "POST":
        return {}
    try:
        value = decode(exchange.body)
    except InvalidJson:
        return {}
    return value if isinstance(value, Mapping) else {}
