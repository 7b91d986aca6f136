"""Binding, serving, and leaving without losing an exchange (HTTP-083)."""

import asyncio
import socket
from typing import Final, Self

from protocol3.contract.limits import EXCHANGE_MS
from protocol3.coordinator.http.connection import ConnectionServer
from protocol3.coordinator.http.exchange import Exchanges

FLUSH_S: Final = 5.0
"""How long replies that are already decided may take to leave when the listener closes."""
_CUT_S: Final = 0.05
"""The same when the grace is over and exchanges are still under way; aiohttp takes zero for no limit."""


def check_address(host: str, port: int) -> None:
    """Raises OSError or UnicodeError if nothing can listen there now: sooner than `Listener.open` would, no surer."""
    for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that only linger do not count
            probe.bind(address)


class Listener:
    """A listening socket and its connections. Make one with `open`."""

    def __init__(self, exchanges: Exchanges, connections: ConnectionServer, server: asyncio.Server) -> None:
        self._exchanges = exchanges
        self._connections = connections
        self._server = server

    @classmethod
    async def open(
        cls, exchanges: Exchanges, *, host: str = "127.0.0.1", port: int = 0, sock: socket.socket | None = None
    ) -> Self:
        """Serve on host and port (0 takes a free one), or on a socket that is bound already. Raises OSError."""
        connections = ConnectionServer(exchanges, exchanges.observe)
        loop = asyncio.get_running_loop()
        if sock is not None:
            server = await loop.create_server(connections, sock=sock, backlog=1024)
        else:
            server = await loop.create_server(connections, host, port, backlog=1024, reuse_address=True)
        return cls(exchanges, connections, server)

    @property
    def port(self) -> int:
        """The port of the first socket."""
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self, *, grace_s: float = EXCHANGE_MS / 1000) -> None:
        """Refuse new work, let admitted exchanges finish within `grace_s`, then stop listening and close connections.

        Until the admitted exchanges are done the listener still answers: 503 on known routes, and health.
        """
        self._exchanges.begin_shutdown()
        flush_s = FLUSH_S
        try:
            async with asyncio.timeout(grace_s):
                await self._exchanges.drained()
        except TimeoutError:
            flush_s = _CUT_S
        self._server.close()
        self._connections.pre_shutdown()
        await self._connections.shutdown(flush_s)
        await self._server.wait_closed()
