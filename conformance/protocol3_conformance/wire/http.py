"""Raw HTTP/1.1 on a TCP connection: the sender chooses every byte, the reader accepts only well-formed replies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Self

from protocol3_conformance.wire.faults import TransportFault

STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?\r\n")
HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\r\n]*)?\r\n")
MAX_HEAD = 64 * 1024
MAX_BODY = 32 * 1024 * 1024
"""Above every reply limit of the contract; a larger body is cut off here instead of filling memory."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One reply as it came: header fields in order, the body without its transfer coding."""

    status: int
    headers: Headers
    body: bytes
    keeps_connection: bool

    def field(self, name: str) -> list[str]:
        """All values of one header field, in order."""
        return [value for field, value in self.headers if field.lower() == name.lower()]


def request_bytes(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """Head and body exactly as given; no header is added."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def chunked(body: bytes, size: int) -> bytes:
    """The chunked coding of a body, in pieces of `size` bytes."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class Connection:
    """One TCP connection. Every method raises TransportFault; the caller sets the time limit."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        try:
            return cls(*await asyncio.open_connection(host, port, limit=MAX_HEAD))
        except OSError as error:
            raise TransportFault(f"cannot connect to {host}:{port}: {error.strerror or error}") from None

    async def send(self, data: bytes) -> None:
        """Send bytes. A target that closes while the body is on its way may still have replied, so that is no fault."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError:
            return

    def finish_sending(self) -> None:
        """Half-close: no more bytes will come from here, the reply can still be read."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    def abort(self) -> None:
        """Drop the connection without the closing handshake."""
        self._writer.transport.abort()

    async def reply(self, *, to_head: bool = False) -> Reply:
        """The next final reply; interim (1xx) replies are skipped. `to_head`: the reply carries no body."""
        while True:
            minor, status = await self._status()
            headers = await self._headers()
            if not 100 <= status < 200:
                break
        reply = Reply(status=status, headers=headers, body=b"", keeps_connection=False)
        body, delimited = (b"", True) if to_head or status in (204, 304) else await self._body(reply)
        tokens = ",".join(reply.field("Connection")).lower().replace(" ", "").split(",")
        keeps = delimited and minor == 1 and "close" not in tokens
        return Reply(status=status, headers=headers, body=body, keeps_connection=keeps)

    async def _status(self) -> tuple[int, int]:
        line = await self._line("the status line")
        found = STATUS_LINE.fullmatch(line)
        if not found:
            raise TransportFault(f"the reply does not begin with an HTTP/1.1 status line but with {line[:80]!r}")
        return int(found[1]), int(found[2])

    async def _headers(self) -> Headers:
        headers: list[tuple[str, str]] = []
        size = 0
        while (line := await self._line("the header fields")) != b"\r\n":
            found = HEADER_LINE.fullmatch(line)
            if not found:
                raise TransportFault(f"malformed header line {line[:80]!r}")
            size += len(line)
            if size > MAX_HEAD:
                raise TransportFault(f"header fields of more than {MAX_HEAD} bytes")
            headers.append((found[1].decode("latin-1"), found[2].decode("latin-1")))
        return tuple(headers)

    async def _body(self, head: Reply) -> tuple[bytes, bool]:
        """(body, whether its end was marked, so that the connection can serve another exchange)."""
        codings, lengths = head.field("Transfer-Encoding"), head.field("Content-Length")
        if codings:
            if [coding.lower() for coding in codings] != ["chunked"] or lengths:
                raise TransportFault(f"body length is ambiguous: Transfer-Encoding {codings}, Content-Length {lengths}")
            return await self._chunks(), True
        if not lengths:
            return await self._read(self._reader.read(MAX_BODY), "the body"), False
        if len(lengths) > 1 or not re.fullmatch(r"[0-9]{1,12}", lengths[0]):
            raise TransportFault(f"Content-Length is not one number: {lengths}")
        return await self._exactly(int(lengths[0])), True

    async def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            found = CHUNK_LINE.fullmatch(await self._line("a chunk size"))
            if not found:
                raise TransportFault("malformed chunk size")
            size = int(found[1], 16)
            if size == 0:
                await self._headers()
                return bytes(body)
            if len(body) + size > MAX_BODY:
                raise TransportFault(f"a body of more than {MAX_BODY} bytes")
            body += await self._exactly(size)
            if await self._exactly(2) != b"\r\n":
                raise TransportFault("a chunk does not end where its size says")

    async def _exactly(self, size: int) -> bytes:
        if size > MAX_BODY:
            raise TransportFault(f"a body of more than {MAX_BODY} bytes is announced")
        return await self._read(self._reader.readexactly(size), "the body")

    async def _line(self, what: str) -> bytes:
        line = await self._read(self._reader.readline(), what)
        if not line.endswith(b"\n"):
            came = f" (it began {line[:80]!r})" if line else ""
            raise TransportFault(f"the connection was closed before {what} was complete{came}")
        return line

    async def _read(self, reading: Awaitable[bytes], what: str) -> bytes:
        try:
            return await reading
        except asyncio.IncompleteReadError as short:
            raise TransportFault(f"{what} was cut off after {len(short.partial)} bytes") from None
        except ValueError:
            raise TransportFault(f"{what}: a line of more than {MAX_HEAD} bytes") from None
        except OSError as error:
            raise TransportFault(f"the connection broke while {what} was read: {error.strerror or error}") from None
