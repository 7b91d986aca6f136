"""Reply headers, error bodies, reply sizes, and what becomes of an operation that fails (chapter 03)."""

import asyncio
import json
import logging

import asyncpg
import pytest

from protocol3.contract.refusal import Refusal
from protocol3.coordinator.http.routes import ROUTES


async def every_reply(edge, wire):
    """One reply of every kind."""
    edge.operations.act = None
    yield await wire.get("/v1/get?a=b")
    yield await wire.post("/v1/both", b"1")
    yield await wire.get("/v1/nowhere")
    yield await wire.ask(wire.head("DELETE", "/v1/both"))
    yield await wire.get("/v1/get")
    yield await wire.ask(wire.head("POST", "/v1/both", "Content-Length: 0"))
    yield await wire.post("/v1/both", b" " * 101)
    edge.operations.act = unknown
    yield await wire.post("/v1/both", b"1")
    edge.exchanges.begin_shutdown()
    yield await wire.post("/v1/both", b"1")


async def unknown():
    raise Refusal("not_found")


async def test_headers_of_every_reply(edge, wire):
    """HTTP-033, HTTP-061, HTTP-062, HTTP-063, TASK-002"""
    statuses = []
    ids = set()
    async for answer in every_reply(edge, wire):
        statuses.append(answer.status)
        assert answer.one("Content-Type") == "application/json"
        assert answer.one("Cache-Control") == "no-store"
        assert answer.one("X-Content-Type-Options") == "nosniff"
        assert answer.one("Date").endswith(" GMT")
        assert answer.all("Retry-After") == []  # HTTP-067: no reply promises when a repetition would do
        assert answer.all("Content-Encoding") == answer.all("Transfer-Encoding") == answer.all("Server") == []
        assert int(answer.one("Content-Length")) == len(answer.body)
        ids.add(answer.one("Request-Id"))
    assert statuses == [200, 200, 404, 405, 400, 415, 413, 404, 503]
    assert len(ids) == len(statuses)
    assert all(1 <= len(one) <= 256 and all("!" <= char <= "~" for char in one) for one in ids)


async def test_the_request_id_is_never_the_clients(wire):
    """HTTP-062, TASK-003"""
    answers = [await wire.post("/v1/both", b"1", "Request-Id: mine") for _ in range(2)]
    assert len({answer.one("Request-Id") for answer in answers} | {"mine"}) == 3


async def test_nothing_is_compressed(wire):
    """HTTP-033"""
    answer = await wire.post("/v1/both", b'"%b"' % (b"a" * 90), "Accept-Encoding: gzip, br, *")
    assert answer.body == b'"%b"' % (b"a" * 90)
    assert answer.all("Content-Encoding") == []


async def test_values_are_encoded_compactly_and_bytes_go_out_as_they_are(edge, wire):
    """JSON-050…054"""
    assert (
        await wire.post("/v1/both", b' { "b" : 1.0e-6 , "a" : "\\u00e9\\/" } ')
    ).body == '{"b":1e-6,"a":"é/"}'.encode()
    edge.operations.act = given(b'{"stored": 1}')
    assert (await wire.post("/v1/both", b"1")).body == b'{"stored": 1}'


def given(result):
    async def act():
        return result

    return act


@pytest.mark.parametrize(
    ("refusal", "body"),
    [
        (Refusal("not_found"), {"code": "not_found"}),
        (Refusal("unknown_session"), {"code": "unknown_session"}),
        (Refusal("conflict"), {"code": "conflict"}),
        (Refusal("busy"), {"code": "busy"}),
        (Refusal("session_expired"), {"code": "session_expired"}),
        (
            Refusal("invalid_input", "body.queue: too long"),
            {"code": "invalid_input", "message": "body.queue: too long"},
        ),
        (Refusal("unavailable", "x" * 5000), {"code": "unavailable", "message": "x" * 4096}),
    ],
)
async def test_refusals_of_operations(edge, wire, refusal, body):
    """HTTP-064…066, TASK-019, TASK-020, HTTP-094"""

    async def act():
        raise refusal

    edge.operations.act = act
    answer = await wire.post("/v1/both", b"1")
    assert answer.json == body
    assert answer.status == refusal.status
    edge.operations.act = None
    assert await wire.still_serves()


