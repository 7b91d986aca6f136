"""A process and the suite's ends of its pipes: every byte is chosen, nothing is read before it is asked for."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from protocol3_conformance.bounds import bound
from protocol3_conformance.wire.faults import TransportFault, Violation

CHUNK = 1 << 20
LONGEST_LINE = 4 * bound("FRAME_BYTES")
"""No line that a check asks for is longer; without an end a flood would be read for ever."""
POLL_SECONDS = 0.005


class Process:
    """A child process in a group of its own. Every wait ends after `seconds` with a TransportFault."""

    def __init__(self, command: Sequence[str], *, stderr: Path, directory: Path, seconds: float) -> None:
        self.command, self.seconds = tuple(command), seconds
        self._stderr = stderr
        self._received = b""
        with stderr.open("wb") as sink:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                bufsize=0,
                cwd=directory,
                start_new_session=True,
            )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._input, self._output = self._popen.stdin, self._popen.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._popen.poll()

    @property
    def usable(self) -> bool:
        """Whether another line can be sent."""
        return self.alive and not self._input.closed

    def stderr(self) -> str:
        """What the process and its children have written to standard error so far."""
        return self._stderr.read_text(errors="replace")

    def written(self) -> bytes:
        """What lies unread on its standard output, as far as the pipe holds it."""
        with suppress(BlockingIOError):
            self._received += os.read(self._output.fileno(), CHUNK)
        return self._received

    async def send(self, data: bytes) -> None:
        """Write all of it. A process that ends meanwhile is no fault: its exit code says what came of it."""
        rest = memoryview(data)
        with suppress(BrokenPipeError):
            while rest:
                try:
                    rest = rest[os.write(self._input.fileno(), rest) :]
                except BlockingIOError:
                    await self._ready(self._input.fileno(), writing=True)

    async def line(self) -> bytes:
        """The next line with its LF; what is left at the end of the stream, b"" after it.

        Raises Violation for a flood.
        """
        while b"\n" not in self._received:
            if len(self._received) > LONGEST_LINE:
                raise Violation("standard output", f"{len(self._received)} bytes without a newline", "RUN-021")
            chunk = await self._chunk()
            if not chunk:
                rest, self._received = self._received, b""
                return rest
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line + b"\n"

    async def silent(self, seconds: float = 0.05) -> bool:
        """Whether nothing has come that was not asked for, and nothing comes for a moment more."""
        if self._received:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return not await self._chunk(keep=True)
        return True

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Look again until it holds."""
        try:
            async with asyncio.timeout(self.seconds):
                while not condition():  # noqa: ASYNC110 - nobody tells that a process has written or ended
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise TransportFault(f"{what}: not seen within {self.seconds:g} s; {self.said()}") from None

    async def ended(self) -> int:
        """The exit code; a signal is negative."""
        await self.until("the end of the process", lambda: not self.alive)
        return self._popen.wait()

    def said(self) -> str:
        """Its state and the end of its standard error, for a message."""
        state = "the process runs" if self.alive else f"the process ended with code {self.code}"
        return f"{state}; the end of its standard error: {self.stderr()[-600:]!r}"

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def close_input(self) -> None:
        self._input.close()

    def kill(self) -> None:
        """End the group and close the pipes."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        self._input.close()
        self._output.close()

    async def _chunk(self, *, keep: bool = False) -> bytes:
        while True:
            try:
                chunk = os.read(self._output.fileno(), CHUNK)
            except BlockingIOError:
                await self._ready(self._output.fileno(), writing=False)
                continue
            if keep:
                self._received += chunk
            return chunk

    async def _ready(self, descriptor: int, *, writing: bool) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        watch, forget = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)
        watch(descriptor, lambda: None if ready.done() else ready.set_result(None))
        try:
            async with asyncio.timeout(self.seconds):
                await ready
        except TimeoutError:
            word = "does not read its standard input" if writing else "is silent"
            raise TransportFault(f"the process {word} for {self.seconds:g} s; {self.said()}") from None
        finally:
            forget(descriptor)
