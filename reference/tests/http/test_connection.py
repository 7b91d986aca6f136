"""What the connection class corrects in aiohttp, byte by byte: a case for each correction."""

import asyncio
import json
import logging
import socket

import pytest

JSON = "Content-Type: application/json"
CHUNKED = "Transfer-Encoding: chunked"


async def test_two_content_types_are_415(wire):
    """HTTP-031; aiohttp's parser refuses the duplicate itself"""
    answer = await wire.ask(wire.head("POST", "/v1/both", JSON, JSON, "Content-Length: 1") + b"1")
    assert answer.code == (415, "invalid_input")
    assert answer.one("Connection") == "close"
    assert len(answer.one("Request-Id")) == 32
    assert await wire.ended()


async def test_two_content_types_in_pieces_are_415(wire):
    """HTTP-031"""
    for byte in wire.head("POST", "/v1/both", JSON, "content-type: text/plain", "Content-Length: 0"):
        await wire.send(bytes([byte]))
    assert (await wire.answer()).code == (415, "invalid_input")


async def test_a_half_closed_client_gets_its_reply(wire):
    """HTTP-001; aiohttp drops the connection"""
    await wire.send(wire.request("/v1/both", b"1"))
    wire.end()
    assert (await wire.answer()).status == 200
    assert await wire.ended()


async def test_a_half_closed_client_gets_all_its_pipelined_replies(wire):
    """HTTP-001"""
    await wire.send(b"".join(wire.request("/v1/both", b"%d" % n) for n in range(40)))
    wire.end()
    answers = [await wire.answer() for _ in range(40)]
    assert [answer.json for answer in answers] == list(range(40))
    # Whether the last reply can say so depends on whether it is written before the end of the client's half is seen.
    assert {tuple(answer.all("Connection")) for answer in answers[:-1]} == {()}
    assert await wire.ended()


async def test_a_client_that_half_closes_later_gets_its_reply(edge, wire):
    """HTTP-084: only a waiting poll is abandoned"""
    await wire.send(wire.request("/v1/held", b"1"))
    await edge.entered()
    wire.end()
    edge.operations.release.set()
    assert (await wire.answer()).json == "released"
    assert await wire.ended()


async def test_an_idle_connection_ends_with_its_client(wire):
    """HTTP-001: nothing stays open behind a client that left"""
    assert await wire.still_serves()
    wire.end()
    assert await wire.ended()


async def test_a_client_that_only_connects_and_leaves(edge):
    wire = await edge.connect()
    wire.end()
    assert await wire.ended()


@pytest.mark.parametrize("sent", [b"", b"GET /v1"])
async def test_clients_that_leave_as_soon_as_they_are_connected_leave_nothing_behind(edge, sent):
    """HTTP-001; the end of a client's half can be read before aiohttp's task for the connection has run"""

    def come_and_go() -> None:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", edge.listener.port)) as client:
                client.sendall(sent)

    await asyncio.to_thread(come_and_go)
    assert await (await edge.connect()).still_serves()  # accepted after all of them
    async with asyncio.timeout(10):
        while len(edge.listener._connections.connections) > 1:  # aiohttp has no event for it
            await asyncio.sleep(0)


async def test_a_client_that_half_closes_as_soon_as_it_is_connected_is_closed(edge):
    """HTTP-001"""

    def half_close() -> bytes:
        with socket.create_connection(("127.0.0.1", edge.listener.port), timeout=10) as client:
            client.shutdown(socket.SHUT_WR)
            return client.recv(1)

    assert [await asyncio.to_thread(half_close) for _ in range(5)] == [b""] * 5


@pytest.mark.parametrize("sent", [b"", b"12", b"1234"])
async def test_a_body_cut_short_by_its_client_is_400(edge, wire, sent):
    """HTTP-018"""
    await wire.send(wire.head("POST", "/v1/both", JSON, "Content-Length: 5") + sent)
    wire.end()
    assert (await wire.answer()).code == (400, "invalid_input")
    assert await wire.ended()
    assert edge.operations.commands == []


@pytest.mark.parametrize("sent", [b"", b"3", b"3\r\n", b"3\r\n12", b"3\r\n123\r\n", b"3\r\n123\r\n0\r\n"])
async def test_a_chunked_body_cut_short_is_400(edge, wire, sent):
    """HTTP-018, HTTP-002"""
    await wire.send(wire.head("POST", "/v1/both", JSON, CHUNKED) + sent)
    wire.end()
    assert (await wire.answer()).code == (400, "invalid_input")
    assert await wire.ended()
    assert edge.operations.commands == []


