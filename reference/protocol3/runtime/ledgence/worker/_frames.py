"""Frames on the two pipes between host and child (RUN-021 … RUN-025, RUN-101 … RUN-103).

A frame is one compact JSON object on one line; its LF counts towards the limit.
"""

from __future__ import annotations

import json
import os
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from typing import NoReturn

_CHUNK = 64 * 1024


class ProtocolViolation(Exception):
    """The host broke the process protocol, or a frame cannot be written: the process ends with exit code 70."""


def _refuse_constant(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")


def _integer(digits: str) -> int | float:
    return -0.0 if digits == "-0" else int(digits)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_SIGNED_ZERO_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_int=_integer)


def compact(value: object) -> bytes:
    """Compact JSON of plain values; `ValueError` for non-finite floats and lone surrogates."""
    return _ENCODER.encode(value).encode()


def parse(line: bytes) -> object:
    """The JSON value of one received line; `ValueError` if it is not JSON. The last of equal names wins (RUN-027)."""
    text = line.decode()
    # `-0` is a float (JSON-022). Asking first keeps the fast integer parser for all other lines.
    return (_SIGNED_ZERO_DECODER if "-0" in text else _DECODER).decode(text)


def _set(ready: Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


class FrameReader:
    """Lines of the host, at most `limit` bytes each, LF included (RUN-023)."""

    __slots__ = ("_buffer", "_descriptor", "_limit", "_searched")

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0

    def read(self) -> bytes | None:
        """Wait for the next line; None at the end of the stream. Raises ProtocolViolation."""
        while (line := self._take()) is None:
            if not self._fill():
                return None
        return line

    async def read_in(self, loop: AbstractEventLoop) -> bytes | None:
        """`read` that lets other work of the event loop run meanwhile."""
        while (line := self._take()) is None:
            await self._readable(loop)
            if not self._fill():
                return None
        return line

    async def _readable(self, loop: AbstractEventLoop) -> None:
        ready = loop.create_future()
        try:
            loop.add_reader(self._descriptor, _set, ready)
        except PermissionError:
            return  # a regular file, when started by hand: it cannot be polled and never blocks
        try:
            await ready
        finally:
            loop.remove_reader(self._descriptor)

    def _take(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched) + 1
        if end > self._limit or (not end and len(self._buffer) >= self._limit):
            raise ProtocolViolation(f"a frame is longer than {self._limit} bytes")
        if not end:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._searched = 0
        return line

    def _fill(self) -> bool:
        chunk = os.read(self._descriptor, _CHUNK)
        if not chunk and self._buffer:
            raise ProtocolViolation("the last frame has no line end")
        self._buffer += chunk
        return bool(chunk)


class FrameWriter:
    """Frames to the host. Control frames overtake log frames (RUN-101); each is written completely before the next."""

    __slots__ = ("_closed", "_descriptor", "_pipe", "_turn")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = allocate_lock()  # who writes next: a control frame waits here or ahead of every later log frame
        self._pipe = allocate_lock()  # who writes now
        self._closed = False

    def write(self, frame: bytes, *, last: bool = False) -> None:
        """Write a control frame; `last` refuses every log frame after it (RUN-103)."""
        with self._turn:
            self._pipe.acquire()
        try:
            self._closed = self._closed or last
            self._write(frame)
        finally:
            self._pipe.release()

    def write_log(self, frame: bytes) -> None:
        with self._turn:
            self._pipe.acquire()
        try:
            if not self._closed:
                self._write(frame)
        finally:
            self._pipe.release()

    def _write(self, frame: bytes) -> None:
        rest = memoryview(frame)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
