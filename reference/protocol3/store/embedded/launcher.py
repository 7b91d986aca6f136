"""The life of one embedded PostgreSQL server."""

import logging
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self, TypedDict
from urllib.parse import quote

from protocol3.store.embedded.accounts import Account, account_for
from protocol3.store.embedded.binaries import Binaries, find_binaries, made_reachable
from protocol3.store.embedded.errors import EmbeddedPostgresError
from protocol3.store.embedded.folders import (
    default_base,
    ephemeral_base,
    private_folder,
    socket_folder,
    sync_folder,
    take_base,
)
from protocol3.store.embedded.processes import finish, postmaster_state, spawn, stop_orphan

logger = logging.getLogger(__name__)

NAME = "protocol3"  # of the database, and of its owner
PORT = 5432  # only part of the socket's name: no TCP port is opened
READY_S = 120.0  # recovery after a crash included
FAST_STOP_S = 20.0
POLL_S = 0.005

# fsync, full_page_writes and synchronous_commit stay on: an acknowledged commit survives a crash.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "wal_compression": "on",
    "checkpoint_timeout": "15min",
    "max_wal_size": "2GB",
    "timezone": "UTC",
    # A client that stalls or vanishes must not keep its locks.
    "idle_in_transaction_session_timeout": "30s",
    "client_connection_check_interval": "5s",
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    # The log says what happens to the server, never what is in a statement or a row.
    "log_timezone": "UTC",
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}


class ConnectArguments(TypedDict):
    """Arguments for asyncpg.connect and create_pool."""

    host: str
    port: int
    user: str
    database: str


class EmbeddedPostgres:
    """A server for one launcher, reachable through a private Unix socket.

    `data_dir` is the base folder (default: `~/.local/state/protocol3/pg18`, for root `/var/lib/protocol3/pg18`);
    `ephemeral` uses a temporary one and removes it in `stop`. `settings` go before ours.

    `start` and `stop` block (0.6 to 0.9 s the first time, 40 ms later). Start it from a thread that lives as long as
    the database shall: on Linux the server follows the thread that started it.
    """

    def __init__(
        self, data_dir: Path | None = None, *, ephemeral: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        if ephemeral and data_dir is not None:
            raise ValueError("an ephemeral database has no data directory")
        self._base = data_dir.expanduser().resolve() if data_dir else None
        self._ephemeral = ephemeral
        self._settings = {**SETTINGS, **(settings or {})}
        self._lock: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: Path | None = None

    def start(self) -> Self:
        """Bring the server up, ready for connections. Raises EmbeddedPostgresError; nothing is left running then."""
        if self._lock is not None:
            raise EmbeddedPostgresError("the embedded database is started already")
        binaries = find_binaries()
        self._base = ephemeral_base() if self._ephemeral else self._base or default_base(binaries.major)
        data = self._base / "data"
        try:
            account = account_for(data)
            self._lock = take_base(self._base, account)
            binaries = made_reachable(binaries, account)
            _check_version(data, binaries)
            if not data.exists():
                _initialise(self._base, binaries, account)
            stop_orphan(data)
            self._socket = socket_folder(self._base, account)
            self._run(binaries, account, data, self._socket)
        except BaseException as failure:
            self.stop()
            if isinstance(failure, OSError):
                raise EmbeddedPostgresError(
                    f"cannot start the embedded database in {self._base}: {failure}"
                ) from failure
            raise
        logger.info("PostgreSQL %s runs on %s%s", binaries.version, data, f" as {account.name}" if account else "")
        if account is not None and account.name == "nobody":
            logger.warning("other services that run as nobody could enter %s: add a user postgres to prevent it", data)
        return self

    def _run(self, binaries: Binaries, account: Account | None, data: Path, socket: Path) -> None:
        """Start the server itself, not through pg_ctl: it must be our child. Wait until it takes connections."""
        command: list[str | Path] = [binaries.folder / "postgres", "-D", data, "-k", socket, "-p", str(PORT)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        end = time.monotonic() + READY_S
        while True:
            with self.log.open("wb") as log:
                process = self._process = spawn(command, account, output=log)
            # Our own process id must be in the file: an orphan's file says "ready" as well.
            while postmaster_state(data) != (process.pid, "ready"):
                if process.poll() is not None:
                    break
                if time.monotonic() > end:
                    raise EmbeddedPostgresError(
                        f"the embedded database was not ready in {READY_S:.0f} s: see {self.log}"
                    )
                time.sleep(POLL_S)
            else:
                return
            said = self.log.read_text(errors="replace").strip()
            # After kill -9 of a server its last sessions need a moment to notice.
            if "shared memory block" not in said or time.monotonic() > end:
                raise EmbeddedPostgresError(f"the embedded database did not start: {said[-500:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the server (SIGINT, after 20 s SIGQUIT, never SIGKILL) and give the folder back. Twice is harmless."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(FAST_STOP_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGQUIT)
                process.wait()
        if self._socket is not None:
            shutil.rmtree(self._socket, ignore_errors=True)
            self._socket = None
        if self._ephemeral and self._base is not None:
            shutil.rmtree(self._base, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self) -> int:
        """Block until the server has ended, however it did; its exit code."""
        return self._started().wait()

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        return self._started().pid

    @property
    def base(self) -> Path:
        """The base folder; known once started, or when it was given."""
        if self._base is None:
            raise EmbeddedPostgresError("the embedded database is not started")
        return self._base

    @property
    def log(self) -> Path:
        """The server's log since its last start."""
        return self.base / "log"

    @property
    def connect_kwargs(self) -> ConnectArguments:
        """How asyncpg reaches the server."""
        self._started()
        return {"host": str(self._socket), "port": PORT, "user": NAME, "database": NAME}

    @property
    def dsn(self) -> str:
        """The same as a URL, for libpq as well."""
        self._started()
        return f"postgresql://{NAME}@/{NAME}?host={quote(str(self._socket), safe='')}&port={PORT}"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise EmbeddedPostgresError("the embedded database is not started")
        return self._process


def _check_version(data: Path, binaries: Binaries) -> None:
    """There is no automatic upgrade between major versions."""
    if not data.exists():
        return
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except OSError:
        raise EmbeddedPostgresError(f"{data} is not a PostgreSQL data directory: choose another --data-dir") from None
    if found != str(binaries.major):
        raise EmbeddedPostgresError(
            f"{data} was made by PostgreSQL {found} and the server here is {binaries.version}: "
            "choose another --data-dir, or move the data with pg_dump and psql"
        )


def _initialise(base: Path, binaries: Binaries, account: Account | None) -> None:
    """Make the cluster and its database under another name and rename it when complete: one that exists is whole."""
    for left in base.glob("new-*"):
        shutil.rmtree(left, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix="new-", dir=base))
    new.rmdir()
    private_folder(new, account)
    logger.info("initialising a database in %s", base)
    initdb: list[str | Path] = [binaries.folder / "initdb", "-D", new, "-U", NAME, "-E", "UTF8", "--locale=C"]
    # No password: the socket lies in a folder that only its owner may enter, and TCP is refused altogether.
    initdb += ["--auth-local=trust", "--auth-host=reject"]
    finish(spawn(initdb, account, output=subprocess.PIPE), "initdb")
    single: list[str | Path] = [binaries.folder / "postgres", "--single", "-D", new, "postgres"]
    creation = f"create database {NAME}\n".encode()
    finish(spawn(single, account, output=subprocess.PIPE, with_input=True), "create database", creation)
    new.rename(base / "data")
    sync_folder(base)  # or a power cut could take the rename back, and with it all that was committed since
