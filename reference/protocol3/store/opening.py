"""Opening a database for a process: what keeps it from being used, said without its URL, which may hold a password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from protocol3.store.outage import DatabaseError, reason


class Unusable(DatabaseError):
    """The database cannot be used; `advice` is what to do about it."""

    def __init__(self, message: str, *, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


@contextmanager
def opening() -> Iterator[None]:
    """What fails while a connection is made, as `Unusable`; what a server that answered refuses is left as it is."""
    try:
        yield
    except OSError as failure:
        raise Unusable(
            f"the database cannot be reached: {reason(failure)}",
            advice="start PostgreSQL there, or correct --database-url; without it an embedded database is started",
        ) from None
    except ValueError:  # its text quotes what it could not read
        raise Unusable(
            "what --database-url says is no usable address",
            advice="give --database-url postgresql://USER:PASSWORD@HOST:PORT/NAME, with / : @ in a part as %2F %3A %40",
        ) from None
