"""Whether the worker takes work, and what ends that: a signal, a lost session, a fatal answer (WRK-089…091)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from protocol3.worker.authority import Stop
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl
from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.interruption import Interruptible
from protocol3.worker.settlement import Resolution

_LOOK_S: Final = 0.01
_STOPPING: Final = Stop(kind="cancelled", reason="the worker is stopping")


class Admission:
    """Shared by all consumers of a worker. Admission ends once and for good.

    ``failure`` says why it ended by itself; it is None while it is open and after a signal.
    """

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.is_open = True
        self.failure: str | None = None
        self.settled_attempts = 0
        self.lost_attempts = 0
        self._diagnostics = diagnostics
        self._controls: dict[str, AttemptControl] = {}
        self._waiting: set[Interruptible] = set()
        self._next_look: asyncio.TimerHandle | None = None

    def drain(self, reason: str) -> None:
        """The worker cannot go on: take no more work, but bring owned work to its end (WRK-012, WRK-071, WRK-097)."""
        if self.is_open:
            self.failure = reason
        self._close(reason)

    def fail(self, reason: str) -> None:
        """A fatal answer of the coordinator: take no more work, and stop the user work that runs (WRK-089)."""
        if self.failure is None:
            self.failure = reason
            self._diagnostics.say(f"fatal: {reason}")
        self.stop(reason)

    def stop(self, reason: str) -> None:
        """Asked for by a signal: the same, but no failure."""
        self._close(reason)
        for control in self._controls.values():
            control.stop(_STOPPING)

    def _close(self, reason: str) -> None:
        if self.is_open:
            self.is_open = False
            self._diagnostics.say(f"takes no more work: {reason}")
            for waiting in self._waiting:
                waiting.interrupt()

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
        if self._next_look is None:
            self._look()
        return True

    def disown(self, attempt_id: str) -> None:
        del self._controls[attempt_id]

    def _look(self) -> None:
        """Every 10 ms while anything is owned: a suspended machine has passed deadlines that no timer saw (WRK-030)."""
        now = now_ms()
        for control in self._controls.values():
            if now >= control.next_look_ms:
                control.look()
        self._next_look = asyncio.get_running_loop().call_later(_LOOK_S, self._look) if self._controls else None
