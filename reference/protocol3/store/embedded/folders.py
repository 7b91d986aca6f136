"""The folders of one embedded database: `data`, the socket's, the log, and the lock that keeps it to one launcher."""

import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from protocol3.store.embedded.accounts import Account, can_enter
from protocol3.store.embedded.errors import EmbeddedPostgresError
from protocol3.store.embedded.processes import stop_orphan

EPHEMERAL_PREFIX = "protocol3-pg-"
EPHEMERAL_GRACE_S = 60.0
# sun_path holds 104 bytes on macOS, 108 on Linux, with a closing zero; PostgreSQL adds "/.s.PGSQL.5432".
SOCKET_FOLDER_BYTES = 103 - len("/.s.PGSQL.5432")


def default_base(major: int) -> Path:
    """Where the data lives when nobody says: never below root's home, which the database's account cannot enter."""
    if os.geteuid() == 0:
        return Path(f"/var/lib/protocol3/pg{major}")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state) / f"protocol3/pg{major}"


def ephemeral_base() -> Path:
    """A new temporary folder; those that a killed launcher left behind are removed on the way."""
    for left in Path(tempfile.gettempdir()).glob(f"{EPHEMERAL_PREFIX}*"):
        _remove_abandoned(left)
    return Path(tempfile.mkdtemp(prefix=EPHEMERAL_PREFIX))


def _remove_abandoned(base: Path) -> None:
    try:
        status = base.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return
        if time.time() - status.st_mtime < EPHEMERAL_GRACE_S:  # perhaps about to be locked
            return
        with (base / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stop_orphan(base / "data")
            shutil.rmtree(base, ignore_errors=True)
    except (OSError, EmbeddedPostgresError):
        return  # in use, or not ours to judge


def take_base(base: Path, account: Account | None) -> int:
    """Make the base folder, check that the account gets there, lock it. Returns the lock's file descriptor.

    Raises EmbeddedPostgresError when another launcher has it, or it cannot be used.
    """
    try:
        base.mkdir(mode=0o755, parents=True, exist_ok=True)
        if account is not None:
            base.chmod(0o755)
        lock = os.open(base / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as failure:
        raise EmbeddedPostgresError(
            f"cannot use the data directory {base} ({failure.strerror}): choose another with --data-dir"
        ) from failure
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as failure:
        holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise EmbeddedPostgresError(
            f"the data directory {base} is in use by another protocol3 (process {holder}): stop that one, "
            "or choose another folder with --data-dir"
        ) from failure
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    if account is not None and not can_enter(base, account):
        os.close(lock)
        raise EmbeddedPostgresError(
            f"the user {account.name}, which runs the database for root, cannot enter {base}: "
            "choose a folder with --data-dir whose parents everybody may enter"
        )
    return lock


def socket_folder(base: Path, account: Account | None) -> Path:
    """An empty private folder for the server's socket: below `base`, or in /tmp when that path is too long for one.

    The folder's permissions are what keeps others out, as connections through the socket need no password.
    """
    folder = base / "socket"
    if len(os.fsencode(folder)) > SOCKET_FOLDER_BYTES:
        folder = Path("/tmp") / f"protocol3-{hashlib.sha256(os.fsencode(base)).hexdigest()[:16]}"  # noqa: S108
    if folder.is_symlink() or (folder.exists() and folder.stat().st_uid not in {os.geteuid(), _uid(account)}):
        raise EmbeddedPostgresError(f"{folder} belongs to somebody else: remove it, or choose another --data-dir")
    shutil.rmtree(folder, ignore_errors=True)  # a killed server's socket and its lock file
    private_folder(folder, account)
    return folder


def private_folder(folder: Path, account: Account | None) -> None:
    folder.mkdir(mode=0o700)
    if account is not None:
        os.chown(folder, account.uid, account.gid)


def sync_folder(folder: Path) -> None:
    """Make the creation and renaming of entries in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _uid(account: Account | None) -> int:
    return account.uid if account else os.geteuid()
