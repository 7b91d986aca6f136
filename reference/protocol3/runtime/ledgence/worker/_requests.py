"""Durable requests of one activation, one at a time; the first that fails ends them all (HLP-059, HLP-112)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ._errors import WorkflowError

Rpc = Callable[[str, bytes], Awaitable[Any]]


class Requests:
    """`failure` is the error of the acknowledgement that made the activation fatal, or None."""

    __slots__ = ("_rpc", "_turn", "failure")

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._turn = asyncio.Lock()
        self.failure: Exception | None = None

    def refuse_if_fatal(self) -> None:
        if self.failure is not None:
            raise WorkflowError(f"an acknowledgement failed before: {self.failure}") from self.failure

    async def send(self, operation: str, payload: bytes, expected: dict[str, Any]) -> None:
        """Send and wait for exactly the `expected` acknowledgement (RUN-115).

        A cancelled caller whose request is already on the wire still waits for the reply (HLP-115); one that is only
        queued sends nothing.
        """
        async with self._turn:
            self.refuse_if_fatal()
            exchange = asyncio.ensure_future(self._exchange(operation, payload, expected))
            try:
                await asyncio.shield(exchange)
            except asyncio.CancelledError:
                await asyncio.wait([exchange])
                raise

    async def _exchange(self, operation: str, payload: bytes, expected: dict[str, Any]) -> None:
        try:
            reply = await self._rpc(operation, payload)
            if not _same(reply, expected):
                raise WorkflowError(f"{operation}: the reply is not the acknowledgement")
        except BaseException as error:
            self.failure = error if isinstance(error, Exception) else WorkflowError(f"{operation} was interrupted")
            raise


def _same(reply: Any, expected: Any) -> bool:
    """Equality in value and JSON type: `1` is not `true` (RUN-079, RUN-080)."""
    if type(reply) is not type(expected):
        return False
    if isinstance(expected, dict):
        return reply.keys() == expected.keys() and all(_same(reply[name], expected[name]) for name in expected)
    if isinstance(expected, list):
        return len(reply) == len(expected) and all(map(_same, reply, expected))
    return bool(reply == expected)
