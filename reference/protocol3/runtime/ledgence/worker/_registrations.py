"""What application code registered in this process: the helper's only process-wide mutable state."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ._log_sink import LogSink
    from .otel import Bridge


class Registrations:
    """`shutdown_callbacks` in order, the `bridge` of ledgence.worker.otel, the `log_sink` of this process's host."""

    __slots__ = ("bridge", "log_sink", "shutdown_callbacks")

    def __init__(self) -> None:
        self.shutdown_callbacks: list[Callable[[], object]] = []
        self.bridge: Bridge | None = None
        self.log_sink: LogSink | None = None


REGISTRATIONS = Registrations()
