"""The private working directory of a program: made, locked while its worker lives, removed (RUN-006, WRK-041).

A worker that was killed leaves its directories behind. The next one of the same user removes those whose lock nobody
holds. Names tell ours from those of other workers with the same prefix, which lock nothing.
"""

import contextlib
import fcntl
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from protocol3.worker.directories import remove_directory

PREFIX: Final = "ledgence-session-"
_OURS: Final = f"{PREFIX}protocol3-"
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class WorkingDirectory:
    """A new one below the folder for temporary files; its `path` is absolute. Raises OSError."""

    def __init__(self) -> None:
        while True:
            self.path = tempfile.mkdtemp(prefix=_OURS)
            lock = _locked(self.path)
            if lock is not None and Path(self.path).exists():
                self._lock: int | None = lock
                return
            if lock is not None:  # somebody who clears up was between the making and the locking
                os.close(lock)

    def remove(self) -> None:
        """Remove it and everything in it; can be repeated. Raises OSError while something stays."""
        remove_directory(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_leftovers() -> None:
    """Remove the directories of this user's workers that are gone, as far as that can be done."""
    for path in Path(tempfile.gettempdir()).glob(f"{_OURS}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                continue
            lock = _locked(str(path))
            if lock is not None:
                try:
                    remove_directory(str(path))
                finally:
                    os.close(lock)


def _locked(path: str) -> int | None:
    """A descriptor that locks the directory until it is closed; None if it is locked already or gone."""
    try:
        descriptor = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
