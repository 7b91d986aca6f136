"""A request that is sent whole or by half, and whose reply does not reach whoever sent it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from protocol3_conformance.wire.exchange import Exchange
from protocol3_conformance.wire.http import Connection
from protocol3_conformance.wire.peer import Peer
from protocol3_conformance.wire.strict_json import JsonValue, encode


@dataclass(slots=True, kw_only=True)
class Interrupted:
    """One POST on a connection of its own; the transcript says what became of it."""

    peer: Peer
    exchange: Exchange
    connection: Connection
    data: bytes

    @classmethod
    async def begin(cls, peer: Peer, path: str, body: JsonValue) -> Self:
        """Connected, and nothing sent yet."""
        content = encode(body)
        exchange = peer.record("POST", path, peer.standard_headers("POST", content), content)
        connection = await Connection.open(peer.endpoint.host, peer.endpoint.port)
        return cls(peer=peer, exchange=exchange, connection=connection, data=peer.bytes_of(exchange))

    @property
    def _half(self) -> int:
        return len(self.data) - len(self.exchange.body) // 2

    async def send(self) -> None:
        await self.connection.send(self.data)

    async def send_half(self) -> None:
        """The head, and the body but for its second half."""
        await self.connection.send(self.data[: self._half])

    async def withheld(self) -> Exchange:
        """Send it, and keep the reply from whoever sent the command, as a proxy that drops it would."""
        return await self.peer.run_on(self.connection, self.exchange, self.data)

    async def finish(self) -> Exchange:
        """Send the second half, and read and judge the reply after all."""
        try:
            return await self.peer.run_on(self.connection, self.exchange, self.data[self._half :])
        finally:
            self.connection.abort()

    def cut(self, why: str) -> None:
        """Drop the connection."""
        self.exchange.fault = why
        self.exchange.ended_ms = self.peer.now_ms()
        self.connection.abort()
