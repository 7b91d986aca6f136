"""Media type, size, framing and content of request bodies (chapter 03)."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from protocol3.coordinator.budget import computed
from protocol3.coordinator.http.routes import Route

JSON = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"


@dataclass
class Command:
    value: Any


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "APPLICATION/JSON",
        "Application/Json",
        "application/json;charset=utf-8",
        "application/json; charset=UTF-8",
        'application/json ; charset = "utf-8" ',
        'application/json;CHARSET="Utf-8"',
        "\tapplication/json\t",
    ],
)
async def test_media_types_taken(wire, value):
    """HTTP-030"""
    answer = await wire.ask(wire.head("POST", "/v1/both", f"Content-Type:{value}", "Content-Length: 1") + b"1")
    assert answer.json == 1


@pytest.mark.parametrize(
    "fields",
    [
        (),
        ("Content-Type:",),
        ("Content-Type: application/json;",),
        ("Content-Type: application/json; ",),
        ("Content-Type: application/json; charset=utf8",),
        ("Content-Type: application/json; charset=iso-8859-1",),
        ("Content-Type: application/json; charset='utf-8'",),
        ('Content-Type: application/json; charset="utf-8',),
        ("Content-Type: application/json; charset=",),
        ("Content-Type: application/json; charset=utf-8;",),
        ("Content-Type: application/json; charset=utf-8; charset=utf-8",),
        ("Content-Type: application/json; version=1",),
        ("Content-Type: application/json, application/json",),
        ("Content-Type: application/problem+json",),
        ("Content-Type: text/json",),
        ("Content-Type: application/jso\u00f1",),
        (JSON, "Content-Encoding: gzip"),
        (JSON, "Content-Encoding: Identity"),
        (JSON, "Content-Encoding:"),
        (JSON, "Content-Encoding: identity, identity"),
        (JSON, "Content-Encoding: identity", "Content-Encoding: identity"),
    ],
)
async def test_media_types_and_encodings_refused(wire, fields):
    """HTTP-031, HTTP-032"""
    answer = await wire.ask(wire.head("POST", "/v1/both", *fields, "Content-Length: 1") + b"1")
    assert answer.code == (415, "invalid_input")
    assert await wire.still_serves()


async def test_identity_is_an_encoding(wire):
    """HTTP-032"""
    assert (await wire.post("/v1/both", b"1", "Content-Encoding: identity")).json == 1


async def test_the_media_type_of_a_get_means_nothing(wire):
    """HTTP-024"""
    assert (await wire.get("/v1/get?a=b", "Content-Type: text/plain", "Content-Encoding: br")).status == 200


@pytest.mark.parametrize(("size", "status"), [(99, 200), (100, 200), (101, 413)])
@pytest.mark.parametrize("framing", ["length", "one chunk", "many chunks", "slowly", "slow chunks"])
async def test_the_limit_of_a_body(wire, size, status, framing):
    """HTTP-017, HTTP-025, HTTP-002: raw bytes, whitespace counts, whatever the framing"""
    body = b"1" + b" " * (size - 1)
    match framing:
        case "length":
            answer = await wire.post("/v1/both", body)
        case "one chunk":
            answer = await wire.ask(wire.head("POST", "/v1/both", JSON, CHUNKED) + chunks(body))
        case "many chunks":
            each = (body[at : at + 1] for at in range(size))
            answer = await wire.ask(wire.head("POST", "/v1/both", JSON, CHUNKED) + chunks(*each))
        case _:
            framed = body if framing == "slowly" else chunks(body[:50], body[50:])
            field = f"Content-Length: {size}" if framing == "slowly" else CHUNKED
            for byte in wire.head("POST", "/v1/both", JSON, field) + framed:
                await wire.send(bytes([byte]))
                await asyncio.sleep(0)
            answer = await wire.answer()
    assert answer.status == status
    assert status == 200 or answer.code == (413, "invalid_input")
    assert await wire.still_serves()


async def test_too_large_is_known_before_the_body_has_come(wire):
    """HTTP-025"""
    for field, sent in ((CHUNKED, b"65\r\n" + b" " * 101), ("Content-Length: 101", b"")):
        await wire.send(wire.head("POST", "/v1/both", JSON, field) + sent)
        assert (await wire.answer()).code == (413, "invalid_input")
        await wire.send(b"\r\n0\r\n\r\n" if sent else b" " * 101)
        assert await wire.still_serves()


@pytest.mark.parametrize("extension", [b"1;a=b\r\n5\r\n0\r\n\r\n", b"1\r\n5\r\n0\r\nTrailer: x\r\n\r\n"])
async def test_chunk_extensions_and_trailers_are_passed_over(wire, extension):
    """HTTP-002"""
    assert (await wire.ask(wire.head("POST", "/v1/both", JSON, CHUNKED) + extension)).json == 5
    assert await wire.still_serves()


@pytest.mark.parametrize("body", [b"", b" \r\n", b"{", b"1 2", b"\xef\xbb\xbf1", b"\xff", b'{"a":1,"a":2}', b"[" * 99])
async def test_bodies_outside_the_json_profile(edge, wire, body):
    """HTTP-019, JSON-001…006"""
    answer = await wire.post("/v1/both", body)
    assert answer.code == (400, "invalid_input")
    assert answer.json["message"].startswith("body: ")
    assert await wire.still_serves()


async def test_a_post_without_any_body_is_400(wire):
    """JSON-002: no length and no chunks mean an empty body"""
    assert (await wire.ask(wire.head("POST", "/v1/both", JSON))).code == (400, "invalid_input")
    assert await wire.still_serves()


@pytest.mark.parametrize("fields", [(), ("Content-Length: 0",), (CHUNKED,)])
async def test_a_get_may_carry_an_empty_body(wire, fields):
    """HTTP-013"""
    body = b"0\r\n\r\n" if CHUNKED in fields else b""
    assert (await wire.ask(wire.head("GET", "/v1/get?a=b", *fields) + body)).json == {"a": "b"}
    assert await wire.still_serves()


@pytest.mark.parametrize(
    ("field", "body"), [("Content-Length: 1", b" "), (CHUNKED, b"1\r\n \r\n0\r\n\r\n"), ("Content-Length: 70000", b"")]
)
async def test_a_get_with_a_body_is_400(edge, wire, field, body):
    """HTTP-013, TASK-008; a declared body is refused before it comes"""
    answer = await wire.ask(wire.head("GET", "/v1/get?a=b", field) + body)
    assert answer.code == (400, "invalid_input")
    assert edge.operations.commands == []


async def test_pipelined_requests_are_answered_in_order(wire):
    """HTTP-001"""
    asked = [wire.request("/v1/both", b"%d" % n) if n % 2 else wire.head("GET", f"/v1/get?n={n}") for n in range(100)]
    await wire.send(b"".join(asked))
    for n in range(100):
        assert (await wire.answer()).json == (n if n % 2 else {"n": str(n)})


async def test_requests_after_every_kind_of_refusal(wire):
    """HTTP-001: one connection, refusals and successes in turn"""
    for request, status in (
        (wire.head("GET", "/v1/nowhere"), 404),
        (wire.head("PUT", "/v1/both", "Content-Length: 3") + b"abc", 405),
        (wire.request("/v1/both?", b"1"), 400),
        (wire.head("POST", "/v1/both", "Content-Length: 3") + b"abc", 415),
        (wire.request("/v1/both", b" " * 5000), 413),
        (wire.request("/v1/both", b"}"), 400),
        (wire.head("GET", "/v1/both?"), 400),
    ):
        assert (await wire.ask(request)).status == status
        assert await wire.still_serves()


async def test_large_bodies_are_worked_on_beside_the_loop(start):
    """8 MiB take a while to decode and to encode; other exchanges must not wait for it."""
    in_main_thread = []

    def decode(raw: bytes) -> Command:
        in_main_thread.append(threading.current_thread() is threading.main_thread())
        return Command(value=len(raw))

    async def encoded() -> Any:
        return await computed(lambda: decode(b"").value)

    route = Route(
        method="POST", path="/v1/large", request_limit=8 << 20, reply_limit=10, decode=decode, operation="echo"
    )
    edge = await start(routes=[route])
    edge.operations.act = encoded
    wire = await edge.connect()
    for size in (262_144, 8 << 20, 1):
        assert (await wire.post("/v1/large", b"0" * size)).status == 200
    assert in_main_thread == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    "headers",
    [
        ("traceparent: nonsense", "traceparent: x", "tracestate: ="),
        ("tracestate: a=" + "x" * 60_000,),
        tuple(f"tracestate: a{n}=b" for n in range(90)),
    ],
    ids=["malformed", "long", "many"],
)
async def test_trace_headers_never_make_a_request_fail(wire, headers):
    """TRC-011, TASK-017, TASK-018"""
    assert (await wire.post("/v1/both", b"1", *headers, "Idempotency-Key: k")).json == 1
