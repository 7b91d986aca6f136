"""``protocol3 worker connect`` as a process: last line, signals, start-up errors (WRK-002, WRK-003, WRK-089…093)."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from protocol3.cli.worker import group

Publish = Callable[..., Any]
Connect = Callable[..., Awaitable[asyncio.subprocess.Process]]
PATIENCE_S = 20.0


@pytest.fixture
async def connect(coordinator: Any, tmp_path: Path) -> AsyncIterator[Connect]:
    """``await connect(**options)``: the command; an option None is left out."""
    started: list[asyncio.subprocess.Process] = []

    async def begin(**changes: Any) -> asyncio.subprocess.Process:
        options = {
            "server": coordinator.url, "tenant": "north", "namespace": "reports", "queue": "main",
            "store": tmp_path / "store", "cache": tmp_path / "cache", "concurrency": 1, **changes,
        }  # fmt: skip
        words = [part for name, value in options.items() if value is not None for part in flag(name, value)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "protocol3.cli", "worker", "connect", *words,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(tmp_path / "home")},
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


def flag(name: str, value: object) -> list[str]:
    return ["--" + name.replace("_", "-"), str(value)]


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    stdout, stderr = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode is not None
    return process.returncode, stdout.decode(), stderr.decode()


def exists(path: Path) -> bool:
    return path.exists()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_ends_it_with_one_line(
    coordinator: Any, connect: Connect, publish: Publish, number: int
) -> None:
    """WRK-089, WRK-091, WRK-093."""
    attempt = coordinator.assign(publish(), {"do": "echo", "value": 1})
    process = await connect(display_name="press 4")
    await attempt.end()
    await coordinator.until(lambda: len(coordinator.seen("/v1/acquisitions")) == 2)
    process.send_signal(number)
    code, stdout, stderr = await ended(process)
    assert stdout.count("\n") == 1
    assert json.loads(stdout) == {
        "delivery": {"session_id": "ws_1", "finished": True, "settled_attempts": 1, "lost_attempts": 0}
    }
    assert (code, "Traceback" in stderr) == (0, False)
    assert "worker: session ws_1 is open for 'press 4'; 1 consumers" in stderr.splitlines()  # WRK-002
    assert b"press" not in b"".join(exchange.raw for exchange in coordinator.exchanges)


async def test_the_second_signal_exits_at_once(
    coordinator: Any, connect: Connect, publish: Publish, refuse: Any, tmp_path: Path
) -> None:
    """WRK-092: with unresolved work, and no program left running."""
    mark = tmp_path / "mark"
    coordinator.script("/v1/settlements", *[refuse("unavailable", 503, "later")] * 10_000)
    coordinator.assign(publish(), {"do": "spawn", "mark": str(mark)})
    process = await connect()
    await until(lambda: exists(mark) and content(mark))
    process.send_signal(signal.SIGTERM)
    await coordinator.until(lambda: len(coordinator.seen("/v1/settlements")) > 2)
    assert process.returncode is None
    process.send_signal(signal.SIGTERM)
    code, stdout, _ = await ended(process)
    assert json.loads(stdout)["delivery"] == {
        "session_id": "ws_1", "finished": False, "settled_attempts": 0, "lost_attempts": 0,
    }  # fmt: skip
    assert code == 1


def content(path: Path) -> str:
    return path.read_text()


async def test_a_fatal_answer_is_exit_1_with_the_line(
    coordinator: Any, connect: Connect, refuse: Any, tmp_path: Path
) -> None:
    """WRK-089, WRK-093."""
    (tmp_path / "store").mkdir()
    coordinator.script("/v1/acquisitions", refuse("conflict", 409))
    code, stdout, stderr = await ended(await connect())
    assert code == 1
    assert json.loads(stdout)["delivery"]["finished"] is True
    assert "refused an acquisition: conflict" in stderr


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        ({"store": "/no/such/store"}, 2, "program store"),
        ({"store": "http://store.example"}, 2, "loopback"),
        ({"python": "/no/such/python"}, 2, "python"),
        ({"python": "no-such-python"}, 2, "PATH"),
        ({"python": "/bin/false"}, 2, "/bin/false is not a Python interpreter"),
        ({"python": "false"}, 2, "false is not a Python interpreter"),
        ({"runner": "/no/such/bootstrap.py"}, 2, "bootstrap.py"),
        ({"server": "localhost"}, 2, "http://HOST:PORT"),
        ({"server": "http://\u00fc..example"}, 2, "http://HOST:PORT"),
        ({"server": f"http://{'a' * 64}.example"}, 2, "http://HOST:PORT"),
        ({"concurrency": 0}, 2, "concurrency"),
        ({"concurrency": 1025}, 2, "concurrency"),
        ({"acquire_wait_ms": 20001}, 2, "acquire-wait-ms"),
        ({"queue": ""}, 2, "queue"),
        ({"display_name": "x" * 129}, 2, "display-name"),
        ({"queue": None}, 2, "--queue"),
        ({"tenant": None}, 2, "--tenant"),
        ({"cache": "/proc/self/status"}, 2, "cache"),
    ],
)
def test_a_start_that_cannot_work_says_why(tmp_path: Path, options: dict[str, Any], code: int, says: str) -> None:
    """WRK-002: before a session is opened."""
    (tmp_path / "store").mkdir()
    given = {
        "server": "http://127.0.0.1:1", "tenant": "north", "namespace": "reports", "queue": "main",
        "store": tmp_path / "store", "cache": tmp_path / "cache", **options,
    }  # fmt: skip
    words = [part for name, value in given.items() if value is not None for part in flag(name, value)]
    result = CliRunner().invoke(group, ["connect", *words])
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr


@pytest.mark.parametrize(("answer", "says"), [('["CPython","3.10"]', "is Python 3.10"), ('["PyPy","3.12"]', "is PyPy")])
@pytest.mark.parametrize("command", ["connect", "run"])
def test_an_interpreter_that_cannot_run_programs_is_refused_at_the_start(
    tmp_path: Path, command: str, answer: str, says: str
) -> None:
    """RUN-005: not by every single task."""
    (tmp_path / "store").mkdir()
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{answer}'\n")
    python.chmod(0o755)
    (tmp_path / "tasks.json").write_text("[]")
    words = ["--store", str(tmp_path / "store"), "--cache", str(tmp_path / "cache"), "--python", str(python)]
    if command == "run":
        words += ["--tasks", str(tmp_path / "tasks.json")]
    else:
        words += ["--server", "http://127.0.0.1:1", "--tenant", "a", "--namespace", "b", "--queue", "c"]
    result = CliRunner().invoke(group, [command, *words])
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert "3.11" in result.stderr


async def test_each_worker_has_its_own_cache(coordinator: Any, connect: Connect, tmp_path: Path) -> None:
    """WRK-003, PKG-067: the second one on the same directory fails; without --cache it takes a free one."""
    (tmp_path / "store").mkdir()
    await connect()
    await coordinator.until(lambda: coordinator.seen("/v1/worker-sessions"))
    code, _, stderr = await ended(await connect())
    assert code == 1
    assert "another running worker" in stderr
    for count in (1, 2):
        await connect(cache=None)
        await coordinator.until(lambda count=count: len(coordinator.seen("/v1/worker-sessions")) == 1 + count)
    assert sorted(path.name for path in (tmp_path / "home/protocol3").iterdir()) == ["worker-1", "worker-2"]


async def test_an_absent_coordinator_is_named(connect: Connect, tmp_path: Path) -> None:
    """A definite refusal ends the start at once."""
    (tmp_path / "store").mkdir()
    process = await connect(server="http://127.0.0.1:1")
    try:
        await asyncio.wait_for(process.wait(), 5)  # a signal while it is still being loaded would be Python's own
    except TimeoutError:
        process.send_signal(signal.SIGINT)
    code, stdout, stderr = await ended(process)
    assert code != 0
    assert stdout == ""
    assert "Traceback" not in stderr
