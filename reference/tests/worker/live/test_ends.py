"""Programs that end, or whose worker ends, while processes they forked live on (WRK-037, WRK-041, WRK-044, WRK-059)."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

FORKS = """\
import os, time

def fork(mark):
    child = os.fork()
    if child == 0:
        time.sleep(600)
    with open(mark, "w") as file:
        file.write(f"{os.getpid()} {child}")

def handle(event):
    data = event["data"]
    match data["do"]:
        case "fork":
            fork(data["mark"])
            return os.getpid()
        case "fork and exit":
            fork(data["mark"])
            os._exit(3)
        case "exit":
            os._exit(3)
        case "sleep":
            fork(data["mark"])
            time.sleep(600)
        case "lock":
            os.makedirs("a/b")
            os.chmod("a", 0)
            return os.getcwd()
"""


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def pids(mark: Path) -> list[str]:
    return mark.read_text().split() if mark.exists() else []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def ended(report: dict[str, Any]) -> tuple[str, str, bool]:
    return report["error"]["kind"], report["phase"], report["execution_may_have_started"]


@pytest.fixture(params=["descriptor", "thread"])
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to notice the end of a process."""
    if request.param == "thread":
        monkeypatch.delattr(os, "pidfd_open", raising=False)


@pytest.mark.usefixtures("watched")
async def test_an_exit_counts_although_a_forked_child_holds_the_pipes(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path
) -> None:
    """WRK-059, WRK-040: reported at once, not at the deadline; the child of the program dies too."""
    mark = tmp_path / "mark"
    attempt = coordinator.assign(publish(FORKS), {"do": "fork and exit", "mark": str(mark)})
    await start()
    command = await attempt.end()
    assert ended(attempt.report) == ("runtime", "execution", True)
    assert command["quiescence"] == "confirmed"
    assert [alive(pid) for pid in pids(mark)] == [False, False]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the way a process ended is not told")
@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("os._exit(3)", "ended (exit status 3)"),
        ("os._exit(0)", "ended (exit status 0)"),
        ("os.kill(os.getpid(), 11)", "was killed (SIGSEGV)"),
        ("os.closerange(3, 64); import time; time.sleep(600)", "closed its frame stream"),
    ],
)
async def test_report_and_worker_tell_how_a_program_ended(
    coordinator: Any, start: Start, publish: Publish, end: str, told: str
) -> None:
    """WRK-059: the report's message says it, a line of the worker whose it was."""
    attempt = coordinator.assign(publish(f"import os\ndef handle(event):\n    {end}\n"))
    bench = await start()
    await attempt.end()
    assert ended(attempt.report) == ("runtime", "execution", True)
    assert told in attempt.report["error"]["message"]
    await bench.stop()
    await bench.flushed()
    log = bench.output.getvalue().decode()
    assert f"attempt 1 of task {attempt.owner['task_id']} failed as runtime in execution" in log


async def test_an_exit_counts_although_an_earlier_invocation_forked(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path
) -> None:
    """WRK-059: the process itself is watched for its whole life."""
    mark, program = tmp_path / "mark", publish(FORKS)
    first = coordinator.assign(program, {"do": "fork", "mark": str(mark)})
    second = coordinator.assign(program, {"do": "exit"})
    await start()
    await first.end()
    assert first.report["outcome"]["output"] == int(pids(mark)[0])
    await second.end()
    assert ended(second.report) == ("runtime", "execution", True)
    assert [alive(pid) for pid in pids(mark)] == [False, False]


@pytest.mark.usefixtures("watched")
async def test_a_death_while_idle_is_noticed_although_a_forked_child_lives(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path
) -> None:
    """WRK-037, WRK-044."""
    mark, program = tmp_path / "mark", publish(FORKS)
    first = coordinator.assign(program, {"do": "fork", "mark": str(mark)})
    bench = await start()
    await first.end()
    await coordinator.until(lambda: len(coordinator.seen("/v1/acquisitions")) == 2)
    os.kill(int(pids(mark)[0]), 9)
    await bench.until(lambda: bench.worker._pool.occupied == 0)
    assert [alive(pid) for pid in pids(mark)] == [False, False]


async def test_a_directory_without_permissions_is_removed(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-041: a program that locks its directory does not end the worker; an ordinary user notices the difference."""
    attempt = coordinator.assign(publish(FORKS), {"do": "lock"})
    bench = await start()
    await attempt.end()
    await bench.stop()
    assert not Path(attempt.report["outcome"]["output"]).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a program ends once it is idle")
async def test_a_killed_worker_takes_its_program_along(coordinator: Any, publish: Publish, tmp_path: Path) -> None:
    """WRK-077: nothing a worker ran goes on after kill -9 of it, so no work outlives its lease for long."""
    mark = tmp_path / "mark"
    coordinator.assign(publish(FORKS), {"do": "sleep", "mark": str(mark)})
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "protocol3.cli", "worker", "connect", "--server", coordinator.url, "--tenant", "north",
        "--namespace", "reports", "--queue", "main", "--store", str(tmp_path / "store"),
        "--cache", str(tmp_path / "cache"), "--concurrency", "1",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        await until(lambda: len(pids(mark)) == 2)
        worker.kill()
        await worker.wait()
        await until(lambda: not alive(pids(mark)[0]))
    finally:
        for pid in pids(mark):
            if alive(pid):
                os.kill(int(pid), 9)
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
