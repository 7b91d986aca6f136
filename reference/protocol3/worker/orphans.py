"""Processes that programs leave behind outside their groups: daemons, `setsid` (WRK-040, WRK-041). Linux only.

A program inherits what its descendants leave behind (see `groups.follow_worker`), and the worker what a program leaves
behind that is gone. So a child of the worker that is no program belonged to one that has ended, whatever it did to its
group, its session and its parents.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PR_SET_CHILD_SUBREAPER: Final = 36
_LAST_ROUNDS: Final = 200
_ROUND_S: Final = 0.005


def inherit_orphans() -> None:
    """The calling process becomes the parent of what its descendants leave behind; nothing happens elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


class Orphans:
    """Of the programs of this process, which is the worker's own: nothing else in it may start processes.

    Children that it had before (of the shell that it replaced) are left alone. Belongs to one thread. Only children are
    killed, which nobody else can reap: a number that was given to another process meanwhile is never hit.
    """

    def __init__(self) -> None:
        inherit_orphans()
        self._others = frozenset(_children())
        self._programs: set[int] = set()

    def started(self, program: int) -> None:
        """This child is a running program."""
        self._programs.add(program)

    def reaped(self, program: int) -> None:
        self._programs.discard(program)

    def end(self) -> bool:
        """Kill and reap those that are there; False if there were any, for what they started comes next."""
        none = True
        for child in _children():
            if child not in self._programs and child not in self._others:
                none = False
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, os.WNOHANG)
        return none

    def end_all(self) -> None:
        """Programs as well: the last resort of a forced end, which blocks for up to a second."""
        self._programs.clear()
        for _ in range(_LAST_ROUNDS):
            if self.end():
                return
            time.sleep(_ROUND_S)


def _children() -> Iterator[int]:
    me = os.getpid()
    if not Path("/proc/self/stat").exists():
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
                if int(parent) == me:
                    yield int(entry.name)