@pytest.mark.parametrize(("size", "status"), [(99, 200), (100, 200), (101, 503)])
async def test_the_limit_of_a_reply(edge, wire, size, status):
    """JSON-070, HTTP-069: 503 instead of a reply that is too large"""
    edge.operations.act = given(b"0" * size)
    answer = await wire.post("/v1/both", b"1")
    assert answer.status == status
    assert status == 200 or answer.json["code"] == "unavailable"


async def test_large_replies_arrive_whole(edge, wire):
    edge.operations.act = given(b"0" * (8 << 20))
    for _ in range(3):
        assert (await wire.post("/v1/post", b"1")).body == b"0" * (8 << 20)


class Custom(Exception):
    pass


@pytest.mark.parametrize(
    "error",
    [
        Custom("the secret payload"),
        KeyError("the secret payload"),
        AssertionError("the secret payload"),
        ConnectionRefusedError(111, "the secret payload"),
        ConnectionResetError("the secret payload"),
        TimeoutError("the secret payload"),
        asyncpg.InterfaceError("the secret payload"),
        asyncpg.InternalClientError("the secret payload"),
        asyncpg.DeadlockDetectedError("the secret payload"),
        asyncpg.TooManyConnectionsError("the secret payload"),
        asyncio.CancelledError("the secret payload"),
        RecursionError("the secret payload"),
        ExceptionGroup("the secret payload", [ValueError("the secret payload")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_an_operation_did_not_foresee_is_503(edge, wire, error, caplog):
    """HTTP-067, TASK-021; the log names type and place and never the message, which may quote data"""

    async def act():
        raise error

    edge.operations.act = act
    answer = await wire.post("/v1/both", b'"the secret payload"')
    assert answer.code == (503, "unavailable")
    assert b"secret" not in answer.body
    (record,) = caplog.records
    line = json.loads(record.getMessage())
    assert record.levelno == logging.ERROR
    assert line["type"].endswith(type(error).__name__)
    assert line["route"] == "/v1/both"
    assert line["request_id"] == answer.one("Request-Id")
    assert ":" in line["place"]
    assert "secret" not in caplog.text
    assert record.exc_info is None
    edge.operations.act = None
    assert await wire.still_serves()


@pytest.mark.parametrize("result", [float("nan"), "\ud800", {"a": object()}])
async def test_a_reply_that_is_no_json_is_503(edge, wire, result):
    """HTTP-067, HTTP-069"""
    edge.operations.act = given(result)
    assert (await wire.post("/v1/both", b"1")).code == (503, "unavailable")
    edge.operations.act = None
    assert await wire.still_serves()


async def test_one_line_per_exchange_at_info_and_none_above(edge, wire, caplog):
    """The line holds no payload; a path that is unknown is the client's text and is left out."""
    caplog.set_level(logging.WARNING, "protocol3.http")
    await wire.post("/v1/both", b'"the secret payload"')
    assert caplog.records == []
    caplog.set_level(logging.INFO, "protocol3.http")
    first = await wire.post("/v1/both", b'"the secret payload"')
    await wire.get("/v1/secret?secret=secret")
    await wire.get("/health/live")
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    for line in lines:
        assert line.pop("ms") >= 0
    assert lines[0] == {
        "event": "exchange",
        "request_id": first.one("Request-Id"),
        "method": "POST",
        "route": "/v1/both",
        "status": 200,
        "code": None,
    }
    assert lines[1]["route"] is None
    assert (lines[1]["status"], lines[1]["code"]) == (404, "route_not_found")
    assert len(lines) == 2
    assert "secret" not in caplog.text


async def test_a_missing_operation_is_found_at_the_start(start):
    with pytest.raises(AttributeError):
        await start(routes=ROUTES)
