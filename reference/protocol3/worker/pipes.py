"""Non-blocking pipe ends on the event loop: lines from a program, frames to it.

Descriptors are watched only while somebody waits, so an idle process costs nothing and a busy one one read per line.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Final

from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import violation

_CHUNK: Final = 256 * 1024


class LineReader:
    """Lines of at most ``limit`` bytes, LF included (RUN-021)."""

    def __init__(self, descriptor: int, limit: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0

    async def line(self) -> bytes | None:
        """The next line with its LF; None at the end of the stream. Raises ``protocol`` for a line that is too long.

        Cancelling loses nothing: what was read stays for the next call.
        """
        while (line := self._take()) is None:
            await _ready(self._descriptor, asyncio.get_running_loop().add_reader, _unwatch_reader)
            try:
                chunk = os.read(self._descriptor, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                return None
            self._buffer += chunk
        return line

    def lines_now(self) -> Iterator[bytes]:
        """What has arrived, after at most one read. Raises ``protocol``, or ``runtime`` at the end of the stream."""
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            chunk = None
        except OSError:
            chunk = b""
        self._buffer += chunk or b""
        while (line := self._take()) is not None:
            yield line
        if chunk == b"":
            raise ExecutionFailed("runtime", "the program ended")

    def watch(self, arrived: Callable[[], None]) -> None:
        """Call ``arrived`` when something comes or the stream ends, until :meth:`unwatch`."""
        asyncio.get_running_loop().add_reader(self._descriptor, arrived)

    def unwatch(self) -> None:
        _unwatch_reader(self._descriptor)

    def _take(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched) + 1
        if end > self._limit or (not end and len(self._buffer) >= self._limit):
            raise violation(f"a frame is longer than {self._limit} bytes")
        if not end:
            self._searched = len(self._buffer)
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._searched = 0
        return line


class FrameWriter:
    """Writes frames completely, one after the other (RUN-022)."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def write(self, frame: bytes) -> bool:
        """False when the program does not read any more."""
        rest = memoryview(frame)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await _ready(self._descriptor, asyncio.get_running_loop().add_writer, _unwatch_writer)
            except OSError:
                return False
        return True


async def _ready(descriptor: int, watch: Callable[..., object], unwatch: Callable[[int], None]) -> None:
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    watch(descriptor, _set, waiting)
    try:
        await waiting
    finally:
        unwatch(descriptor)


def _set(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _unwatch_reader(descriptor: int) -> None:
    asyncio.get_running_loop().remove_reader(descriptor)


def _unwatch_writer(descriptor: int) -> None:
    asyncio.get_running_loop().remove_writer(descriptor)
