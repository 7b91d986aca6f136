"""Starting PostgreSQL's programs, and finding a server that outlived its launcher."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from protocol3.store.embedded.accounts import Account
from protocol3.store.embedded.errors import EmbeddedPostgresError

PR_SET_PDEATHSIG = 1
ORPHAN_STOP_S = 10.0


def spawn(
    command: list[str | Path], account: Account | None, *, output: IO[bytes] | int, with_input: bool = False
) -> subprocess.Popen[bytes]:
    """Start a program as `account`, in a session of its own and without the caller's PG* variables.

    The session keeps a Ctrl-C at the terminal away: the coordinator stops first, the database after it. On Linux the
    program gets SIGINT when the *thread* that started it ends, so a launcher killed with -9 takes it along.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return subprocess.Popen(
        command,
        cwd="/",
        env=clean | {"LC_ALL": "C"},
        stdin=subprocess.PIPE if with_input else subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        preexec_fn=_follow_launcher(),
    )


def _follow_launcher() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    # Loaded before the fork; CPython calls the function after it has changed the user, which would clear the setting.
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def finish(process: subprocess.Popen[bytes], what: str, text: bytes | None = None) -> None:
    """Wait for a program that should succeed. Raises EmbeddedPostgresError with the end of what it printed."""
    try:
        printed, _ = process.communicate(text)
    except BaseException:
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    if process.returncode != 0:
        raise EmbeddedPostgresError(f"{what} failed: {printed.decode(errors='replace').strip()[-500:]}")


def postmaster_state(data: Path) -> tuple[int, str] | None:
    """The process id and the state word of `postmaster.pid`; None while it is absent or incomplete."""
    try:
        lines = (data / "postmaster.pid").read_text().split("\n")
        return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
    except (OSError, ValueError):
        return None


def stop_orphan(data: Path) -> None:
    """Stop a server on this data folder whose launcher is gone. The caller holds the folder's lock.

    Raises EmbeddedPostgresError when it will not stop.
    """
    state = postmaster_state(data)
    if state is None or not _serves(state[0], data):
        return
    pid = state[0]
    for how in (signal.SIGINT, signal.SIGQUIT):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        end = time.monotonic() + ORPHAN_STOP_S
        while time.monotonic() < end:
            if not _serves(pid, data):
                return
            time.sleep(0.01)
    raise EmbeddedPostgresError(f"a PostgreSQL server (process {pid}) still runs on {data} and does not stop: stop it")


def _serves(pid: int, data: Path) -> bool:
    """Whether the live process `pid` is a server started on `data`: process ids are used again, so ask what it runs."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()  # empty once the process is dead
    except OSError:
        if Path("/proc/self").exists():
            return False
        listed = subprocess.run(["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, check=False)
        command = listed.stdout
    return b"postgres" in command and os.fsencode(data) in command
