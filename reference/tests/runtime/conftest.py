"""A scripted host: starts program processes, speaks frames on their pipes, byte by byte where a test wants that.

The tests judge whatever bootstrap file PROTOCOL3_RUNTIME_BOOTSTRAP names, without it our own helper, in the interpreter
that PROTOCOL3_RUNTIME_PYTHON names, without it this one.
"""

import fcntl
import json
import os
import select
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

OWN_ROOT = Path(__file__).parents[2] / "protocol3" / "runtime"
LAB = Path(__file__).parent / "lab"
FRAME_LIMIT = 2 * 1024 * 1024
PATIENCE_SECONDS = 20.0

Frame = dict[str, Any]
Reply = Callable[[Frame], Frame | bytes | None]


def bootstrap_path() -> Path:
    named = os.environ.get("PROTOCOL3_RUNTIME_BOOTSTRAP")
    return Path(named) if named else OWN_ROOT / "ledgence" / "worker" / "bootstrap.py"


def interpreter() -> str:
    return os.environ.get("PROTOCOL3_RUNTIME_PYTHON", sys.executable)


@cache
def interpreter_version() -> str:
    command = [interpreter(), "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def acknowledge(request: Frame) -> Frame:
    """The reply that accepts a request (table of chapter 21, Requests of a running activation)."""
    result: Frame = {"committed": True}
    if request["operation"] == "workflow.fork":
        payload = request["payload"]
        result |= {"key": payload["key"], "branch_keys": [branch["key"] for branch in payload["branches"]]}
    return reply_to(request, result)


def reply_to(request: Frame, result: Any) -> Frame:
    identity = {name: request[name] for name in ("v", "event_id", "attempt_id", "id")}
    return identity | {"type": "runtime_reply", "result": result}


def activation(**changes: Any) -> Frame:
    """A payload of RUN-061; a change to `...` removes the member."""
    payload = {
        "v": 1,
        "workflow_id": "wf",
        "activation_id": "act",
        "revision": 0,
        "continuation": "start",
        "state": None,
        "inputs": {},
        "local_steps": [],
    } | changes
    return {name: value for name, value in payload.items() if value is not ...}


class Host:
    """One child process and the host's ends of its pipes. Log frames are kept aside in `logs`."""

    def __init__(
        self,
        package: Path,
        *,
        handler: str = "program:handle",
        protocol: int = 3,
        limit: int = FRAME_LIMIT,
        command: list[str] | None = None,
        environment: dict[str, str] | None = None,
        directory: Path | None = None,
        stderr: Path,
    ) -> None:
        self.protocol = protocol
        self.logs: list[Frame] = []
        self.requests: list[Frame] = []
        self._received = b""
        self._stderr = stderr
        with stderr.open("wb") as sink:
            self.process = subprocess.Popen(
                command or launch_command(package, handler=handler, protocol=protocol, limit=limit),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                bufsize=0,
                cwd=directory,
                env=os.environ | (environment or {}),
                start_new_session=True,
            )

    @property
    def usable(self) -> bool:
        return self.process.poll() is None and self.process.stdin is not None and not self.process.stdin.closed

    def stderr(self) -> str:
        return self._stderr.read_text(errors="replace")

    def send(self, frame: Frame | bytes) -> None:
        line = frame if isinstance(frame, bytes) else json.dumps(frame).encode() + b"\n"
        assert self.process.stdin is not None
        rest = memoryview(line)
        while rest:
            rest = rest[self.process.stdin.write(rest) or 0 :]

    def line(self) -> bytes:
        """The next line of the child, `b""` at the end of the stream."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            assert left > 0, f"the child is silent; its stderr: {self.stderr()}"
            if select.select([self.process.stdout], [], [], left)[0]:
                chunk = os.read(self.process.stdout.fileno(), 65536)
                if not chunk:
                    assert not self._received, "the last frame is cut short"
                    return b""
                self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line + b"\n"

    def silent(self, seconds: float = 0.05) -> bool:
        """Has the child written nothing by now, and nothing for a moment more?"""
        return not self._received and not select.select([self.process.stdout], [], [], seconds)[0]

    def blocked(self, said: str) -> bool:
        """Wait until the child has said something on stderr and can write no more frames: its pipe stays full."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while said not in self.stderr():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        size, since = -1, time.monotonic()
        while time.monotonic() - since < 0.3:
            now = struct.unpack("i", fcntl.ioctl(self.process.stdout, termios.FIONREAD, b"\0" * 4))[0]
            if now != size:
                size, since = now, time.monotonic()
            time.sleep(0.01)
        return size > 0

    def any_frame(self) -> Frame | None:
        line = self.line()
        frame: Frame | None = json.loads(line) if line else None
        return frame

    def frame(self) -> Frame | None:
        """The next frame that is not a log; None at the end of the stream."""
        while (frame := self.any_frame()) is not None and frame["type"] == "log":
            self.logs.append(frame)
        return frame

    def ready(self) -> "Host":
        frame = self.frame()
        assert frame is not None, f"the child ended before ready: {self.stderr()}"
        assert frame["type"] == "ready"
        return self

    def invoke_frame(self, data: Any = None, *, payload: Any = None, **changes: Any) -> Frame:
        """An `invoke` frame; `event` changes are merged into the event, a change to `...` removes the member."""
        event = {
            "specversion": "1.0",
            "id": "ev",
            "source": "urn:host",
            "type": "invocation",
            "ldgtenantid": "tenant",
            "ldgnamespace": "space",
            "ldgrunid": "run",
            "ldgtaskid": "act",
            "ldgattemptid": "at",
            "ldgattemptno": 1,
            "data": data,
        }
        frame: Frame = {"v": self.protocol, "type": "invoke", "event_id": "ev", "attempt_id": "at"}
        if payload is not None:
            event |= {"ldgworkflowid": payload.get("workflow_id"), "ldgactivationid": payload.get("activation_id")}
            for name in ("parent_workflow_id", "root_workflow_id"):
                if name in payload:
                    event["ldg" + name.replace("_", "")] = payload[name]
            frame["extension"] = {"schema": "ledgence.workflow.activation.v1", "payload": payload}
        if self.protocol >= 2:
            frame["processing_context"] = None
        event |= changes.pop("event", {})
        frame["event"] = {name: value for name, value in event.items() if value is not ...}
        return {name: value for name, value in (frame | changes).items() if value is not ...}

    def invoke(self, data: Any = None, *, payload: Any = None, reply: Reply = acknowledge, **changes: Any) -> Frame:
        """Send an invocation, answer its requests with `reply` (None closes stdin), return the result frame."""
        self.send(self.invoke_frame(data, payload=payload, **changes))
        return self.result(reply)

    def result(self, reply: Reply = acknowledge) -> Frame:
        self.requests = []
        while (frame := self.frame()) is not None:
            if frame["type"] == "result":
                return frame
            assert frame["type"] == "runtime_request", frame
            self.requests.append(frame)
            answer = reply(frame)
            if answer is None:
                self.close_stdin()
            else:
                self.send(answer)
        raise AssertionError(f"no result; exit code {self.process.wait(PATIENCE_SECONDS)}; stderr: {self.stderr()}")

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> int:
        """The exit code; a signal is negative."""
        return self.process.wait(PATIENCE_SECONDS)

    def end(self) -> int:
        """Close stdin and wait."""
        self.close_stdin()
        return self.wait()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def launch_command(
    package: Path, *, handler: str = "program:handle", protocol: int = 3, limit: int | None = FRAME_LIMIT
) -> list[str]:
    command = [interpreter(), "-I", "-S", "-B", str(bootstrap_path()), "--package-root", str(package)]
    command += ["--handler", handler, "--python-version", interpreter_version()]
    if limit is not None:
        command += ["--max-input-bytes", str(limit), "--max-output-bytes", str(limit)]
    return command + (["--protocol-version", str(protocol)] if protocol > 1 else [])


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Children never write bytecode (RUN-012), so without this every start would compile the helper again."""
    subprocess.run([interpreter(), "-m", "compileall", "-q", str(OWN_ROOT)], check=False, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Host]]:
    """Start hosts; `hosts(package, ...)` takes the arguments of Host. All are stopped at the end."""
    started: list[Host] = []
    folder = tmp_path_factory.mktemp("stderr")

    def start(package: Path, **settings: Any) -> Host:
        started.append(Host(package, stderr=folder / str(len(started)), **settings))
        return started[-1]

    yield start
    for host in started:
        host.stop()


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., Path]:
    """Write a package: `package("source of program.py", **{"sub/other.py": "..."})`."""

    def write(program: str | None = None, files: dict[str, str] | None = None) -> Path:
        root = tmp_path / "package"
        contents = dict(files or {}) | ({} if program is None else {"program.py": program})
        for name, text in contents.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return root

    return write


class Lab:
    """Runs the code a test writes in a warm process, which is replaced only when a test has broken it or failed."""

    def __init__(self, start: Callable[..., Host], protocol: int, root: Path = LAB) -> None:
        self._start = start
        self._protocol = protocol
        self._root = root
        self._host: Host | None = None

    @property
    def host(self) -> Host:
        if self._host is None or not self._host.usable:
            self._host = self._start(self._root, protocol=self._protocol).ready()
        return self._host

    def replace(self) -> None:
        """The next test gets another process."""
        if self._host is not None:
            self._host.stop()

    def task(self, code: str, data: Any = None, **changes: Any) -> Frame:
        """Run the body of an ordinary task `(event, data)`; the result frame."""
        return self.host.invoke({"code": code, "data": data}, **changes)

    def output(self, code: str, data: Any = None, **changes: Any) -> Any:
        result = self.task(code, data, **changes)
        assert result["status"] == "success", result
        return result["output"]

    def workflow(self, code: str, *, reply: Reply = acknowledge, invoke: Frame | None = None, **payload: Any) -> Frame:
        """Run the body of an async controller `(event, ctx)` in an activation; the result frame."""
        return self.host.invoke({"code": code}, payload=activation(**payload), reply=reply, **(invoke or {}))

    def decision(self, code: str, **settings: Any) -> Frame:
        result = self.workflow(code, **settings)
        assert result["status"] == "success", result
        decision: Frame = result["output"]
        return decision

    def completed(self, code: str, **settings: Any) -> Any:
        """The output of the `complete` decision that the code returned."""
        decision = self.decision(code, **settings)
        assert decision["kind"] == "complete", decision
        return decision["output"]

    def refused(self, code: str, **settings: Any) -> str:
        """The message of the `workflow_error` that the activation ended with."""
        result = self.workflow(code, **settings)
        assert (result["status"], result.get("error", {}).get("kind")) == ("runtime_error", "workflow_error"), result
        return str(result["error"]["message"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a failed test left in a warm process, a late result for one, must not fail the tests after it."""
    report = yield
    if report.failed:
        for lab in item.funcargs.values():
            if isinstance(lab, Lab):
                lab.replace()
    return report


@pytest.fixture(scope="session")
def lab(hosts: Callable[..., Host]) -> Lab:
    """Code of ordinary tasks and controllers in a warm protocol-3 process."""
    return Lab(hosts, 3)


@pytest.fixture(scope="session")
def lab2(hosts: Callable[..., Host]) -> Lab:
    """Code of ordinary tasks in a warm protocol-2 process."""
    return Lab(hosts, 2)


@pytest.fixture(scope="session")
def bootstrap() -> Path:
    return bootstrap_path()


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter of the children."""
    return interpreter()


@pytest.fixture(scope="session")
def python_version() -> str:
    return interpreter_version()


@pytest.fixture(scope="session")
def own_helper() -> bool:
    """Is our own helper judged, not another one?"""
    return "PROTOCOL3_RUNTIME_BOOTSTRAP" not in os.environ


@pytest.fixture(scope="session", name="acknowledge")
def acknowledge_fixture() -> Reply:
    return acknowledge


@pytest.fixture(scope="session", name="reply_to")
def reply_to_fixture() -> Callable[[Frame, Any], Frame]:
    return reply_to


@pytest.fixture(scope="session", name="activation")
def activation_fixture() -> Callable[..., Frame]:
    return activation
