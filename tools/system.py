"""A whole system on this machine for tools and demonstrations: program store, coordinator, workers, as real processes.

    with System(folder) as system:
        system.start_coordinator()
        system.start_worker()

Every process is the ordinary command a user would type; `commands` keeps them for showing.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from protocol3.cli.fixtures import prepare

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL3 = [sys.executable, "-m", "protocol3.cli"]
READY_SECONDS = 30
STOP_SECONDS = 30


class SystemFailure(Exception):
    """A part did not do what the tool needs; the message says which and where its log is."""


class System:
    """Processes of one coordinator and its workers over one folder (data, store, caches, logs)."""

    def __init__(
        self,
        folder: Path,
        *,
        tenant: str = "demo",
        namespace: str = "default",
        queue: str = "workflows",
        database_url: str | None = None,
    ) -> None:
        self.folder = folder
        self.tenant, self.namespace, self.queue = tenant, namespace, queue
        self.store = folder / "store"
        self.urls: dict[str, str] = {}
        self.database = ["--database-url", database_url] if database_url else ["--data-dir", str(folder / "data")]
        self.commands: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self.store.mkdir(exist_ok=True)

    def publish(self, program: str) -> dict[str, Any]:
        """Prepare `fixtures/programs/PROGRAM` for this interpreter and publish it; the descriptor."""
        prepared = self.folder / "packages" / program
        prepare(program, prepared)
        return self.publish_folder(prepared)

    def publish_folder(self, prepared: Path) -> dict[str, Any]:
        """Publish a folder that is ready for it; the descriptor."""
        told = _run([*PROTOCOL3, "program", "publish", "--source", str(prepared), "--store", str(self.store)])
        descriptor: dict[str, Any] = json.loads(told)
        return descriptor

    @property
    def url(self) -> str:
        """Address of the only coordinator, or of the first one."""
        return next(iter(self.urls.values()))

    def start_coordinator(self, *flags: str, name: str = "coordinator") -> None:
        """Start it, again at the same address if it ran before, and wait until it is ready."""
        words = self.coordinator(*flags, name=name)
        url = self.urls[name]
        self._start(name, words)
        deadline = time.monotonic() + READY_SECONDS
        while _status_of(f"{url}/health/ready") != 200:
            self._must_run(name, deadline)
            time.sleep(0.02)

    def coordinator(self, *flags: str, name: str = "coordinator") -> list[str]:
        """The words that start it, at the address that is its own from now on."""
        url = self.urls.setdefault(name, f"http://127.0.0.1:{_free_port()}")
        serve = ["orchestrator", "serve", "--listen", url.removeprefix("http://"), *self.database]
        return [*serve, "--store", str(self.store), *flags]

    def start_worker(
        self,
        name: str = "worker",
        *,
        at: str | None = None,
        queue: str | None = None,
        concurrency: int = 4,
        runner: Path | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        """Start a worker with a cache of its own; it connects by itself.

        `at` names its coordinator, `runner` is another helper's start file.
        """
        server = self.urls[at] if at else self.url
        words = ["worker", "connect", "--server", server, "--tenant", self.tenant, "--namespace", self.namespace]
        words += ["--queue", queue or self.queue, "--store", str(self.store), "--python", sys.executable]
        words += ["--cache", str(self.folder / "cache" / name), "--concurrency", str(concurrency)]
        words += ["--runner", str(runner)] if runner else []
        (self.folder / "cache").mkdir(exist_ok=True)
        scratch = self.folder / "scratch"  # a killed worker cannot remove its programs' working directories
        scratch.mkdir(exist_ok=True)
        self._start(name, words, {"TMPDIR": str(scratch)} | (environment or {}))

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def ended(self, name: str) -> int | None:
        """Exit code of a process that ended by itself; a signal is negative."""
        return self._running[name].poll()

    def kill(self, name: str) -> None:
        """kill -9, as a crash would."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> int:
        """Ask it to stop as a terminal would (SIGINT); its exit code. A process that ended by itself is a failure."""
        process = self._running.pop(name)
        code = process.poll()
        if code is not None:
            raise SystemFailure(f"{name} had ended with exit code {code}:\n{_tail(self.log(name))}")
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemFailure(f"{name} did not stop within {STOP_SECONDS} s; see {self.log(name)}") from None

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def get(self, path: str, *, at: str | None = None, **query: str) -> Any:
        scope = {"tenant_id": self.tenant, "namespace": self.namespace}
        return _call(urllib.request.Request(f"{self._base(at)}{path}?{urllib.parse.urlencode(scope | query)}"))

    def post(self, path: str, body: Any, *, at: str | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        return _call(urllib.request.Request(self._base(at) + path, json.dumps(body).encode(), headers))

    def _base(self, name: str | None) -> str:
        return self.urls[name] if name else self.url

    def __enter__(self) -> Self:
        # The parts are in sessions of their own: whoever ends this tool, or closes its terminal, must not leave them.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _: sys.exit(128 + received))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in sorted(
            self._running, key=lambda name: name in self.urls
        ):  # workers still settle with a coordinator
            try:
                self.stop(name)
            except SystemFailure as trouble:
                print(trouble, file=sys.stderr)

    def _start(self, name: str, words: list[str], environment: dict[str, str] | None = None) -> None:
        self.commands[name] = ["protocol3", *words]
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*PROTOCOL3, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | (environment or {}),
                start_new_session=True,  # a Ctrl-C in the terminal reaches us first; we stop the parts in order
            )

    def _must_run(self, name: str, deadline: float) -> None:
        code = self._running[name].poll()
        if code is not None:
            raise SystemFailure(f"{name} ended with exit code {code}:\n{_tail(self.log(name))}")
        if time.monotonic() > deadline:
            raise SystemFailure(f"{name} was not ready within {READY_SECONDS} s; see {self.log(name)}")


def migrate(database_url: str) -> None:
    """Bring the schema of a given database up to date."""
    _run([*PROTOCOL3, "orchestrator", "migrate", "--database-url", database_url])


def _status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except OSError:
        return 0


def _call(request: urllib.request.Request) -> Any:
    """The reply as JSON. Raises SystemFailure for a refusal and OSError for a lost exchange."""
    try:
        with urllib.request.urlopen(request, timeout=35) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as refused:
        told = refused.read(4096).decode(errors="replace")
        raise SystemFailure(f"{request.get_method()} {request.selector}: {refused.code} {told}") from None
    except http.client.HTTPException as broken:
        raise ConnectionError(type(broken).__name__) from None


@contextmanager
def temporary_folder(name: str, *, keep_failed: bool = False) -> Iterator[Path]:
    """A folder that the database's account may enter, gone afterwards, read-only package caches included."""
    folder = Path(tempfile.mkdtemp(prefix=f"protocol3-{name}-"))
    folder.chmod(0o755)
    try:
        yield folder
    except BaseException:
        if keep_failed:
            print(f"logs are kept in {folder}", file=sys.stderr)
        else:
            _remove(folder)
        raise
    _remove(folder)


def _remove(folder: Path) -> None:
    for directory, _, _ in os.walk(folder):
        with suppress(PermissionError):  # the database's own folder
            Path(directory).chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


def shell(words: list[str]) -> str:
    """A command as a person would type it."""
    return shlex.join(words)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemFailure(f"{shell(command)}\nended with exit code {done.returncode}:\n{done.stderr.strip()}")
    return done.stdout


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
