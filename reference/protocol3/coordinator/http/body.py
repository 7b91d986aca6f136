"""Reading a request body: invited when the client asks first, complete, within its limit (HTTP-013, 017, 018, 025)."""

from aiohttp.streams import StreamReader
from aiohttp.web_request import BaseRequest

from protocol3.contract.refusal import Refusal, invalid
from protocol3.coordinator.http.connection import Connection


async def read_body(request: BaseRequest, limit: int) -> bytes:
    """The whole body, with or without a declared length (HTTP-002).

    413 by that length or at the first byte above the limit (JSON-062), 400 if it ends too early.
    """
    declared = request.headers.get("Content-Length")
    if declared is not None and int(declared) > limit:
        raise _too_large(limit)
    _invite(request)
    content = request.content
    chunks: list[bytes] = []
    size = 0
    while not content.at_eof():
        chunk = await _next(content)
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    if Connection.of(request).cut is content:
        raise _incomplete()
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def refuse_body(request: BaseRequest) -> None:
    """A GET carries no body: absent, zero length or empty chunked (HTTP-013)."""
    content = request.content
    if not content.at_eof():
        declared = request.headers.get("Content-Length") is not None
        if not declared:
            _invite(request)
        if declared or await _next(content):
            raise invalid("body", "none is allowed here")
    if Connection.of(request).cut is content:
        raise _incomplete()


def uninvited(request: BaseRequest) -> bool:
    """Whether the client still waits for `100 Continue`: after its refusal nobody knows if the body will come.

    The connection ends then (HTTP-026).
    """
    content = request.content
    return "Expect" in request.headers and not content.is_eof() and Connection.of(request).invited is not content


def _invite(request: BaseRequest) -> None:
    """Send `100 Continue` when the body is first read, unless it is there already."""
    if "Expect" not in request.headers or request.content.is_eof():
        return
    connection = Connection.of(request)
    if request.version.minor and request.headers["Expect"].lower() == "100-continue" and connection.transport:
        connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    connection.invited = request.content


async def _next(content: StreamReader) -> bytes:
    """What has come of the body; empty at its end. Refuses with 400 once the connection is lost or given up."""
    try:
        return await content.readany()
    except BaseException:
        if content.exception() is None:
            raise
        raise _incomplete() from None


def _incomplete() -> Refusal:
    return invalid("body", "is incomplete")


def _too_large(limit: int) -> Refusal:
    return Refusal("invalid_input", f"body: larger than {limit} bytes", status=413)
