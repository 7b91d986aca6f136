"""The console commands as a user types them: real processes, the embedded database, the real coordinator."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROTOCOL3 = [sys.executable, "-m", "protocol3.cli"]
SCOPE = ["--tenant", "acme", "--namespace", "demo"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the database's account may enter."""
    with tempfile.TemporaryDirectory(prefix="p3-", dir="/tmp", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve()


@pytest.fixture
def serving(folder: Path) -> Iterator[Any]:
    """Start `orchestrator serve` on a free port; returns the process and its URL. Stopped at the end at the latest."""
    running: list[subprocess.Popen[str]] = []

    (folder / "store").mkdir()

    def start(*words: str) -> tuple[subprocess.Popen[str], str]:
        command = [*PROTOCOL3, "orchestrator", "serve", "--listen", "127.0.0.1:0", "--store", f"{folder}/store", *words]
        log = (folder / "serve.log").open("a")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "serve.log").read_text()
        return process, json.loads(line)["url"]

    yield start
    for process in running:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=40)


def run(*words: str, url: str | None = None) -> Any:
    environment = os.environ | ({"PROTOCOL3_SERVER": url} if url else {})
    done = subprocess.run([*PROTOCOL3, *words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def publish(folder: Path) -> None:
    run("program", "example", "--directory", f"{folder}/hello")
    run("program", "publish", "--source", f"{folder}/hello/program", "--store", f"{folder}/store")


def test_what_was_accepted_outlives_kill_9(serving, folder):
    """kill -9 of the coordinator takes its database along; served again, the task is there. SIGTERM ends with 0."""
    publish(folder)
    process, url = serving("--data-dir", f"{folder}/data")
    submit = ["task", "submit", *SCOPE, "--queue", "main", "--program", "hello@1.0.0", "--key", "once"]
    task = run(*submit, "--data", '{"x": 1.0}', url=url)
    assert task["state"] == "queued"
    process.kill()
    process.wait()

    process, url = serving("--data-dir", f"{folder}/data")
    again = run("task", "inspect", *SCOPE, "--task", task["task_id"], url=url)
    assert again == task
    assert run(*submit, "--data", '{"x": 1.0}', url=url) == task
    assert [item["task_id"] for item in run("task", "list", *SCOPE, url=url)["items"]] == [task["task_id"]]
    assert run("task", "cancel", *SCOPE, "--task", task["task_id"], url=url) == "cancelled"
    assert run("task", "result", *SCOPE, "--task", task["task_id"], url=url)["outcome"] == {"kind": "cancelled"}
    assert len(run("task", "history", *SCOPE, "--task", task["task_id"], url=url)) == 3
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=40) == 0


def test_a_lost_database_ends_the_coordinator(serving, folder):
    process, _ = serving("--data-dir", f"{folder}/data")
    os.kill(int((folder / "data/data/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    assert process.wait(timeout=60) == 1
    failure = json.loads((folder / "serve.log").read_text().splitlines()[-1])
    assert "ended unexpectedly" in failure["message"]


def children_of(parent: int) -> list[int]:
    """Process ids of its direct children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            pid, _, rest = stat.read_text().partition(" (")
            if int(rest.rpartition(") ")[2].split()[1]) == parent:
                found.append(int(pid))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the sessions of the database by /proc")
def test_a_database_lost_with_its_connections_ends_the_coordinator(serving, folder):
    """The coordinator learns of both at the same time: it stops while nothing can be said to the database any more."""
    process, _ = serving("--data-dir", f"{folder}/data")
    database = int((folder / "data/data/postmaster.pid").read_text().split()[0])
    backends = children_of(database)
    process.send_signal(signal.SIGSTOP)
    try:
        for number in [database, *backends]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
    finally:
        process.send_signal(signal.SIGCONT)
    try:
        assert process.wait(timeout=60) == 1
    finally:
        process.kill()
    failure = json.loads((folder / "serve.log").read_text().splitlines()[-1])
    assert "ended unexpectedly" in failure["message"]


def test_a_port_in_use_is_one_sentence(serving, folder):
    _, url = serving("--data-dir", f"{folder}/data")
    address = url.removeprefix("http://")
    command = [*PROTOCOL3, "orchestrator", "serve", "--ephemeral", "--listen", address, "--store", f"{folder}/store"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    assert "--listen" in json.loads(failed.stderr.splitlines()[-1])["next"]
