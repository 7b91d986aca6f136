"""Descriptors kept in memory for as long as their files are the ones that they were read from."""

import os
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from protocol3.contract.models.common import Descriptor, ProgramRef

REMEMBERED: Final = 4_096
"""Programs of one store; beyond that the oldest are read again."""

SETTLED_NS: Final = 2_000_000_000
"""A file that changed less than this ago may change again within the same tick of its clock, and look the same."""


class FileIdentity(NamedTuple):
    """What no other file, and no other content of this one, has in common."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Remembered:
    """Descriptors of a store directory, by the identity of their files: what is published or removed is seen at once.

    Asking for it is done on the event loop, so it must not stall: nothing is remembered unless the directory lies on a
    disk of this machine, and nothing that lies behind a link or on another file system than its root.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._device = _disk_of(root)
        self._known: dict[ProgramRef, tuple[FileIdentity, Descriptor]] = {}

    def identity(self, name: PurePosixPath) -> FileIdentity | None:
        """That of a file below the root; None for one that is not to be remembered."""
        if self._device is None:
            return None
        path = str(self._root)
        try:
            for part in name.parts:
                if not self._is(os.lstat(path), stat.S_ISDIR):
                    return None
                path = f"{path}/{part}"
            found = os.lstat(path)
        except OSError:
            return None
        if not self._is(found, stat.S_ISREG):
            return None
        return FileIdentity(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def find(self, program: ProgramRef, identity: FileIdentity | None) -> Descriptor | None:
        """The descriptor that was read from this very file."""
        known = self._known.get(program)
        return known[1] if known is not None and known[0] == identity else None

    def learn(self, program: ProgramRef, identity: FileIdentity | None, descriptor: Descriptor) -> None:
        """`identity` is that from before the file was read: what changed since will not match it."""
        if identity is None or time.time_ns() - max(identity.modified_ns, identity.changed_ns) < SETTLED_NS:
            return
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[program] = identity, descriptor

    def _is(self, found: os.stat_result, kind: Callable[[int], bool]) -> bool:
        return found.st_dev == self._device and kind(found.st_mode)


def _disk_of(root: Path) -> int | None:
    """The device of a directory on a disk; None where asking may wait for a network (its devices have no number)."""
    device = root.stat().st_dev
    return device if sys.platform == "linux" and os.major(device) != 0 else None
