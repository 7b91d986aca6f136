"""The authority over one attempt while it lives: permission to start user work, and its end (WRK-018, WRK-023…031).

The deadline is a timer of the event loop, everything else an event, and completed work is checked once more before it
counts. Timers stand still while the machine is suspended; so `Admission` has every control look at the clock as well.
"""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from protocol3.contract.models.delivery import Authority
from protocol3.contract.vocabulary import RenewalIntent
from protocol3.worker.authority import LocalAuthority, Stop, intent, renewed
from protocol3.worker.clock import now_ms
from protocol3.worker.interruption import Interrupted, Interruptible


class Stopped(Exception):
    """User work was stopped for good; ``stop`` says why."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.reason)
        self.stop = stop


class AttemptControl:
    """One attempt's authority. Belongs to one event loop; call :meth:`close` at the end."""

    def __init__(self, local: LocalAuthority) -> None:
        self._local = local
        self._taken = False
        self._work: Interruptible | None = None
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = math.inf
        self.next_look_ms = math.inf
        """Until then a look sees nothing new."""
        self._update(local)

    @property
    def stop_reason(self) -> Stop | None:
        """Why user work is over, looked at now."""
        self.look()
        return self._local.stop

    @property
    def intent(self) -> RenewalIntent:
        """What the next renewal asks for (WRK-024)."""
        return intent(self._local, self._taken)

    @property
    def permission_taken(self) -> bool:
        return self._taken

    def renewed(self, authority: Authority, started_ms: float) -> None:
        """Take the reply to a renewal whose request was started at ``started_ms``."""
        self._update(renewed(self._local, authority, started_ms, now_ms()))

    def stop(self, stop: Stop) -> None:
        """End user work for good; clean-up, renewals and settlement go on (WRK-029)."""
        self._update(self._local.stopped(stop))

    def stop_unless_permitted(self, stop: Stop) -> None:
        """The first dispatch renewal was not confirmed in time (WRK-015)."""
        if not self._taken and not self._local.permitted:
            self.stop(stop)

    async def take_permission(self) -> None:
        """Wait for permission and take it, once per attempt (WRK-023). Raises :class:`Stopped`."""
        while True:
            self._changed.clear()
            self.check()
            if self._local.permitted:
                if self._taken:
                    raise RuntimeError("permission is taken once")
                self._taken = True
                return
            await self._changed.wait()

    @contextmanager
    def user_work(self) -> Iterator[None]:
        """User work in the current task: a stop interrupts what it awaits and raises :class:`Stopped`.

        So does a stop that is only seen when the work is complete (WRK-030, WRK-039).
        """
        self.check()
        try:
            with Interruptible() as self._work:
                yield
        except Interrupted:
            self.check()
            raise
        self.check()

    def look(self) -> None:
        """Take notice of a deadline that has passed."""
        now = now_ms()
        if now >= self.next_look_ms:
            self._update(self._local.at(now))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Raises :class:`Stopped` once user work is over."""
        if (stop := self.stop_reason) is not None:
            raise Stopped(stop)

    def _update(self, local: LocalAuthority) -> None:
        before, self._local = self._local, local
        if local is not before:
            self._changed.set()
        if local.stop is not None:
            self.next_look_ms = math.inf
            self.close()
            if before.stop is None and self._work is not None:
                self._work.interrupt()
            return
        self.next_look_ms = local.work_deadline_ms
        if self._timer is None or self.next_look_ms < self._timer_ms:
            self._set_timer()

    def _set_timer(self) -> None:
        """A deadline that moves on leaves the timer alone: it comes early then and is set again."""
        self.close()
        self._timer_ms = self.next_look_ms
        delay = max(self.next_look_ms - now_ms(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._update(self._local.at(now_ms()))
