"""Ending a loop although an error took the place of its cancellation.

Cancelled while it uses a dead connection, a task may see the error of the clean-up (a rollback, a release to the pool)
instead of the cancellation. A loop that survives errors would go on, and whoever cancelled it would wait for ever.
"""

from __future__ import annotations

import asyncio


def end_if_cancelled() -> None:
    """For every handler after which a loop goes on: raises CancelledError if the current task was told to end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
