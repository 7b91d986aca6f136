"""The wire layer against hostile targets: every misbehaviour is the target's failure, found within its time limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from protocol3_conformance.wire.delivery import OBSERVED_STEP
from protocol3_conformance.wire.exchange import RequestIds
from protocol3_conformance.wire.faults import TransportFault, Violation
from protocol3_conformance.wire.http import chunked
from protocol3_conformance.wire.peer import Endpoint, Peer
from protocol3_conformance.wire.routes import BY_METHOD_AND_PATH
from protocol3_conformance.wire.strict_json import encode

JSON = [("Content-Type", "application/json"), ("Cache-Control", "no-store"), ("Request-Id", "r")]
SCOPE = {"tenant_id": "t", "namespace": "n"}
STATUS: dict[str, Any] = {
    "scope": SCOPE,
    "task_id": "task",
    "run_id": "run",
    "queue": "q",
    "correlation_key": None,
    "state": "queued",
    "attempt_count": 0,
    "current_attempt_id": None,
    "latest_attempt_id": None,
    "submitted_at": 5,
    "available_at": 5,
    "terminal_at": None,
    "cancel_requested_at": None,
}

Fake = Callable[[Any], str]


def peer(url: str, seconds: float = 5) -> Peer:
    return Peer(endpoint=Endpoint.parse(url), ids=RequestIds(), seconds=seconds)


def head(fields: list[tuple[str, str]], status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields), "", ""]).encode(
        "latin-1"
    )


def sends(data: bytes, *, close: bool = True) -> Any:
    async def behave(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if close:
            writer.close()

    return behave


async def status_of(url: str, seconds: float = 5) -> Any:
    return (await peer(url, seconds).get("/v1/tasks/status", {**SCOPE, "task_id": "task"})).value


def status_reply(**changes: Any) -> bytes:
    body = encode({**STATUS, **changes})
    return head([*JSON, ("Content-Length", str(len(body)))]) + body


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="closes at once"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Ty", id="closes inside the head"),
        pytest.param(head([*JSON, ("Content-Length", "10")]) + b"{}", id="closes inside the body"),
        pytest.param(head([*JSON, ("Content-Length", "x")]) + b"{}", id="length is no number"),
        pytest.param(head([*JSON, ("Content-Length", "2"), ("Content-Length", "2")]) + b"{}", id="two lengths"),
        pytest.param(
            head([*JSON, ("Content-Length", "2"), ("Transfer-Encoding", "chunked")]) + b"{}", id="length and chunks"
        ),
        pytest.param(head([*JSON, ("Transfer-Encoding", "chunked")]) + b"zz\r\n", id="broken chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n", id="malformed header"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000, id="endless header"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
        pytest.param(head([*JSON, ("Content-Length", str(10**11))]), id="absurd length"),
    ],
)
async def test_what_is_no_reply(fake: Fake, data: bytes) -> None:
    """TransportFault, with the exchange and its fault in the transcript."""
    one = peer(fake(sends(data)))
    with pytest.raises(TransportFault):
        await one.get("/v1/tasks/status", "x")
    assert "no reply" in one.transcript.render()


async def test_a_target_that_hangs(fake: Fake) -> None:
    with pytest.raises(TransportFault, match="nothing complete within"):
        await status_of(fake(sends(b"", close=False)), seconds=0.2)


async def test_bytes_that_trickle_too_long(fake: Fake) -> None:
    """A reply that never completes is cut off at the limit, however steadily it comes."""

    async def trickle(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head([*JSON, ("Content-Length", "100000")]))
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.01)

    with pytest.raises(TransportFault, match="nothing complete within"):
        await status_of(fake(trickle), seconds=0.3)


async def test_bytes_that_trickle_in_time(fake: Fake) -> None:
    """Single bytes, interim replies and chunks are a reply like any other."""
    body = encode(STATUS)
    data = b"HTTP/1.1 100 Continue\r\n\r\n" + head([*JSON, ("Transfer-Encoding", "chunked")]) + chunked(body, 7)

    async def trickle(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()

    assert await status_of(fake(trickle)) == STATUS


@pytest.mark.parametrize(
    ("fields", "status", "body", "rule"),
    [
        pytest.param([("Content-Type", "text/html")], "502 Bad Gateway", b"<html>", "HTTP-061", id="a proxy's page"),
        pytest.param([("Content-Type", "text/html"), *JSON[1:]], "200 OK", b"<html>", "HTTP-033", id="HTML"),
        pytest.param([JSON[0], *JSON], "200 OK", b"{}", "HTTP-033", id="two media types"),
        pytest.param([JSON[0], JSON[2]], "200 OK", b"{}", "HTTP-061", id="cacheable"),
        pytest.param([*JSON, JSON[2]], "200 OK", b"{}", "HTTP-061", id="two Request-Ids"),
        pytest.param([*JSON[:2], ("Request-Id", "a b")], "200 OK", b"{}", "HTTP-062", id="blank in the Request-Id"),
        pytest.param(
            [*JSON[:2], ("Request-Id", "suite-request-id")], "200 OK", b"{}", "HTTP-062", id="copied Request-Id"
        ),
        pytest.param([*JSON, ("Content-Encoding", "gzip")], "200 OK", b"{}", "HTTP-033", id="compressed"),
        pytest.param(JSON, "200 OK", b'{"a":1,"a":1}', "CLI-014", id="repeated member"),
        pytest.param(JSON, "200 OK", b"[" * 109 + b"]" * 109, "JSON-034", id="too deep"),
        pytest.param(JSON, "201 Created", encode(STATUS), "HTTP-060", id="201"),
        pytest.param(JSON, "404 X", b'{"code":"not_found","message":"x"}', "HTTP-064", id="message too much"),
        pytest.param(JSON, "400 X", b'{"code":"invalid_input"}', "HTTP-064", id="message missing"),
        pytest.param(JSON, "400 X", b'{"code":"not_found"}', "HTTP-066", id="status of another code"),
        pytest.param(JSON, "418 X", b'{"code":"teapot"}', "HTTP-064", id="unknown code"),
        pytest.param(JSON, "404 X", b'{"code":"not_found"}' + b" " * 65_536, "JSON-070", id="error too large"),
        pytest.param(JSON, "200 OK", encode(STATUS) + b" " * 16_384, "JSON-070", id="status too large"),
    ],
)
async def test_what_is_no_conforming_reply(
    fake: Fake, fields: list[tuple[str, str]], status: str, body: bytes, rule: str
) -> None:
    data = head([*fields, ("Content-Length", str(len(body)))], status) + body
    with pytest.raises(Violation) as caught:
        await status_of(fake(sends(data)))
    assert rule in caught.value.rules


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"attempt_count": 0.0}, "CLI-024"),
        ({"attempt_count": False}, "CLI-024"),
        ({"state": "lost"}, ""),
        ({"state": "active"}, "TASK-054"),
        ({"state": "succeeded", "terminal_at": 9}, "TASK-057"),
        ({"terminal_at": 9}, "TASK-055"),
        ({"cancel_requested_at": 9}, "TASK-056"),
        ({"state": "cancelled", "terminal_at": 9}, "TASK-056"),
        ({"attempt_count": 1}, "TASK-053"),
        ({"latest_attempt_id": "a"}, "TASK-053"),
        ({"workflow_id": None}, ""),
        ({"workflow_activation_id": "task"}, "TASK-058"),
        ({"extra": 1}, "CLI-023"),
        ({"task_id": "another"}, "CLI-030"),
        ({"scope": {**SCOPE, "namespace": "m"}}, "CLI-030"),
        ({"queue": "a\u0001"}, "TXT-001"),
        ({"submitted_at": 253402300800000}, ""),
    ],
)
async def test_one_lie_in_a_status(fake: Fake, changes: dict[str, Any], rule: str) -> None:
    """Each member and each relation between members is checked."""
    with pytest.raises(Violation) as caught:
        await status_of(fake(sends(status_reply(**changes))))
    assert not rule or rule in caught.value.rules


async def test_the_honest_status_passes(fake: Fake) -> None:
    assert await status_of(fake(sends(status_reply()))) == STATUS


async def test_a_request_id_comes_once(fake: Fake) -> None:
    """HTTP-062, over all exchanges of the run."""
    one = peer(fake(sends(status_reply(), close=False)))
    await one.get("/v1/tasks/status", {**SCOPE, "task_id": "task"})
    with pytest.raises(Violation, match="already came"):
        await one.get("/v1/tasks/status", {**SCOPE, "task_id": "task"})


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ({}, {"run_id": "other"}, "CLI-039"),
        ({}, {"submitted_at": 6}, "DLV-117"),
        (
            {"state": "cancelled", "terminal_at": 9, "cancel_requested_at": 9},
            {"state": "queued", "terminal_at": None, "cancel_requested_at": None},
            "TASK-209",
        ),
        ({"attempt_count": 2, "latest_attempt_id": "a"}, {"attempt_count": 1, "latest_attempt_id": "a"}, "DLV-117"),
    ],
)
async def test_what_never_goes_backwards(fake: Fake, before: dict[str, Any], after: dict[str, Any], rule: str) -> None:
    """The observer compares every task with its last observation."""
    replies = iter([status_reply(**before), status_reply(**after).replace(b"Request-Id: r", b"Request-Id: s")])

    async def behave(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(next(replies))

    one = peer(fake(behave))
    await one.get("/v1/tasks/status", {**SCOPE, "task_id": "task"})
    with pytest.raises(Violation) as caught:
        await one.get("/v1/tasks/status", {**SCOPE, "task_id": "task"})
    assert rule in caught.value.rules


@pytest.mark.parametrize("url", ["https://h:1", "h:80", "http://", "http://h/?q=1", "http://u@h/"])
def test_base_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not of the form|has a query"):
        Endpoint.parse(url)


def test_a_base_url_keeps_its_path() -> None:
    """HTTP-005."""
    endpoint = Endpoint.parse("http://[::1]:8080/p3/")
    assert (endpoint.host, endpoint.port, endpoint.prefix, endpoint.authority) == ("::1", 8080, "/p3", "[::1]:8080")


STEP = {"key": "price", "callable": "program:price", "started_at_ms": 0, "elapsed_us": 0, "state": "returned"}


@pytest.mark.parametrize("member", ["key", "callable"])
@pytest.mark.parametrize(
    ("value", "taken"),
    [("\ufdd0" * 42 + "x", True), ("\U0001fffe", True), ("", False), ("a\u0085", False), ("x" * 513, False)],
)
def test_texts_of_an_observed_step(member: str, value: str, taken: bool) -> None:
    """DLV-091: no control characters and not empty, but no identifiers either."""
    with nullcontext() if taken else pytest.raises(Violation):
        OBSERVED_STEP(STEP | {member: value}, "reply")


@pytest.mark.parametrize(
    ("sent", "rule"),
    [({**SCOPE, "region": "x"}, "JSON-080"), ({**SCOPE, "tenant_id": "other"}, "DLV-001"), (SCOPE, None)],
)
def test_a_member_that_was_dropped_should_have_been_refused(sent: Any, rule: str | None) -> None:
    """What a reply lacks of a fixed object of its request is no fault of the reply."""
    echo = BY_METHOD_AND_PATH["POST", "/v1/worker-sessions"].echo
    session = {"queue": "q", "concurrency": 1}
    with pytest.raises(Violation) if rule else nullcontext() as failure:
        echo({**session, "scope": sent}, {**session, "scope": SCOPE})
    assert failure is None or failure.value.rules == (rule,)
