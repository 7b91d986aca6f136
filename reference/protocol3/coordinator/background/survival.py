"""Surviving an error: for every handler after which a loop goes on.

Cancelled while it uses a dead connection, a task may see the error of the clean-up (a rollback, a release to the pool)
instead of the cancellation. A loop that survives errors would go on, and whoever cancelled it would wait for ever. The
other way round, what a loop waits for may have been cancelled, which is no reason for the loop to end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from protocol3.store.outage import DatabaseAway

#: What a loop goes on after, if `survived` returns.
ERRORS: Final = (Exception, asyncio.CancelledError)


def survived(error: BaseException, log: logging.Logger, what: str, *args: object) -> None:
    """Log that something failed, unless the database is away, which is in the log already.

    Raises CancelledError if the current task was told to end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
    if not isinstance(error, DatabaseAway):
        log.warning(f"{what}: %s", *args, type(error).__name__)
