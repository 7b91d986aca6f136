"""Non-blocking pipe ends on the event loop: lines from a program, frames to it."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Iterator
from typing import Final

from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import violation

_CHUNK: Final = 64 * 1024
"""What a pipe holds; a larger buffer for each read would be mapped and unmapped every time."""


class LineReader:
    """Lines of at most ``limit`` bytes, LF included (RUN-021).

    The descriptor is watched all the time, except while more than a line waits that nobody asks for: then the program
    blocks on its pipe.
    """

    def __init__(self, descriptor: int, limit: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._limit = limit
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False
        self._watched = False
        self._waiter: asyncio.Future[None] | None = None
        self._arrived: Callable[[], None] | None = None
        self._watch()

    async def line(self) -> bytes | None:
        """The next line with its LF; None at the end of the stream. Raises ``protocol`` for a line that is too long.

        Cancelling loses nothing: what was read stays for the next call.
        """
        while (line := self._take()) is None:
            if self._ended:
                return None
            self._watch()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return line

    def notify(self, arrived: Callable[[], None] | None) -> None:
        """Call ``arrived`` when something comes, or the stream ends, while nobody waits for a line; None: no more."""
        self._arrived = arrived
        if arrived is not None:
            self._watch()

    def lines_now(self) -> Iterator[bytes]:
        """What has arrived. Raises ``protocol``, or ``runtime`` at the end of the stream."""
        while (line := self._take()) is not None:
            yield line
        if self._ended:
            raise ExecutionFailed("runtime", "the program ended")

    def finish(self) -> None:
        """The program has ended: what its pipe holds now is the rest, whoever else may write to it (WRK-059)."""
        if self._ended:
            return
        (rest,) = struct.unpack("i", fcntl.ioctl(self._descriptor, termios.FIONREAD, bytes(4)))
        self._buffer += os.read(self._descriptor, rest)
        self._end()
        self._tell()

    def close(self) -> None:
        """Before the descriptor is closed."""
        self._arrived = None
        self._unwatch()

    def _readable(self) -> None:
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._buffer += chunk
        if not chunk:
            self._end()
        self._tell()

    def _tell(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        elif self._arrived is not None:
            self._arrived()
        elif len(self._buffer) >= self._limit:
            self._unwatch()

    def _end(self) -> None:
        self._ended = True
        self._unwatch()

    def _watch(self) -> None:
        if not self._watched and not self._ended:
            self._watched = True
            asyncio.get_running_loop().add_reader(self._descriptor, self._readable)

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            asyncio.get_running_loop().remove_reader(self._descriptor)

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
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    async def write(self, frame: bytes) -> bool:
        """False when the program does not read any more."""
        rest = memoryview(frame)
        while rest and not self._ended:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await self._writable()
            except OSError:
                return False
        return not rest

    def finish(self) -> None:
        """The program has ended: nobody reads, whoever else may hold the other end (WRK-059)."""
        self._ended = True
        self._wake()

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        loop.add_writer(self._descriptor, self._wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            loop.remove_writer(self._descriptor)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