@pytest.mark.parametrize("broken", [b"x\r\n", b"3\r\n123456", b"-1\r\n", b"3 3\r\n"])
async def test_a_broken_chunk_after_the_head_is_400_at_once(edge, wire, broken):
    """HTTP-018; aiohttp leaves the reader waiting for the rest of its life"""
    await wire.send(wire.head("POST", "/v1/both", JSON, CHUNKED, "Expect: 100-continue"))
    await wire.interim()
    await wire.send(b"2\r\n12\r\n" + broken)
    answer = await wire.answer()
    assert answer.code == (400, "invalid_input")
    assert answer.one("Connection") == "close"
    assert await wire.ended()
    assert edge.operations.commands == []


@pytest.mark.parametrize("broken", [b"x", b"x\r\n", b"3\r\n123456"])
async def test_a_broken_chunk_in_one_packet_with_its_head_is_400(wire, broken):
    """HTTP-018; aiohttp's parser forgets the request that it found in the same piece"""
    answer = await wire.ask(wire.head("POST", "/v1/both", JSON, CHUNKED) + broken)
    assert answer.code == (400, "invalid_input")
    assert await wire.ended()


@pytest.mark.parametrize("before", [1, 2, 3, 4])
async def test_a_broken_chunk_behind_a_head_whose_end_came_in_two_packets(wire, before):
    """HTTP-018"""
    head = wire.head("POST", "/v1/both", JSON, CHUNKED)
    await wire.send(head[:-before])
    for _ in range(3):
        await asyncio.sleep(0)  # the server, on the same loop, reads what has come
    answer = await wire.ask(head[-before:] + b"x")
    assert answer.code == (400, "invalid_input")


async def test_requests_in_one_packet_with_malformed_ones_are_answered(edge, wire):
    """HTTP-001; what follows the first malformed one has no meaning"""
    await wire.send(wire.request("/v1/both", b"1") + wire.request("/v1/both", b"2") + b"nonsense\r\n\r\n" * 3)
    assert [(await wire.answer()).json for _ in range(2)] == [1, 2]
    assert (await wire.answer()).status == 400
    assert await wire.ended()
    assert len(edge.operations.commands) == 2


async def test_a_get_whose_chunks_are_cut_short_is_400(wire):
    """HTTP-013: nobody knows that its body was empty"""
    await wire.send(wire.head("GET", "/v1/get?a=b", CHUNKED))
    wire.end()
    assert (await wire.answer()).code == (400, "invalid_input")


async def test_a_request_before_a_cut_one_is_not_blamed(wire):
    """HTTP-018: the cut belongs to the last body"""
    await wire.send(wire.request("/v1/both", b"1") + wire.head("POST", "/v1/both", JSON, "Content-Length: 5") + b"12")
    wire.end()
    assert (await wire.answer()).json == 1
    assert (await wire.answer()).code == (400, "invalid_input")


async def test_continue_is_sent_when_the_body_is_first_read(wire):
    await wire.send(wire.head("POST", "/v1/both", JSON, "Content-Length: 1", "Expect: 100-continue"))
    assert await wire.interim() == b"HTTP/1.1 100 Continue"
    await wire.send(b"1")
    answer = await wire.answer()
    assert answer.json == 1
    assert answer.all("Connection") == []
    assert await wire.still_serves()


async def test_continue_is_sent_for_a_chunked_body_of_get(wire):
    """HTTP-013: the body has to be seen before it can be refused, or found empty"""
    await wire.send(wire.head("GET", "/v1/get?a=b", CHUNKED, "Expect: 100-Continue"))
    assert await wire.interim() == b"HTTP/1.1 100 Continue"
    await wire.send(b"0\r\n\r\n")
    assert (await wire.answer()).json == {"a": "b"}


async def test_a_refusal_after_continue_leaves_the_connection_open(wire):
    """HTTP-025: the client was told to send, so its body comes"""
    await wire.send(wire.head("POST", "/v1/both", JSON, CHUNKED, "Expect: 100-continue"))
    assert await wire.interim() == b"HTTP/1.1 100 Continue"
    answer = await wire.ask(b"65\r\n" + b" " * 101 + b"\r\n")
    assert answer.code == (413, "invalid_input")
    assert answer.all("Connection") == []
    await wire.send(b"0\r\n\r\n")
    assert await wire.still_serves()


