"""What the edge logs: a JSON object per line; never a payload, nor the text of an exception, which may quote one."""

import json
import logging
import traceback
from typing import Final

_log: Final = logging.getLogger("protocol3.http")


def exchanges_wanted() -> bool:
    """Whether anybody reads the lines of `exchange`."""
    return _log.isEnabledFor(logging.INFO)


def exchange(*, request_id: str, method: str, route: str | None, status: int, code: str | None, ms: float) -> None:
    """One line per exchange at INFO. `route` is None for an unknown path: that is the client's text."""
    _write(
        logging.INFO,
        event="exchange",
        request_id=request_id,
        method=method,
        route=route,
        status=status,
        code=code,
        ms=round(ms, 2),
    )


def failure(error: BaseException, *, event: str, request_id: str | None = None, route: str | None = None) -> None:
    """An unforeseen exception at ERROR: its type and the innermost place in this package."""
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if place is None or module.startswith("protocol3."):
            place = f"{module}:{line}"
    kind = f"{type(error).__module__}.{type(error).__qualname__}"
    _write(logging.ERROR, event=event, request_id=request_id, route=route, type=kind, place=place)


def _write(level: int, **fields: object) -> None:
    _log.log(level, "%s", json.dumps(fields))
