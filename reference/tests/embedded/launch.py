"""A launcher in a process of its own, for tests that kill it or run it as somebody else.

    python launch.py BASE [--as USER] [--unfollowed]

Prints one JSON line when the database is ready (or says why not), then waits for the end of standard input.
"""

import argparse
import json
import os
import pwd
import sys
from pathlib import Path

from protocol3.store.embedded import EmbeddedPostgres, EmbeddedPostgresError, processes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("base", type=Path)
    parser.add_argument("--as", dest="user")
    parser.add_argument("--unfollowed", action="store_true", help="as on systems without PR_SET_PDEATHSIG")
    options = parser.parse_args()
    if options.user:  # after all imports: the user may not be able to read them
        entry = pwd.getpwnam(options.user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    if options.unfollowed:
        processes._follow_launcher = lambda: None  # type: ignore[assignment]
    database = EmbeddedPostgres(options.base)
    try:
        database.start()
    except EmbeddedPostgresError as failure:
        print(json.dumps({"error": str(failure)}), flush=True)  # noqa: T201
        return
    print(json.dumps({"pid": database.pid, **database.connect_kwargs}), flush=True)  # noqa: T201
    sys.stdin.read()
    database.stop()


main()
