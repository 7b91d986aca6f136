"""Interrupting what the current task awaits, like ``asyncio.timeout`` does at a deadline, but on an event."""

import asyncio
from types import TracebackType


class Interrupted(Exception):
    """The awaited work was interrupted."""


class Interruptible:
    """``with Interruptible() as work: ...``: ``work.interrupt()`` makes the body raise :class:`Interrupted`."""

    def __init__(self) -> None:
        self.interrupted = False
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def __enter__(self) -> "Interruptible":
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be interrupted")
        self._task = task
        self._cancelling = task.cancelling()
        return self

    def interrupt(self) -> None:
        """No effect on a body that is over, or on the task itself."""
        if self._task is not None and self._task is not asyncio.current_task() and not self.interrupted:
            self.interrupted = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if task is None or not self.interrupted:
            return
        if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Interrupted from error
