"""What a rule makes of the reply of an exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from protocol3.contract.strict_json import JsonValue, encode
from protocol3.coordinator.http.reply import Reply, new_request_id


def replaced(status: int, body: JsonValue, *, bare: bool) -> Callable[[Reply], Reply]:
    """Another reply in place of the real one; `bare` has no body."""
    content = None if bare else encode(body)
    return lambda _: Reply(status, content, request_id=new_request_id())


class Dropped(Reply):
    """No reply: the connection ends without a byte of it."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status, None, close=True)

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("dropped as a fault rule says")


class Dripped(Reply):
    """The real reply, `size` bytes at a time with a pause after each piece."""

    def __init__(self, reply: Reply, *, size: int, pause_s: float) -> None:
        super().__init__(reply.status, None)
        self._reply = reply
        self._size = size
        self._pause_s = pause_s

    @property
    def keep_alive(self) -> bool:
        return self._reply.keep_alive

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client is gone")
        collected = _Collected(transport)
        await self._reply.prepare(_Seen(request, collected))  # type: ignore[arg-type]  # a request but for its transport
        for start in range(0, len(collected.octets), self._size):
            if transport.is_closing():
                raise ConnectionResetError("the client is gone")
            transport.write(bytes(collected.octets[start : start + self._size]))
            await asyncio.sleep(self._pause_s)
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        await self._reply.write_eof(data)


class _Collected:
    """Takes what would go out; in everything else the transport that it stands for."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.octets = bytearray()

    def write(self, octets: bytes) -> None:
        self.octets += octets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Seen:
    """The request with another transport."""

    def __init__(self, request: BaseRequest, transport: _Collected) -> None:
        self._request = request
        self.transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._request, name)
