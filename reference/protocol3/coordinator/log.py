"""What a coordinator logs: one JSON object per line, with durable ids and our own words.

Never a payload, never the text of an exception, which may quote one, never a name that a client chose.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

    from protocol3.coordinator.observation import Exchange

_log: Final = logging.getLogger("protocol3.http")
_database: Final = logging.getLogger("protocol3.database")


class Fields(dict[str, object]):
    """The members of one line; as text it is their JSON object, for whoever formats records otherwise."""

    def __str__(self) -> str:
        return json.dumps(self)


class JsonLines(logging.Formatter):
    """A record as one line: `time` (UTC), `level`, `logger`, then its `Fields`, or `message` for a plain sentence.

    Of an exception only type and place are told.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        line |= record.args if isinstance(record.args, Fields) else {"message": record.getMessage()}
        if record.exc_info is not None and record.exc_info[1] is not None:
            line |= _named(record.exc_info[1])
        return json.dumps(line)


def exchange(ended: Exchange) -> None:
    """One line per exchange at INFO; `route` and `method` are null where they would be the client's text."""
    if _log.isEnabledFor(logging.INFO):
        _write(
            logging.INFO,
            event="exchange",
            request_id=ended.request_id,
            method=ended.method,
            route=ended.route,
            status=ended.status,
            code=ended.code,
            ms=round(ended.seconds * 1000, 2),
            **ended.subjects,
        )


def failure(error: BaseException, *, event: str, request_id: str | None = None, route: str | None = None) -> None:
    """An unforeseen exception at ERROR: its type and the innermost place in this package."""
    _write(logging.ERROR, event=event, request_id=request_id, route=route, **_named(error))


def database(why: str | None) -> None:
    """The database was lost, or with None is back: the one line about it, whatever fails meanwhile."""
    if why is None:
        _database.log(logging.WARNING, "%s", Fields(event="database back", next="nothing is to be done"))
    else:
        advice = "start the database or let it take connections; the coordinator goes on by itself then"
        _database.log(logging.ERROR, "%s", Fields(event="database lost", why=why, next=advice))


def unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """The event loop's handler for what nobody awaited; its own one prints the exception's text."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        failure(error, event="background failure")
    else:
        _write(logging.ERROR, event="background failure")


def _named(error: BaseException) -> dict[str, object]:
    place = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if place is None or module.startswith("protocol3."):
            place = f"{module}:{line}"
    return {"type": f"{type(error).__module__}.{type(error).__qualname__}", "place": place}


def _write(level: int, **fields: object) -> None:
    _log.log(level, "%s", Fields(fields))
