"""Commands that run programs by themselves end in order, whatever signal ends them."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from protocol3.cli.failure import CliFailure

T = TypeVar("T")


async def cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    """SIGTERM and SIGHUP cancel the work, as SIGINT does anyway, so that it can take along what programs started.

    Raises CliFailure then. A signal that the caller has ignored (`nohup`) stays ignored.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    received: list[signal.Signals] = []

    def cancel(number: signal.Signals) -> None:
        received.append(number)
        if task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, cancel, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not received:
            raise
        ended = f"ended by {received[0].name}"
        raise CliFailure(ended, code="cancelled", advice="run it again; nothing that it ran is left") from None
