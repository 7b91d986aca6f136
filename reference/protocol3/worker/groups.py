"""The end of processes and process groups."""

import asyncio
import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.orphans import PR_SET_CHILD_SUBREAPER

_EXIT_WAIT_S: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1
_DEAD_STATES: Final = ("Z", "X", "x")


def follow_worker() -> Callable[[], None] | None:
    """What a new process does before its program; None elsewhere than on Linux.

    KILL reaches it when its worker is gone: when the *thread* that started it ends, that of the event loop. It inherits
    what its descendants leave behind, so that they can be found as long as it lives (see `orphans`).
    """
    if sys.platform != "linux":
        return None
    prctl, worker = ctypes.CDLL(None).prctl, os.getpid()  # loaded before the fork

    def follow() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        if os.getppid() != worker:  # it was killed before the call
            os._exit(1)

    return follow


class ExitWatch:
    """Calls ``ended`` once when a child has ended, whoever holds its pipes; does not reap it (WRK-040, WRK-059)."""

    def __init__(self, process: subprocess.Popen[bytes], ended: Callable[[], None]) -> None:
        self._process = process
        self._ended: Callable[[], None] | None = ended
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._descriptor: int | None = None
        try:
            self._descriptor = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, name="exit of a program", daemon=True).start()
        else:
            self._loop.add_reader(self._descriptor, self._noticed)

    async def how(self, within_s: float) -> str | None:
        """Words for the end of the child ("ended (exit status 3)"); None if it lives on. It is not reaped."""
        try:
            async with asyncio.timeout(within_s):
                await self._over.wait()
        except TimeoutError:
            return None
        return _end_of(self._process.pid)

    async def reap(self) -> None:
        """Reap a process that was killed. Raises ``timed_out`` if the kernel does not let it go within a second."""
        if self._process.poll() is not None:
            return
        try:
            async with asyncio.timeout(_EXIT_WAIT_S):
                await self._over.wait()
        except TimeoutError:
            raise ExecutionFailed("timed_out", "the killed program has not ended yet") from None
        self._process.wait()

    def close(self) -> None:
        self._ended = None
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _noticed(self) -> None:
        ended = self._ended
        self.close()
        self._over.set()
        if ended is not None:
            ended()

    def _wait_in_thread(self) -> None:
        _block_until_exit(self._process.pid)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody asks any more
            self._loop.call_soon_threadsafe(self._noticed)


def _end_of(child: int) -> str | None:
    if sys.platform == "darwin":  # only reaping tells it there
        return "ended"
    found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if found is None:
        return None
    if found.si_code == os.CLD_EXITED:
        return f"ended (exit status {found.si_status})"
    known = found.si_status in frozenset(signal.Signals)
    return f"was killed ({signal.Signals(found.si_status).name if known else f'signal {found.si_status}'})"


def _block_until_exit(child: int) -> None:
    with contextlib.suppress(ChildProcessError, ProcessLookupError):  # reaped already
        if sys.platform == "darwin":
            with contextlib.closing(select.kqueue()) as queue:
                exit_of = select.kevent(child, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
                queue.control([exit_of], 1)
        else:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def group_is_gone(group: int) -> bool:
    """Whether no process of the group lives. Zombies that their parent has not reaped do not count as alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return Path("/proc/self/stat").exists() and not _living_members(group)


def _living_members(group: int) -> bool:
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = Path(entry.path, "stat").read_text(errors="replace")
        except OSError:
            continue
        state, _, member_of = stat.rpartition(")")[2].split()[:3]
        if int(member_of) == group and state not in _DEAD_STATES:
            return True
    return False
