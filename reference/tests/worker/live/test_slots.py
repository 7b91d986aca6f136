"""Slots: what holds one, what runs in one, and a worker that is gone (chapter 22)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protocol3.worker.control import AttemptControl

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

DIARY = """\
import os, time

def handle(event):
    with open(event["data"]["diary"], "a") as diary:
        diary.write(f"begin {os.getpid()}\\n")
        diary.flush()
        if event["data"].get("crash"):
            os._exit(7)
        time.sleep(0.03)
        diary.write(f"end {os.getpid()}\\n")
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def lines(diary: Path) -> list[list[str]]:
    return [line.split() for line in diary.read_text().splitlines()]


async def test_one_invocation_per_process_and_as_many_as_slots(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path
) -> None:
    """RUN-034, WRK-001, WRK-034: no process begins before it ended what it had, and no more than N run at once."""
    diary = tmp_path / "diary"
    program = publish(DIARY)
    attempts = [coordinator.assign(program, {"diary": str(diary)}) for _ in range(8)]
    bench = await start(concurrency=2)
    most = 0
    for attempt in attempts:
        await attempt.end()
        most = max(most, bench.worker._pool.occupied)
    running: set[str] = set()
    for word, pid in lines(diary):
        if word == "begin":
            assert pid not in running
            running.add(pid)
        else:
            running.remove(pid)
        assert len(running) <= 2
    assert len({pid for _, pid in lines(diary)}) <= 2
    assert most <= 2


async def test_a_burst_starts_few_programs_at_a_time(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-033: who waits for its turn takes a process that has become idle; else each start would slow all others."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    diary = tmp_path / "diary"
    program = publish(DIARY.replace("0.03", "0"))
    attempts = [coordinator.assign(program, {"diary": str(diary)}) for _ in range(8)]
    bench = await start(concurrency=8)
    starting = 0
    ends = asyncio.gather(*(attempt.end() for attempt in attempts))
    while not ends.done():
        await asyncio.sleep(0.001)
        starting = max(starting, sum(not process.invocations for process in bench.worker._pool._occupied))
    await ends
    assert 1 <= starting <= 2


async def test_an_invocation_is_handed_over_once(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path
) -> None:
    """WRK-043, DLV-209: a crash is reported, never tried again by this worker."""
    diary = tmp_path / "diary"
    attempt = coordinator.assign(publish(DIARY), {"diary": str(diary), "crash": True})
    bench = await start()
    await attempt.end()
    await bench.stop()
    assert [word for word, _ in lines(diary)] == ["begin"]


async def test_a_consumer_asks_only_with_a_free_slot(
    coordinator: Any, start: Start, publish: Publish, refuse: Any
) -> None:
    """WRK-006, WRK-076: the next acquisition follows the settlement, however often that has to be repeated."""
    program = publish()
    coordinator.script("/v1/settlements", *[refuse("unavailable", 503, "later")] * 3)
    attempts = [coordinator.assign(program, {"do": "pid"}) for _ in range(3)]
    bench = await start(concurrency=1)
    for attempt in attempts:
        await attempt.end()
    await bench.stop()
    order = [exchange.path for exchange in coordinator.exchanges if exchange.path != "/v1/renewals"]
    acquired, settled = "/v1/acquisitions", "/v1/settlements"
    expected = ["/v1/worker-sessions", acquired, *[settled] * 4, acquired, settled, acquired, settled]
    assert order[: len(expected)] == expected


async def test_a_monitor_that_fails_stops_user_work(
    coordinator: Any, start: Start, publish: Publish, quick: Any, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-031: the report is settled all the same, and the worker ends with the reason."""
    real = AttemptControl.renewed

    def broken(self: AttemptControl, *reply: Any) -> None:
        if mark.exists():  # the program runs
            raise RuntimeError("a fault of our own")
        real(self, *reply)

    monkeypatch.setattr(AttemptControl, "renewed", broken)
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})
    bench = await start(pacing=quick(renew_interval_ms=20))
    await attempt.end()
    report = attempt.report
    assert (report["error"]["kind"], report["phase"], report["execution_may_have_started"]) == (
        "cancelled",
        "execution",
        True,
    )
    delivery = await bench.end()
    assert "lease monitor" in (delivery.failure or "")


async def test_a_replacement_opens_its_own_session(
    coordinator: Any, start: Start, publish: Publish, mark: Path
) -> None:
    """WRK-077, DLV-212: nothing of a worker that is gone comes back; sequences start at 1."""
    program = publish()
    lost = coordinator.assign(program, {"do": "sleep", "mark": str(mark)})
    first = await start()
    await first.until(mark.exists)
    assert first.worker.abandon().finished is False
    first.run.cancel()

    coordinator._cursors.clear()
    after = coordinator.assign(program, {"do": "pid"})
    second = await start()
    await after.end()
    await second.stop()
    assert len(coordinator.seen("/v1/worker-sessions")) == 2
    sequences = [body["sequence"] for body in coordinator.seen("/v1/acquisitions")]
    assert sequences[:2] == [1, 1]
    assert lost.settlements == []


async def test_the_environment_is_the_workers(
    coordinator: Any, start: Start, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-007: variables as they are, and a pipe for what the program writes."""
    monkeypatch.setenv("OF_THE_WORKER", "kept")
    source = """
import os, stat
def handle(event):
    return [os.environ["OF_THE_WORKER"], stat.S_ISFIFO(os.fstat(2).st_mode)]
"""
    attempt = coordinator.assign(publish(source))
    await start()
    assert (await attempt.end())["report"]["report"]["outcome"]["output"] == ["kept", True]
