"""Exchanges byte by byte: what is a whole reply, what is none, and which connection may be used again (CLI-010…016)."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from protocol3.worker import connections
from protocol3.worker.connections import Broken, Connections, Head

PATIENCE_S = 20.0
LIMIT = 100
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HANG = b""
END = None


class Server:
    """Answers each request with the next script: pieces of bytes; END closes the connection, HANG waits for its end."""

    def __init__(self, *scripts: list[bytes | None]) -> None:
        self.scripts = list(scripts)
        self.requests: list[bytes] = []
        self.connections = 0
        self.ended = 0
        self.at_rest: asyncio.StreamWriter | None = None
        self.url = ""
        self.changed = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head)
                if self.scripts[0][0:1] != [b"early"]:
                    self.requests[-1] += await reader.readexactly(length)
                await self._answer(self.scripts.pop(0), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            async with self.changed:
                self.ended += 1
                self.changed.notify_all()

    async def _answer(
        self, script: list[bytes | None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.at_rest = writer
        for piece in script:
            if piece is END:
                raise ConnectionError
            if piece == HANG:
                await reader.read()
                raise ConnectionError
            if piece != b"early":
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    async def until_ended(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self.changed:
            await self.changed.wait_for(lambda: self.ended >= count)


@asynccontextmanager
async def serving(
    *scripts: list[bytes | None], timeout_s: float = PATIENCE_S
) -> AsyncIterator[tuple[Server, Connections]]:
    server = Server(*scripts)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    kept = Connections(server.url, timeout_s=timeout_s, fields=[("Accept", "application/json")])
    try:
        yield server, kept
    finally:
        await kept.close()
        await server.until_ended(server.connections)
        listening.close()


def anything(_: Head) -> int:
    return LIMIT


async def ask(kept: Connections, body: bytes = b"[]") -> tuple[int, bytes]:
    return await asyncio.wait_for(kept.post("/v1/x", body, anything), PATIENCE_S)


async def test_requests_go_one_after_the_other_on_one_connection() -> None:
    """HTTP-005, TRC-023: every field as given, those of one request with it alone."""
    async with serving([OK], [OK]) as (server, kept):
        port = server.url.rpartition(":")[2].encode()
        assert await kept.post("/v1/x", b"[1]", anything, [("traceparent", "00-a")]) == (200, b"{}")
        assert await kept.post("/v1/y", b"", anything) == (200, b"{}")
        common = b"Host: 127.0.0.1:%b\r\nAccept: application/json\r\n" % port
        assert server.requests == [
            b"POST /v1/x HTTP/1.1\r\n%btraceparent: 00-a\r\nContent-Length: 3\r\n\r\n[1]" % common,
            b"POST /v1/y HTTP/1.1\r\n%bContent-Length: 0\r\n\r\n" % common,
        ]
        assert server.connections == 1


@pytest.mark.parametrize(
    ("path", "sent"),
    [("", b"/v1/x"), ("/a/b%2F", b"/a/b%2F/v1/x"), ("/a b\xe9", b"/a%20b%C3%A9/v1/x"), ("/a\r\nb:", b"/ab:/v1/x")],
)
async def test_the_path_of_the_server_goes_before(path: str, sent: bytes) -> None:
    """HTTP-005."""
    async with serving([OK]) as (server, _):
        prefixed = Connections(server.url + path, timeout_s=PATIENCE_S, fields=[])
        await ask(prefixed)
        await prefixed.close()
        assert server.requests[0].split(b" ")[1] == sent


async def test_a_field_with_a_line_break_is_not_sent() -> None:
    async with serving() as (server, kept):
        with pytest.raises(ValueError, match="line break"):
            await kept.post("/v1/x", b"", anything, [("tracestate", "a\r\nX: y")])
        assert server.requests == []


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
WHOLE: dict[str, tuple[list[bytes | None], bytes]] = {
    "byte by byte": ([bytes([byte]) for byte in OK], b"{}"),
    "exactly the limit": ([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", b"x" * 100], b"x" * 100),
    "chunks": ([CHUNKED, b"1\r\n{\r\n", b"1;name=value\r\n}\r\n0\r\n\r\n"], b"{}"),
    "trailers": ([CHUNKED, b"2\r\n{}\r\n0\r\nContent-Type: x/y\r\n\r\n"], b"{}"),
    "informational first": ([CONTINUE, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK], b"{}"),
    "no body": ([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"], b""),
}


@pytest.mark.parametrize("case", WHOLE)
async def test_a_whole_reply_leaves_a_connection_that_is_used_again(case: str) -> None:
    """CLI-010."""
    script, content = WHOLE[case]
    async with serving(script, [OK]) as (server, kept):
        assert await ask(kept) == (200, content)
        assert await ask(kept) == (200, b"{}")
        assert server.connections == 1


ONCE: dict[str, list[bytes | None]] = {
    "said so": [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}"],
    "until the end": [b"HTTP/1.1 200 OK\r\n\r\n", b"{", b"}", END],
    "more than was asked for": [OK + OK],
    "something behind it": [OK + b"x"],
    "closed right after it": [OK, END],
}


@pytest.mark.parametrize("case", ONCE)
async def test_a_connection_that_cannot_be_trusted_is_not_used_again(case: str) -> None:
    """DLV-207: a reply is never taken for that of another request."""
    async with serving(ONCE[case], [OK]) as (server, kept):
        assert await ask(kept) == (200, b"{}")
        await server.until_ended(1)
        assert await ask(kept) == (200, b"{}")
        assert server.connections == 2


async def test_a_reply_before_the_whole_request_ends_the_connection() -> None:
    """What is left of the request would be read as the next one."""
    async with serving([b"early", OK], [OK]) as (server, kept):
        assert await ask(kept, b"x" * 32 * 1024 * 1024) == (200, b"{}")
        await server.until_ended(1)
        assert await ask(kept) == (200, b"{}")
        assert server.connections == 2


MUCH = b"x" * 1000
NONE: dict[str, list[bytes | None]] = {
    "nothing": [END],
    "half a head": [b"HTTP/1.1 200 OK\r\nContent-", END],
    "half a body": [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", END],
    "half a chunk": [CHUNKED + b"3\r\n{}", END],
    "no last chunk": [CHUNKED + b"2\r\n{}\r\n", END],
    "no HTTP": [b"SSH-2.0-x\r\n"],
    "another protocol": [b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"],
    "two lengths": [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", HANG],
    "length and chunks": [CHUNKED[:-2] + b"Content-Length: 2\r\n\r\n{}", HANG],
    "one byte too many": [b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", b"x" * 101, HANG],
    "too many in chunks": [CHUNKED, *[b"a\r\n0123456789\r\n"] * 11, HANG],
    "too many until the end": [b"HTTP/1.1 200 OK\r\n\r\n", MUCH, HANG],
    "an endless head": [b"HTTP/1.1 200 OK\r\n", *[b"X: " + MUCH + b"\r\n"] * 66, HANG],
    "an endless field": [b"HTTP/1.1 200 OK\r\nX: ", *[MUCH] * 66, HANG],
    "endless preliminaries": [*[CONTINUE * 40] * 66, HANG],
    "endless trailers": [CHUNKED + b"0\r\n", *[b"X: " + MUCH + b"\r\n"] * 66, HANG],
    "an endless chunk extension": [CHUNKED + b"2;x=", *[MUCH] * 66, HANG],
}


@pytest.mark.parametrize("case", NONE)
async def test_what_is_no_whole_reply_ends_its_connection(case: str) -> None:
    """CLI-016, DLV-207: the outcome is unknown, and nothing that still comes belongs to the next exchange."""
    async with serving(NONE[case], [OK]) as (server, kept):
        with pytest.raises(Broken):
            await ask(kept)
        assert await ask(kept) == (200, b"{}")
        assert server.connections == 2
        await server.until_ended(1)


async def test_the_head_decides_how_much_may_follow_and_what_is_wrong_with_it() -> None:
    """CLI-014, CLI-016: names without case, values as they came, once for each time they were sent."""
    seen: list[Any] = []

    def judge(head: Head) -> int:
        seen.append((head.status, head.all(b"content-type"), head.all(b"x")))
        raise LookupError("not that")

    reply = b"HTTP/1.1 409 No\r\nCONTENT-TYPE: a/b \r\nX: 1\r\nx: \xe9\r\nContent-Length: 2\r\n\r\n{}"
    async with serving([CONTINUE + reply], [OK]) as (server, kept):
        with pytest.raises(LookupError, match="not that"):
            await kept.post("/v1/x", b"", judge)
        assert seen == [(409, ["a/b"], ["1", "\xe9"])]
        await ask(kept)
        assert server.connections == 2


async def test_a_connection_that_ends_at_rest_is_no_failure() -> None:
    async with serving([OK], [OK]) as (server, kept):
        await ask(kept)
        assert server.at_rest is not None
        server.at_rest.close()
        await server.until_ended(1)
        assert await ask(kept) == (200, b"{}")
        assert server.connections == 2


async def test_what_nobody_asked_for_ends_a_connection_at_rest() -> None:
    """DLV-207: it would be taken for the next reply."""
    async with serving([OK], [OK]) as (server, kept):
        await ask(kept)
        assert server.at_rest is not None
        server.at_rest.write(OK)
        await server.until_ended(1)
        assert await ask(kept) == (200, b"{}")
        assert server.connections == 2


async def test_a_connection_that_rested_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving([OK], [OK]) as (server, kept):
        await ask(kept)
        monkeypatch.setattr(connections, "_REST_S", 0.0)
        await ask(kept)
        assert server.connections == 2
        await server.until_ended(1)


async def test_who_comes_to_rest_ends_those_that_rested_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rush has opened does not stay open for ever."""
    async with serving([OK], [OK]) as (server, kept):
        await asyncio.gather(ask(kept), ask(kept))
        assert (server.connections, server.ended) == (2, 0)
        server.scripts = [[OK], [OK]]
        monkeypatch.setattr(connections, "_REST_S", 3600.0)
        exchange = asyncio.create_task(kept.post("/v1/x", b"", anything))
        await asyncio.sleep(0)  # it has taken one of the two
        monkeypatch.setattr(connections, "_REST_S", 0.0)
        await exchange
        assert server.connections == 2
        await server.until_ended(1)


