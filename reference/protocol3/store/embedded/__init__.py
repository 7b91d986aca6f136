"""A PostgreSQL server of our own, for whoever gives no database URL: found, initialised, started, stopped.

Only the binaries come from a package; everything about their life is here. Linux and macOS.
"""

from protocol3.store.embedded.errors import EmbeddedPostgresError
from protocol3.store.embedded.launcher import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]
