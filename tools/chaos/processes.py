"""Several coordinators on one database, as the table of races plays against them (`reference/tests/races`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from races.arena import Arena

from protocol3.store.embedded import EmbeddedPostgres
from system import migrate

#: Only processes die here, never the database. A deadlock shows in a moment.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "deadlock_timeout": "100ms"}


@contextmanager
def arena(folder: Path, coordinators: int) -> Iterator[Arena]:
    """Running coordinators with test controls."""
    postgres = EmbeddedPostgres(folder / "database", settings=SETTINGS)
    postgres.start()
    try:
        migrate(postgres.dsn)
        started = Arena.start(folder, postgres.dsn, coordinators)
        with started.system:
            yield started
    finally:
        postgres.stop()


def retried(arena: Arena) -> int:
    """How many transitions the coordinators' logs say were made again because the database ended them."""
    texts = (arena.system.log(name).read_text(errors="replace") for name in arena.names)
    return sum(text.count("is made again after") for text in texts)
