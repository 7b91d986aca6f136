"""The end of processes and process groups."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Final

from protocol3.worker.failures import ExecutionFailed

_EXIT_WAIT_S: Final = 1.0
_DEAD_STATES: Final = ("Z", "X", "x")


async def wait_for_exit(process: subprocess.Popen[bytes]) -> None:
    """Reap a process that was killed. Raises ``timed_out`` if the kernel does not let it go within a second."""
    if process.poll() is not None:
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        await _wait_in_thread(process)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        async with asyncio.timeout(_EXIT_WAIT_S):
            await ended.wait()
    except TimeoutError:
        raise ExecutionFailed("timed_out", "the killed program has not ended yet") from None
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.wait()


async def _wait_in_thread(process: subprocess.Popen[bytes]) -> None:
    try:
        await asyncio.to_thread(process.wait, _EXIT_WAIT_S)
    except subprocess.TimeoutExpired:
        raise ExecutionFailed("timed_out", "the killed program has not ended yet") from None


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