async def test_no_continue_after_the_body_has_come(wire):
    request = wire.request("/v1/both", b"1", "Expect: 100-continue")
    assert (await wire.ask(request)).json == 1
    assert await wire.still_serves()


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [
        ("/v1/nowhere", (JSON, "Content-Length: 1"), 404),
        ("/v1/get", (JSON, "Content-Length: 1"), 405),
        ("/v1/both?", (JSON, "Content-Length: 1"), 400),
        ("/v1/both", ("Content-Type: text/json", "Content-Length: 1"), 415),
        ("/v1/both", (JSON, "Content-Length: 101"), 413),
    ],
)
async def test_a_refusal_without_the_body_ends_the_connection(wire, target, fields, status):
    """After it nobody knows whether the body will come, so the next bytes have no meaning."""
    answer = await wire.ask(wire.head("POST", target, *fields, "Expect: 100-continue"))
    assert answer.status == status
    assert answer.one("Connection") == "close"
    assert await wire.ended()


@pytest.mark.parametrize(
    "malformed",
    [
        b"nonsense\r\n\r\n",
        b"get /v1/both HTTP/1.1\r\nHost: test\r\n\r\n",
        b"BREW /v1/both HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET /v1/both HTTP/1.1\r\n\r\n",
        b"GET /v1/both HTTP/1.1\r\nHost: test\r\nsecret header\r\n\r\n",
        b"POST /v1/both HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1",
        b"POST /v1/both HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1",
        b"POST /v1/both HTTP/1.1\r\nHost: test\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/both HTTP/1.1\r\nHost: test\r\nContent-Length: 1e0\r\n\r\n1",
        b"POST /v1/both HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: gzip\r\n\r\n1",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\n" + b"X: y\r\n" * 200_000 + b"\r\n",
        b"GET http://xn--a/health/live HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://user:secret@xn--a:1/health/live HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://xn--?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"POST https://ok.xn--a/v1/both HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\n1",
        b"CONNECT xn--a:80 HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://[::1/v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://[x]/v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://a:99999/v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://a:b/v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://@/v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http://test#/v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET http:///v1/get?a=b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=lambda data: data[:24].decode("latin-1").replace("\r\n", " "),
)
async def test_bytes_that_are_no_request_get_a_bare_400_and_no_word_of_them_is_logged(wire, malformed, caplog):
    """A bare 4xx of HTTP/1.1 (below HTTP routing); one line without anything of the request, no traceback"""
    caplog.set_level(logging.DEBUG)
    answer = await wire.ask(malformed)
    assert answer.status == 400
    assert answer.body == b""
    assert answer.one("Connection") == "close"
    assert await wire.ended()
    (line,) = [json.loads(record.getMessage()) for record in caplog.records if record.name != "asyncio"]
    nothing = {"request_id": None, "method": None, "route": None, "code": None, "ms": 0.0}
    assert line == {"event": "exchange", "status": 400} | nothing


async def test_a_fault_of_the_parser_itself_is_a_bare_400_and_no_word_in_the_log(edge, wire, caplog):
    """Below HTTP routing: whatever the parser raises, the client is answered and the connection ends"""

    class Faulty:
        def feed_data(self, data):
            raise RuntimeError(f"the secret payload {data!r}")

        def message_consumed(self):
            pass

    assert await wire.still_serves()
    edge.connection()._parser._parser = Faulty()
    answer = await wire.ask(wire.request("/v1/both", b"1"))
    assert (answer.status, answer.body) == (400, b"")
    assert await wire.ended()
    assert caplog.records == []


async def test_requests_in_one_packet_with_an_unreadable_target_are_answered(edge, wire):
    """HTTP-001; what follows the first malformed one has no meaning"""
    bad = wire.head("GET", "http://xn--a/v1/get?a=b")
    await wire.send(wire.request("/v1/both", b"1") + bad + wire.request("/v1/both", b"2"))
    assert (await wire.answer()).json == 1
    assert (await wire.answer()).status == 400
    assert await wire.ended()
    assert len(edge.operations.commands) == 1


async def test_requests_parsed_after_a_pause_with_an_unreadable_target_are_answered(edge, wire):
    """HTTP-001: more than aiohttp queues at once, so that it parses the rest in one piece"""
    before = b"".join(wire.request("/v1/both", b"%d" % n) for n in range(120))
    await wire.send(before + wire.head("GET", "http://xn--a/v1/get?a=b") + wire.request("/v1/both", b"2"))
    assert [(await wire.answer()).json for _ in range(120)] == list(range(120))
    assert (await wire.answer()).status == 400
    assert await wire.ended()
    assert len(edge.operations.commands) == 120


async def test_a_fault_of_the_connection_itself_is_logged_without_its_text(wire, monkeypatch, caplog):
    """aiohttp would log a traceback, and exception texts may quote requests."""

    async def prepare(self, request):
        raise RuntimeError("the secret payload")

    monkeypatch.setattr("protocol3.coordinator.http.reply.Reply.prepare", prepare)
    await wire.send(wire.request("/v1/both", b"1"))
    assert await wire.ended()
    (record,) = caplog.records
    assert json.loads(record.getMessage())["type"] == "builtins.RuntimeError"
    assert "secret" not in caplog.text
    assert record.exc_info is None


async def test_a_malformed_second_request_does_not_harm_the_first(wire):
    await wire.send(wire.request("/v1/both", b"1"))
    assert (await wire.answer()).json == 1
    assert (await wire.ask(b"nonsense\r\n\r\n")).status == 400
    assert await wire.ended()


async def test_a_refusal_in_the_middle_of_a_large_body_reaches_its_client(wire):
    """HTTP-025, HTTP-026: the rest of the body is read and dropped, so no reset destroys the reply"""
    body = b"0" * 3_000_000
    answer = await wire.ask(wire.head("POST", "/v1/both", JSON, f"Content-Length: {len(body)}") + body)
    assert answer.code == (413, "invalid_input")
    assert await wire.still_serves()


async def test_a_client_may_end_or_break_a_body_that_was_refused(edge, wire, caplog):
    """HTTP-026: nothing stays open, nothing is logged"""
    broken = await edge.connect()
    for one in (wire, broken):
        answer = await one.ask(wire.head("POST", "/v1/both", JSON, CHUNKED) + b"1000\r\n" + b" " * 101)
        assert answer.code == (413, "invalid_input")
    wire.end()
    assert await wire.ended()
    await broken.send(b" " * (4096 - 101) + b"nonsense")
    assert (await broken.answer()).status == 400
    assert await broken.ended()
    assert caplog.records == []


async def test_a_connection_that_ends_against_the_clients_wish_is_still_read(edge, wire):
    """HTTP-026: what arrives is dropped until the client ends its side, so no reset destroys the reply"""
    assert (await wire.ask(b"nonsense\r\n\r\n")).status == 400
    assert await wire.ended()
    await wire.send(b"x" * 100_000)
    assert not edge.connection()._gone.is_set()
    wire.end()
    await edge.gone()


async def test_after_a_refusal_the_rest_of_the_body_is_awaited_only_for_a_moment(edge, wire):
    """HTTP-026"""
    await wire.still_serves()
    edge.connection()._lingering_time = 0.05
    answer = await wire.ask(wire.head("POST", "/v1/both", JSON, "Content-Length: 1000"))
    assert answer.code == (413, "invalid_input")
    assert await wire.ended()


async def test_a_request_for_another_protocol_is_served_in_this_one(wire):
    """Clients that offer h2c or websocket get a plain reply."""
    for offer in ("h2c", "websocket"):
        fields = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {offer}", "HTTP2-Settings: AAMAAABkAAQAAP__")
        assert (await wire.post("/v1/both", b"1", *fields)).json == 1
        assert await wire.still_serves()


async def test_http_1_0_is_answered_and_closed(wire):
    answer = await wire.ask(b"GET /v1/get?a=b HTTP/1.0\r\n\r\n")
    assert answer.json == {"a": "b"}
    assert answer.one("Connection") == "close"
    assert await wire.ended()


async def test_http_1_0_may_ask_to_stay(wire):
    answer = await wire.ask(b"GET /v1/get?a=b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert answer.one("Connection") == "keep-alive"
    assert await wire.still_serves()


async def test_a_client_that_wants_to_close_is_closed(wire):
    answer = await wire.get("/v1/get?a=b", "Connection: close")
    assert answer.one("Connection") == "close"
    assert await wire.ended()


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://test/v1/get?a=b", 200),
        ("HTTP://other:1/v1/get?a=b", 200),
        ("http://test", 404),
        ("http://test?/v1/get", 404),
        ("http://test/v1/get#?a=b", 404),
        ("http://test/v1/unknown", 404),
    ],
)
async def test_the_absolute_form_of_a_target_means_its_path(wire, target, status):
    assert (await wire.get(target)).status == status
    assert await wire.still_serves()


@pytest.mark.parametrize(("method", "target"), [("OPTIONS", "*"), ("CONNECT", "test:80")])
async def test_targets_without_a_path_are_unknown(wire, method, target):
    """HTTP-010"""
    assert (await wire.ask(wire.head(method, target))).code == (404, "route_not_found")
    assert await wire.still_serves()