async def test_a_cancelled_exchange_ends_its_connection() -> None:
    """Its reply would be the next one's."""
    async with serving([HANG], [OK]) as (server, kept):
        exchange = asyncio.create_task(ask(kept))
        async with asyncio.timeout(PATIENCE_S):
            while not server.requests:
                await asyncio.sleep(0.001)
        exchange.cancel()
        await asyncio.wait([exchange])
        assert exchange.cancelled()
        await server.until_ended(1)
        await ask(kept)
        assert server.connections == 2


async def test_silence_times_out_and_ends_the_connection() -> None:
    """CLI-012."""
    async with serving([b"HTTP/1.1 200 OK\r\n", HANG], timeout_s=0.05) as (server, kept):
        with pytest.raises(TimeoutError):
            await ask(kept)
        await server.until_ended(1)


async def test_connecting_counts_towards_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """CLI-012."""

    async def never(*_: Any, **__: Any) -> socket.socket:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr("aiohappyeyeballs.start_connection", never)
    with pytest.raises(TimeoutError):
        await ask(Connections("http://127.0.0.1:9", timeout_s=0.05, fields=[]))


@pytest.mark.parametrize(
    ("url", "error"),
    [("http://127.0.0.1:1", OSError), ("http://a..b", Broken), (f"http://{'a' * 70}.invalid", (Broken, OSError))],
)
async def test_a_server_that_cannot_be_reached(url: str, error: Any) -> None:
    with pytest.raises(error):
        await ask(Connections(url, timeout_s=PATIENCE_S, fields=[]))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="nothing here makes a certificate")
async def test_only_a_server_with_a_trusted_certificate_is_told_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(subprocess.run, make, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = Server([OK])
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    with pytest.raises(ssl.SSLCertVerificationError):
        await ask(Connections(f"https://localhost:{port}", timeout_s=PATIENCE_S, fields=[]))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(ssl.SSLCertVerificationError):  # of another name
        await ask(Connections(f"https://127.0.0.1:{port}", timeout_s=PATIENCE_S, fields=[]))
    assert server.requests == []
    trusting = Connections(f"https://localhost:{port}", timeout_s=PATIENCE_S, fields=[])
    assert await ask(trusting) == (200, b"{}")
    await trusting.close()
    listening.close()


async def test_closing_breaks_what_is_under_way() -> None:
    async with serving([HANG]) as (server, kept):
        exchange = asyncio.create_task(ask(kept))
        async with asyncio.timeout(PATIENCE_S):
            while not server.requests:
                await asyncio.sleep(0.001)
        await kept.close()
        with pytest.raises(Broken):
            await exchange
