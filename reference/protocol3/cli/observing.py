"""Waiting for the end of a task or workflow (CLI-007, CLI-025)."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from protocol3.cli.client import Client
from protocol3.cli.failure import CliFailure, Rejected
from protocol3.cli.output import emit

POLL_S: Final = 1.0


def report(
    client: Client,
    path: str,
    query: Mapping[str, str],
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Print the result at `path`/result, after at most `seconds` of looking at `path`/status once a second.

    An unfinished one is printed as well; with a wait that is then a failure, as is what a wait cannot outlast.
    """
    end = clock() + seconds
    while seconds and not _finished(client, path, query, end, clock) and clock() < end:
        pause(min(POLL_S, max(0.0, end - clock())))
    result = client.get(f"{path}/result", query)
    emit(result)
    if seconds and isinstance(result, dict) and result.get("outcome") is None:
        raise CliFailure(
            f"not finished after {seconds:g} s",
            code="pending",
            advice="only the observation has ended: ask again, with a longer --wait",
        )


def _finished(client: Client, path: str, query: Mapping[str, str], end: float, clock: Callable[[], float]) -> bool:
    try:
        status = client.get(f"{path}/status", query)
    except Rejected:
        raise
    except CliFailure as failure:
        if failure.code == "protocol" or clock() >= end:
            raise
        return False  # a lost connection or 503 may pass within the time there is
    return isinstance(status, dict) and status.get("terminal_at") is not None
