"""Whether the worker takes work, and what ends that: a signal, a lost session, a fatal answer (WRK-089…091)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from protocol3.worker.authority import Stop
from protocol3.worker.control import AttemptControl
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.interruption import Interruptible
from protocol3.worker.settlement import Resolution

_STOPPING: Final = Stop(kind="cancelled", reason="the worker is stopping")


class Admission:
    """Shared by all consumers of a worker. Admission ends once and for good."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.is_open = True
        self.failure: str | None = None
        self.settled_attempts = 0
        self.lost_attempts = 0
        self._diagnostics = diagnostics
        self._controls: dict[str, AttemptControl] = {}
        self._waiting: set[Interruptible] = set()

    def drain(self, reason: str) -> None:
        """Take no more work; owned work goes on to its end (WRK-012, WRK-071)."""
        if self.is_open:
            self._diagnostics.say(f"takes no more work: {reason}")
            self.is_open = False
            for waiting in self._waiting:
                waiting.interrupt()

    def stop(self, reason: str) -> None:
        """Take no more work and stop the user work that runs (WRK-089)."""
        self.drain(reason)
        for control in self._controls.values():
            control.stop(_STOPPING)

    def fail(self, reason: str) -> None:
        """A fatal answer of the coordinator: stop, and end with an error."""
        if self.failure is None:
            self.failure = reason
            self._diagnostics.say(f"fatal: {reason}")
        self.stop(reason)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A wait that the end of admission cuts short: it raises Interrupted (WRK-090)."""
        with Interruptible() as work:
            self._waiting.add(work)
            try:
                yield
            finally:
                self._waiting.discard(work)

    def count(self, resolution: Resolution) -> None:
        if resolution == "accepted":
            self.settled_attempts += 1
        else:
            self.lost_attempts += 1

    def own(self, attempt_id: str, control: AttemptControl) -> bool:
        """Register a live attempt; False if it is owned here already (WRK-055).

        What turns out to be assigned after admission has ended is not run (WRK-090).
        """
        if attempt_id in self._controls:
            return False
        if not self.is_open:
            control.stop(_STOPPING)
        self._controls[attempt_id] = control
        return True

    def disown(self, attempt_id: str) -> None:
        del self._controls[attempt_id]
