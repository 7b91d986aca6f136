"""Where log frames wait for the pipe (RUN-098 … RUN-104)."""

from __future__ import annotations

from _thread import allocate_lock

from ._frames import compact
from ._invocation import running
from ._limits import LOG_FRAME_BYTES
from ._registrations import REGISTRATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Condition
    from typing import Any

    from ._frames import FrameWriter

# RUN-100
_QUEUE_RECORDS = 64
_QUEUE_BYTES = 1024 * 1024
# RUN-098
_LOGGER_CHARACTERS = 256
_SEVERITY_CHARACTERS = 32
_MESSAGE_CHARACTERS = 4096
_IDENTITY = ("source", "tenant_id", "namespace", "run_id", "task_id", "attempt_no")


class LogSink:
    """Takes records at any time, writes them from its own thread once `open`; `dropped` counts what found no room.

    Its thread exists from the first record on: most tasks never log. Once the writer has closed it refuses what still
    waits here (RUN-103).
    """

    __slots__ = (
        "_bytes",
        "_changed",
        "_frame_bytes",
        "_open",
        "_protocol",
        "_queue",
        "_starting",
        "_writer",
        "dropped",
    )

    def __init__(self, writer: FrameWriter, protocol: int, output_limit: int) -> None:
        self._writer = writer
        self._protocol = protocol
        self._frame_bytes = min(LOG_FRAME_BYTES, output_limit)
        self._queue: list[bytes] = []
        self._bytes = 0
        self._open = False
        self._starting = allocate_lock()
        self._changed: Condition | None = None
        self.dropped = 0

    def open(self) -> None:
        """`ready` is written: records may follow (RUN-102)."""
        self._open = True
        if self._changed is not None:
            with self._changed:
                self._changed.notify()

    def take(self, *, time: str, severity: str, logger: str, message: str, attributes: dict[str, Any]) -> None:
        """Encode one record now, so that later changes cannot relabel it (RUN-097, HLP-016), and queue it (RUN-116)."""
        frame: dict[str, Any] = {
            "v": self._protocol,
            "type": "log",
            "time": time,
            "severity": severity[:_SEVERITY_CHARACTERS],
            "logger": logger[:_LOGGER_CHARACTERS],
            "message": message[:_MESSAGE_CHARACTERS],
            "attributes": attributes,
        }
        frame.update(self._origin())
        encoded = self._shortened(frame)
        if encoded is not None:
            self._enqueue(encoded)

    def _origin(self) -> dict[str, Any]:
        """Identity (HLP-013, HLP-014) and trace ids (HLP-015) of the invocation whose context is current."""
        origin: dict[str, Any] = {}
        invocation = running.get()
        bridge = REGISTRATIONS.bridge
        ids = bridge.active_ids() if bridge else None
        if invocation is not None:
            identity = invocation.identity
            names = list(_IDENTITY)
            if self._protocol >= 3:
                names += ["workflow_id", "activation_id"]
                if identity["parent_workflow_id"] is not None:
                    names += ["parent_workflow_id", "root_workflow_id"]
            known = {name: identity[name] for name in names if identity[name] is not None}
            origin["invocation"] = {"event_id": invocation.event_id, "attempt_id": invocation.attempt_id, **known}
            if bridge is None and invocation.carrier is not None:
                _, trace_id, span_id, _ = invocation.carrier[0].split("-")
                ids = trace_id, span_id
        if ids is not None:
            origin["trace_id"], origin["span_id"] = ids
        return origin

    def _shortened(self, frame: dict[str, Any]) -> bytes | None:
        """RUN-099."""
        encoded = compact(frame) + b"\n"
        if len(encoded) > self._frame_bytes:
            frame["attributes"] = {}
            encoded = compact(frame) + b"\n"
        while len(encoded) > self._frame_bytes and frame["message"]:
            frame["message"] = frame["message"][: len(frame["message"]) // 2]
            encoded = compact(frame) + b"\n"
        return encoded if len(encoded) <= self._frame_bytes else None

    def _enqueue(self, frame: bytes) -> None:
        changed = self._started()
        with changed:
            if len(self._queue) >= _QUEUE_RECORDS or self._bytes + len(frame) > _QUEUE_BYTES:
                self.dropped += 1
                return
            self._queue.append(frame)
            self._bytes += len(frame)
            changed.notify()

    def _started(self) -> Condition:
        from threading import Condition, Thread

        with self._starting:
            if self._changed is None:
                self._changed = Condition()
                Thread(target=self._deliver, args=(self._changed,), name="ledgence-log", daemon=True).start()
            return self._changed

    def _deliver(self, changed: Condition) -> None:
        while True:
            with changed:
                changed.wait_for(lambda: self._open and self._queue)
                frame = self._queue.pop(0)
                self._bytes -= len(frame)
            try:
                self._writer.write_log(frame)
            except OSError:
                return  # the host is gone; the main thread finds out by itself
