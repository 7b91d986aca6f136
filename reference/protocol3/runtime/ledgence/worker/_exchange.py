"""`runtime_request` and `runtime_reply` of one invocation (RUN-071, RUN-075)."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from ._errors import WorkflowError
from ._frames import FrameReader, FrameWriter, ProtocolViolation, compact

_REPLY_MEMBERS = {"v", "type", "event_id", "attempt_id", "id", "result"}


class Exchange:
    """Numbers the requests from 1. The caller sends one at a time."""

    __slots__ = ("_identity", "_last_id", "_limit", "_reader", "_writer")

    def __init__(self, reader: FrameReader, writer: FrameWriter, limit: int, identity: dict[str, Any]) -> None:
        """`identity` holds `v`, `event_id` and `attempt_id`; `limit` is the output frame limit in bytes."""
        self._reader = reader
        self._writer = writer
        self._limit = limit
        self._identity = identity
        self._last_id = 0

    async def request(self, operation: str, payload: bytes) -> Any:
        """Send compact JSON, return the `result` of the reply. Raises WorkflowError if there is no valid reply."""
        self._last_id += 1
        head = {**self._identity, "type": "runtime_request", "id": self._last_id, "operation": operation}
        frame = b'%b,"payload":%b}\n' % (compact(head)[:-1], payload)
        if len(frame) > self._limit:
            raise WorkflowError(f"{operation} does not fit a frame of {self._limit} bytes")
        self._writer.write(frame)
        try:
            line = await self._reader.read_in(asyncio.get_running_loop())
        except ProtocolViolation as violation:
            raise WorkflowError(f"reply: {violation}") from None
        if line is None:
            raise WorkflowError("the host closed the pipe instead of a reply")
        return self._result(line)

    def _result(self, line: bytes) -> Any:
        try:
            reply = json.loads(line.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise WorkflowError(f"reply: {error}") from None
        if not isinstance(reply, dict) or reply.keys() != _REPLY_MEMBERS:
            raise WorkflowError("reply: members differ from runtime_reply")
        expected = {**self._identity, "type": "runtime_reply", "id": self._last_id}
        for name, value in expected.items():
            if type(reply[name]) is not type(value) or reply[name] != value:
                raise WorkflowError(f"reply: {name} is not that of the request")
        return reply["result"]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member name occurs twice")
    return members


def _refuse_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")
