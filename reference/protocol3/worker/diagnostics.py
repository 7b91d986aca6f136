"""The worker's lines on standard error: its own, and what programs write. Writing never blocks the event loop."""

import queue
import sys
import threading
from typing import BinaryIO, Final

_QUEUED_BYTES: Final = 4 * 1024 * 1024


class Diagnostics:
    """Queues bytes for a thread that writes them; what does not fit while nobody reads is dropped.

    The worker's own lines never hold application data.
    """

    def __init__(self, stream: BinaryIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr.buffer
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queued = 0
        self._mutex = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="diagnostics", daemon=True)
        self._thread.start()

    def say(self, line: str) -> None:
        """One line of the worker itself, whatever breaks are in it."""
        self.write(f"worker: {' '.join(line.splitlines())}\n".encode())

    def write(self, data: bytes) -> None:
        with self._mutex:
            if self._queued + len(data) > _QUEUED_BYTES:
                return
            self._queued += len(data)
        self._queue.put(data)

    def close(self, timeout_s: float = 1.0) -> None:
        """Write what waits, for at most ``timeout_s``."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            try:
                self._stream.write(data)
                self._stream.flush()
            except (OSError, ValueError):
                continue
            finally:
                with self._mutex:
                    self._queued -= len(data)
