"""Processes that a program starts outside its group end with it (WRK-038, WRK-040, WRK-041). Linux only."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a group is all that can be had")

Publish = Callable[..., Any]
Connect = Callable[..., Awaitable[asyncio.subprocess.Process]]
PATIENCE_S = 20.0

#: A child, one in a session of its own, and a daemon whose parent ended; the daemon has a child of its own kind.
DAEMONS = """\
import os, subprocess, sys, time

SLEEP = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
DAEMON = f'''
import os, subprocess, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
inner = subprocess.Popen({SLEEP!r}, start_new_session=True, stdout=subprocess.DEVNULL)
print(os.getpid(), inner.pid, flush=True)
os.close(1)
time.sleep(600)
'''

def handle(event):
    data = event["data"]
    child = subprocess.Popen(SLEEP)
    own_session = subprocess.Popen(SLEEP, start_new_session=True)
    told = subprocess.run([sys.executable, "-I", "-S", "-c", DAEMON], stdout=subprocess.PIPE, text=True)
    with open(data["mark"], "w") as mark:
        mark.write(f"{child.pid} {own_session.pid} {told.stdout}\\n")
    match data["do"]:
        case "exit":
            os._exit(3)
        case "sleep":
            time.sleep(600)
"""


@pytest.fixture
async def connect(coordinator: Any, tmp_path: Path) -> AsyncIterator[Connect]:
    """``await connect()``: the command, for nothing but a process of its own can be the parent of orphans."""
    started: list[asyncio.subprocess.Process] = []

    async def begin() -> asyncio.subprocess.Process:
        words = ["--server", coordinator.url, "--tenant", "north", "--namespace", "reports", "--queue", "main"]
        words += ["--store", str(tmp_path / "store"), "--cache", str(tmp_path / "cache"), "--concurrency", "1"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "protocol3.cli", "worker", "connect", *words,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mark"
    yield path
    for pid in pids(path):
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def pids(mark: Path) -> list[int]:
    """Once the program has written them all."""
    text = mark.read_text() if mark.exists() else ""
    return list(map(int, text.split())) if text.endswith("\n") else []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def survivors(mark: Path) -> int:
    found = pids(mark)
    assert len(found) == 4
    return sum(map(alive, found))


@pytest.mark.parametrize("end", ["exit", "cancelled"])
async def test_they_are_gone_before_the_report(
    coordinator: Any, connect: Connect, publish: Publish, mark: Path, end: str
) -> None:
    """WRK-036, WRK-070: a clean-up that is confirmed is one of all of them."""
    attempt = coordinator.assign(publish(DAEMONS), {"do": "exit" if end == "exit" else "sleep", "mark": str(mark)})
    process = await connect()
    if end == "cancelled":
        await until(lambda: pids(mark))
        process.send_signal(signal.SIGTERM)
    command = await attempt.end()
    assert survivors(mark) == 0
    assert command["quiescence"] == "confirmed"
    assert attempt.report["error"]["kind"] == ("runtime" if end == "exit" else "cancelled")


async def test_a_program_that_leaves_its_group_is_killed_all_the_same(
    coordinator: Any, connect: Connect, publish: Publish, mark: Path
) -> None:
    """WRK-040, WRK-041: a signal to the group alone would miss the program itself, and its slot never become free."""
    leaves = (
        "import os, time\n"
        "def handle(event):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        time.sleep(600)\n"
        "    os.setpgid(child, child)\n"
        "    os.setpgid(0, child)\n"
        "    with open(event['data']['mark'], 'w') as mark:\n"
        "        mark.write(f'{os.getpid()} {child}\\n')\n"
        "    time.sleep(600)\n"
    )
    attempt = coordinator.assign(publish(leaves), {"mark": str(mark)})
    process = await connect()
    await until(lambda: pids(mark))
    process.send_signal(signal.SIGTERM)
    command = await attempt.end()
    assert command["quiescence"] == "confirmed"
    assert [alive(pid) for pid in pids(mark)] == [False, False]
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_those_of_a_warm_program_live_as_long_as_it(
    coordinator: Any, connect: Connect, publish: Publish, mark: Path
) -> None:
    """WRK-035, WRK-042: another program that ends takes none of them along."""
    one, other = publish(DAEMONS), publish()
    first = coordinator.assign(one, {"do": "return", "mark": str(mark)})
    process = await connect()
    await first.end()
    assert survivors(mark) == 4
    second = coordinator.assign(other, {"do": "exit"})  # the only slot: the warm program is retired first
    await second.end()
    assert survivors(mark) == 0
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_a_forced_end_takes_them_along(
    coordinator: Any, connect: Connect, publish: Publish, refuse: Any, mark: Path
) -> None:
    """WRK-092."""
    coordinator.script("/v1/settlements", *[refuse("unavailable", 503, "later")] * 10_000)
    coordinator.assign(publish(DAEMONS), {"do": "return", "mark": str(mark)})
    process = await connect()
    await coordinator.until(lambda: coordinator.seen("/v1/settlements"))
    assert survivors(mark) == 4
    process.send_signal(signal.SIGTERM)
    await coordinator.until(lambda: len(coordinator.seen("/v1/settlements")) > 2)
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 1
    assert survivors(mark) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["run", "check"])
async def test_a_signal_to_a_command_without_a_coordinator_leaves_nothing(
    tmp_path: Path, publish: Publish, mark: Path, command: str, number: int
) -> None:
    """WRK-040, WRK-041, RUN-006: neither a process nor a folder of the program that it ran."""
    program = publish(DAEMONS + f"\nif {command == 'check'}:\n    handle({{'data': {data_of(mark)!r}}})\n")
    if command == "run":
        words = ["worker", "run", "--tasks", str(task_list(tmp_path, program, data_of(mark)))]
        words += ["--store", str(tmp_path / "store"), "--cache", str(tmp_path / "cache")]
    else:
        words = ["program", "check", str(unpacked(tmp_path, program))]
    (temporary := tmp_path / "temporary").mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "protocol3.cli", *words,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(temporary)},
    )  # fmt: skip
    await until(lambda: pids(mark))
    process.send_signal(number)
    _, told = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert process.returncode == 1
    assert b"Traceback" not in told
    assert survivors(mark) == 0
    assert not list(temporary.iterdir())


def data_of(mark: Path) -> dict[str, str]:
    return {"do": "sleep", "mark": str(mark)}


def task_list(folder: Path, program: Any, data: dict[str, str]) -> Path:
    event = {
        "specversion": "1.0", "id": "event_1", "source": "urn:example:tasks", "datacontenttype": "application/json",
        "type": "com.ledgence.task.invocation.requested.v1", "ldgtenantid": "north", "ldgnamespace": "reports",
        "ldgrunid": "run_1", "ldgtaskid": "task_1", "ldgattemptid": "attempt_1", "ldgattemptno": 1, "data": data,
    }  # fmt: skip
    (path := folder / "tasks.json").write_text(
        json.dumps([{"program": program.descriptor.program.to_json(), "event": event}])
    )
    return path


def unpacked(folder: Path, program: Any) -> Path:
    archive = folder / "store" / "blobs" / (program.descriptor.digest.removeprefix("sha256:") + ".zip")
    with zipfile.ZipFile(archive) as files:
        files.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_children_that_were_there_before_are_left_alone() -> None:
    """Of a shell that the worker replaced, say."""
    code = (
        "import subprocess, sys; from protocol3.worker.orphans import Orphans; "
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']; "
        "before = subprocess.Popen(sleep); orphans = Orphans(); program = subprocess.Popen(sleep); "
        "orphans.started(program.pid); after = subprocess.Popen(sleep); "
        "print(orphans.end(), orphans.end() or orphans.end_all(), before.poll()); before.kill()"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False None None\n"
