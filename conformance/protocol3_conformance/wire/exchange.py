"""One exchange and the checks that every reply passes, whatever the scenario is about (chapter 03)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from protocol3_conformance.bounds import bound
from protocol3_conformance.wire import text
from protocol3_conformance.wire.faults import Violation
from protocol3_conformance.wire.http import Headers, Reply
from protocol3_conformance.wire.routes import BY_METHOD_AND_PATH, Route
from protocol3_conformance.wire.shapes import brief
from protocol3_conformance.wire.strict_json import InvalidJson, JsonValue, decode, depth
from protocol3_conformance.wire.values import require
from protocol3_spec.loader import errors

OWN_REQUEST_ID = "suite-request-id"
"""Sent with every request; a service must not copy it (HTTP-062)."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """What was sent and what came. Times are milliseconds since the scenario began; `value` is the decoded reply."""

    method: str
    target: str
    headers: Headers
    body: bytes
    started_ms: float
    ended_ms: float | None = None
    reply: Reply | None = None
    value: JsonValue = None
    fault: str | None = None

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


@dataclass(slots=True)
class RequestIds:
    """Every Request-Id of the run (HTTP-062)."""

    seen: set[str] = field(default_factory=set)

    def take(self, reply: Reply) -> None:
        values = reply.field("Request-Id")
        require(len(values) == 1, "Request-Id", f"{len(values)} fields, exactly one is required", "HTTP-061")
        value = values[0]
        require(
            text.REQUEST_ID.fullmatch(value) is not None,
            "Request-Id",
            f"{value!r} is not 1…256 visible ASCII",
            "HTTP-062",
        )
        require(value != OWN_REQUEST_ID, "Request-Id", "was copied from the request", "HTTP-062")
        require(value not in self.seen, "Request-Id", f"{value} already came with another exchange", "HTTP-062")
        self.seen.add(value)


def judge(exchange: Exchange, ids: RequestIds) -> None:
    """Decode the reply into `exchange.value` and check all that holds for every reply. Raises Violation."""
    reply = exchange.reply
    assert reply is not None
    path = exchange.path
    if path.startswith("/health/"):
        if exchange.method == "GET":  # only this one has a JSON body (HTTP-023)
            exchange.value = _json_body(reply)
        return
    ids.take(reply)
    _headers(reply)
    if exchange.method == "HEAD":
        return
    route = BY_METHOD_AND_PATH.get((exchange.method, path))
    limit = bound(route.reply_limit if route and reply.status == 200 else "ERROR_REPLY_BYTES")
    require(
        len(reply.body) <= limit,
        "reply body",
        f"{len(reply.body)} bytes, at most {limit}",
        "JSON-070",
        "HTTP-094",
        "CLI-012",
    )
    exchange.value = _json_body(reply)
    if reply.status != 200:
        error_object(reply, exchange.value)
    elif route:
        _success(exchange, route)


def _headers(reply: Reply) -> None:
    types = reply.field("Content-Type")
    proper = len(types) == 1 and text.JSON_MEDIA_TYPE.fullmatch(types[0]) is not None
    shown = f"{types} with status {reply.status}"
    require(proper, "Content-Type", f"exactly one application/json is required, came {shown}", "HTTP-033", "CLI-010")
    encodings = reply.field("Content-Encoding")
    plain = not encodings or [value.lower() for value in encodings] == ["identity"]
    require(plain, "Content-Encoding", f"a service never compresses, came {encodings}", "HTTP-033", "CLI-011")
    stored = [directive.strip().lower() for value in reply.field("Cache-Control") for directive in value.split(",")]
    require("no-store" in stored, "Cache-Control", f"no-store is required, came {stored}", "HTTP-061")


def _json_body(reply: Reply) -> JsonValue:
    try:
        value = decode(reply.body)
    except InvalidJson as error:
        raise Violation("reply body", f"{error}; it begins with {reply.body[:80]!r}", "CLI-014", "JSON-001") from None
    deepest = bound("REPLY_DEPTH")
    require(depth(value) <= deepest, "reply body", f"{depth(value)} containers, at most {deepest}", "JSON-034")
    return value


def error_object(reply: Reply, value: JsonValue) -> None:
    """Exactly `code`, and `message` where the table says so, with a status of that code (HTTP-064…066, HTTP-060)."""
    at = f"reply with status {reply.status}"
    require(reply.status >= 400, at, "every success is a 200, and nothing is redirected", "HTTP-060", "CLI-016")
    code = value.get("code") if isinstance(value, dict) else None
    if not isinstance(code, str) or code not in errors():
        raise Violation(at, f"expected an error object with a known code, came {brief(value)}", "HTTP-064", "CLI-016")
    entry = errors()[code]
    require(reply.status in entry.statuses, at, f"{code} belongs to {entry.statuses}", "HTTP-066", "CLI-017")
    members = {"code", "message"} if entry.message else {"code"}
    require(
        set(value) == members, at, f"{code} has exactly {sorted(members)}, came {sorted(value)}", "HTTP-064", "CLI-018"
    )
    if entry.message:
        proper = isinstance(value["message"], str) and len(value["message"]) <= bound("ERROR_MESSAGE_CHARS")
        require(proper, f"{at}: message", f"is no string within the limit: {brief(value['message'])}", "HTTP-065")


def _success(exchange: Exchange, route: Route) -> None:
    route.shape(exchange.value, "reply")
    request = _request(exchange)
    try:
        route.echo(request, exchange.value)
    except (KeyError, TypeError, AttributeError):
        raise Violation(exchange.path, "status 200 for a request that lacks required members", "HTTP-019") from None


def _request(exchange: Exchange) -> Any:
    if exchange.method == "GET":
        return dict(parse_qsl(exchange.target.partition("?")[2], keep_blank_values=True, strict_parsing=True))
    try:
        return decode(exchange.body)
    except InvalidJson as error:
        at, why = exchange.path, f"status 200 for a body that is no JSON: {error}"
        raise Violation(at, why, "HTTP-019", *error.rules) from None
