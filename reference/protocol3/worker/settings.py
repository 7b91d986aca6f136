"""What a worker is told at its start (chapter 22, Configuration)."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from protocol3.contract import limits
from protocol3.contract.models.common import Scope
from protocol3.contract.refusal import Refusal
from protocol3.contract.text import identifier
from protocol3.programs.errors import ProgramError
from protocol3.programs.interpreter import probe_python

_OLDEST: Final = (3, 11)
_SUITABLE: Final = "name a CPython 3.11 or newer"

HELPER_BOOTSTRAP: Final = Path(__file__).parent.parent / "runtime" / "ledgence" / "worker" / "bootstrap.py"
"""The bootstrap file of the helper that comes with this worker."""


class InvalidSetting(ValueError):
    """A setting cannot work. The message names it and says what would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """Pauses and bounds of the worker, in milliseconds; the defaults are the contract's (WRK-098)."""

    idle_delay_ms: int = limits.IDLE_DELAY_MS
    retry_delay_ms: int = limits.RETRY_DELAY_MS
    request_timeout_ms: int = limits.EXCHANGE_MS
    renew_interval_ms: int = limits.RENEW_INTERVAL_MS
    dispatch_confirmation_ms: int = limits.DISPATCH_CONFIRMATION_MS
    extend_interval_ms: int = limits.SESSION_EXTEND_INTERVAL_MS
    fetch_timeout_ms: int = limits.FETCH_MS
    startup_ms: int = limits.STARTUP_MS
    shutdown_ms: int = limits.SHUTDOWN_MS

    def __post_init__(self) -> None:
        bounds = {
            "request_timeout_ms": limits.EXCHANGE_MS,
            "renew_interval_ms": limits.RENEW_INTERVAL_MS,
            "extend_interval_ms": limits.SESSION_VALIDITY_MS // 2,
        }
        for name in self.__slots__:
            most = bounds.get(name)
            value: int = getattr(self, name)
            if value <= 0 or (most is not None and value > most):
                raise InvalidSetting(f"{name} must be above 0" + ("" if most is None else f" and at most {most}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSettings:
    """What running programs needs; ``bootstrap`` is the file that starts the helper in a program process."""

    store: str
    cache: Path
    python: str
    bootstrap: Path = HELPER_BOOTSTRAP
    concurrency: int = limits.DEFAULT_CONCURRENCY
    frame_bytes: int = limits.FRAME_BYTES
    pacing: Pacing = field(default_factory=Pacing)

    def __post_init__(self) -> None:
        _within("concurrency", self.concurrency, 1, limits.WORKER_MAX_CONCURRENCY)
        if self.frame_bytes < limits.MIN_FRAME_BYTES:
            raise InvalidSetting(f"the frame limit must be at least {limits.MIN_FRAME_BYTES} bytes")

    def interpreter(self) -> str:
        """The interpreter as it is started: canonical if it was given with a directory part (RUN-005).

        Raises :class:`InvalidSetting` when there is no such program.
        """
        if os.sep in self.python:
            path = Path(self.python).resolve()
            if not path.is_file() or not os.access(path, os.X_OK):
                raise InvalidSetting(f"python: {self.python} is not an executable file; {_SUITABLE}")
            return str(path)
        if shutil.which(self.python) is None:
            raise InvalidSetting(f"python: no {self.python} on PATH; {_SUITABLE}, or its path")
        return self.python

    def version(self) -> str:
        """``major.minor`` of the interpreter, asked from it before any task would fail by it.

        Raises :class:`InvalidSetting` when it cannot run programs.
        """
        try:
            version = probe_python(Path(self.interpreter()))
        except ProgramError as error:
            raise InvalidSetting(f"python: {error.message}; {_SUITABLE}") from None
        if tuple(map(int, version.split("."))) < _OLDEST:
            raise InvalidSetting(f"python: {self.python} is Python {version}; {_SUITABLE}")
        return version

    def bootstrap_file(self) -> Path:
        """The canonical bootstrap file. Raises :class:`InvalidSetting` when it is missing."""
        path = self.bootstrap.resolve()
        if not path.is_file():
            raise InvalidSetting(f"runner: {self.bootstrap} is not a file; name .../ledgence/worker/bootstrap.py")
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings(ProgramSettings):
    """Everything a connected worker needs (WRK-002, WRK-098).

    ``display_name`` is for people: it is in the worker's first line and in its traces, and in no exchange.
    """

    server: str
    scope: Scope
    queue: str
    acquire_wait_ms: int = limits.MAX_WAIT_MS
    display_name: str | None = None

    def __post_init__(self) -> None:
        ProgramSettings.__post_init__(self)
        _check_server(self.server)
        _within("acquire-wait-ms", self.acquire_wait_ms, 0, limits.MAX_WAIT_MS)
        for name, value in (
            ("tenant", self.scope.tenant_id),
            ("namespace", self.scope.namespace),
            ("queue", self.queue),
            ("display-name", self.display_name),
        ):
            try:
                if value is not None:
                    identifier(value, name)
            except Refusal as refusal:
                raise InvalidSetting(str(refusal.message)) from None


def _check_server(server: str) -> None:
    try:
        url = urlsplit(server)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        (url.hostname or "").encode("idna")  # no name of a host can be looked up that this refuses
    except ValueError:
        usable = False
        url = urlsplit("")
    if not usable or "@" in url.netloc or "?" in server or "#" in server:
        raise InvalidSetting("server must look like http://HOST:PORT, with a path prefix if a proxy adds one")


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidSetting(f"{name} must be from {low} to {high}")
