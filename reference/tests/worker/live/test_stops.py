"""Stops of user work and of the worker (WRK-014…030, WRK-038, WRK-052, WRK-062, WRK-070, WRK-071, WRK-089…091)."""

import asyncio
import copy
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from protocol3.worker import clock
from protocol3.worker import process as process_module

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

ACQUISITIONS, RENEWALS, SETTLEMENTS = "/v1/acquisitions", "/v1/renewals", "/v1/settlements"


def started(report: dict[str, Any]) -> tuple[str, str, bool]:
    return report["error"]["kind"], report["phase"], report["execution_may_have_started"]


def is_file(path: Path) -> bool:
    return path.is_file()


async def sleeping(bench: Any, mark: Path) -> None:
    """The handler has begun."""
    await bench.until(lambda: is_file(mark))


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


async def test_a_requested_cancellation_kills_the_program(
    coordinator: Any, start: Start, publish: Publish, quick: Any, mark: Path
) -> None:
    """WRK-021, WRK-036, WRK-038, WRK-062: found out by a renewal; settled as cancelled, confirmed."""
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})
    bench = await start(pacing=quick(renew_interval_ms=20))
    await sleeping(bench, mark)
    coordinator.cancelled.add(attempt.owner["attempt_id"])
    command = await attempt.end()
    assert started(attempt.report) == ("cancelled", "execution", True)
    assert command["quiescence"] == "confirmed"
    await bench.stop()


@pytest.mark.parametrize(
    ("bounds", "kind"),
    [({"remaining_ms": 6_500}, "cancelled"), ({"execution_ms": 6_500}, "timed_out")],
)
async def test_reaching_a_deadline_kills_the_program(
    coordinator: Any, start: Start, publish: Publish, mark: Path, bounds: dict[str, int], kind: str
) -> None:
    """WRK-016, WRK-018, WRK-067: five seconds before the service's own bound."""
    program = publish()
    warm = coordinator.assign(program, {"do": "echo"})
    bench = await start()
    await warm.end()
    coordinator.remaining_ms = bounds.get("remaining_ms", 60_000)
    coordinator.execution_ms = bounds.get("execution_ms", 60_000)
    attempt = coordinator.assign(program, {"do": "sleep", "mark": str(mark)})
    await sleeping(bench, mark)
    await attempt.end()
    assert started(attempt.report) == (kind, "execution", True)


@pytest.mark.parametrize(
    "authority",
    [{"cancel_requested": True}, {"remaining_ms": 0}, {"execution_remaining_ms": 0}, {"dispatch_allowed": True}],
)
async def test_an_assignment_that_is_over_is_never_run(
    coordinator: Any, start: Start, publish: Publish, mark: Path, authority: dict[str, Any]
) -> None:
    """WRK-014, WRK-022, WRK-052: reported from admission; its renewal asks only to keep alive (WRK-024)."""
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})

    async def over(scripted: Any, exchange: Any) -> Any:
        reply = await scripted.answer(exchange.path, exchange.body)
        reply["assignment"]["authority"].update(authority)
        return reply

    coordinator.script(ACQUISITIONS, over)
    bench = await start()
    await attempt.end()
    await bench.stop()
    assert started(attempt.report) == ("cancelled", "admission", False)
    assert not is_file(mark)
    assert {body["intent"] for body in coordinator.seen(RENEWALS)} <= {"keep_alive"}


async def test_permission_that_is_never_given_is_waited_for(
    coordinator: Any, start: Start, publish: Publish, quick: Any, mark: Path
) -> None:
    """WRK-015, WRK-023, DLV-200: an assignment alone, or a renewal without permission, runs nothing."""
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})

    async def without(scripted: Any, exchange: Any) -> Any:
        return scripted.authority(attempt, exchange.body["sequence"], dispatch=False)

    coordinator.script(RENEWALS, *[without] * 200)
    # enough for a second renewal on a slow machine
    await start(pacing=quick(renew_interval_ms=20, dispatch_confirmation_ms=2_000))
    await attempt.end()
    assert started(attempt.report) == ("cancelled", "admission", False)
    intents = [body["intent"] for body in coordinator.seen(RENEWALS)]
    waiting = intents.count("dispatch")
    assert waiting > 1
    assert set(intents[waiting:]) <= {"keep_alive"}  # between the stop and its report (WRK-024, WRK-029)
    assert not is_file(mark)


async def test_renewals_go_on_until_the_report_is_resolved(
    coordinator: Any, start: Start, publish: Publish, quick: Any, refuse: Any
) -> None:
    """WRK-028, WRK-029, WRK-073: through an unresolved settlement, whose bytes never change."""
    attempt = coordinator.assign(publish(), {"do": "echo", "value": 1})
    coordinator.script(SETTLEMENTS, *[refuse("unavailable", 503, "later")] * 60)
    bench = await start(pacing=quick(renew_interval_ms=20))
    await coordinator.until(lambda: len(coordinator.seen(SETTLEMENTS)) > 3)
    renewed = len(coordinator.seen(RENEWALS))
    await coordinator.until(lambda: len(coordinator.seen(RENEWALS)) > renewed + 2)
    bench.worker.stop("now")
    await attempt.end()
    await bench.end()
    sent = [exchange.raw for exchange in coordinator.exchanges if exchange.path == SETTLEMENTS]
    assert len(set(sent)) == 1
    assert attempt.report["outcome"] == {"status": "success", "output": 1}


async def test_stopping_reports_what_runs_and_leaves_nothing_behind(
    coordinator: Any, start: Start, publish: Publish, mark: Path
) -> None:
    """WRK-089, WRK-091, WRK-040: the group dies with its leader, the directory goes, the worker finishes."""
    attempt = coordinator.assign(publish(), {"do": "spawn", "mark": str(mark)})
    bench = await start(concurrency=2)
    await sleeping(bench, mark)
    await bench.until(lambda: text(mark))
    delivery = await bench.stop()
    assert started(attempt.report) == ("cancelled", "execution", True)
    assert attempt.settlements[-1]["quiescence"] == "confirmed"
    assert (delivery.finished, delivery.settled_attempts, delivery.failure) == (True, 1, None)
    await bench.until(lambda: not alive(int(text(mark))))


def text(path: Path) -> str:
    return path.read_text()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_waiting_acquisition_is_cut_short_and_reconciled(coordinator: Any, start: Start) -> None:
    """WRK-090: the same sequence without a wait."""
    bench = await start()
    await coordinator.until(lambda: coordinator.seen(ACQUISITIONS))
    await bench.stop()
    waiting, reconciled = coordinator.seen(ACQUISITIONS)
    assert (waiting["sequence"], waiting["wait_ms"]) == (1, 20_000)
    assert (reconciled["sequence"], reconciled.get("wait_ms", 0)) == (1, 0)


async def test_what_reconciliation_brings_is_not_run(
    coordinator: Any, start: Start, publish: Publish, mark: Path
) -> None:
    """WRK-052, WRK-090."""
    bench = await start()
    await coordinator.until(lambda: coordinator.seen(ACQUISITIONS))
    bench.worker.stop("now")
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})
    coordinator._cursors[0] = (1, attempt)
    attempt.assignment["authority"] = coordinator.authority(attempt, 0, dispatch=False)
    delivery = await bench.end()
    assert started(attempt.report) == ("cancelled", "admission", False)
    assert (delivery.settled_attempts, delivery.failure) == (1, None)
    assert not is_file(mark)


async def test_pending_exchanges_outlive_the_stop(coordinator: Any, start: Start, refuse: Any) -> None:
    """WRK-089, WRK-091: an uncertain acquisition is reconciled before the worker finishes."""
    coordinator.script(ACQUISITIONS, *[refuse("unavailable", 503, "x")] * 10)
    bench = await start()
    await coordinator.until(lambda: len(coordinator.seen(ACQUISITIONS)) >= 2)
    await bench.stop()
    sent = coordinator.seen(ACQUISITIONS)
    assert len(sent) == 11
    assert {body["sequence"] for body in sent} == {1}


async def test_unfinished_clean_up_is_settled_unconfirmed_and_confirmed_later(
    coordinator: Any, start: Start, publish: Publish, quick: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-041, WRK-066, WRK-070, WRK-071: the worker drains; the confirmation follows the end of the clean-up."""
    gone = asyncio.Event()
    monkeypatch.setattr(process_module, "group_is_gone", lambda _: gone.is_set())
    attempt = coordinator.assign(publish(), {"do": "kill"})
    bench = await start(pacing=quick(shutdown_ms=30))
    command = await attempt.end()
    assert command["quiescence"] == "unconfirmed"
    assert started(attempt.report) == ("runtime", "execution", True)
    assert attempt.report["cleanup_error"]["kind"] == "timed_out"
    assert not attempt.confirmed
    assert not bench.run.done()
    gone.set()
    delivery = await bench.end()
    assert attempt.confirmed
    assert coordinator.seen("/v1/quiescence-confirmations") == [attempt.owner]
    assert (delivery.finished, delivery.settled_attempts) == (True, 1)
    assert "ended in time" in delivery.failure


async def test_a_process_that_dies_while_idle_is_replaced(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-037, WRK-044."""
    program = publish()
    first = coordinator.assign(program, {"do": "pid"})
    bench = await start()
    await first.end()
    await bench.until(lambda: bench.worker._pool._idle)
    os.kill(first.report["outcome"]["output"], 9)
    await bench.until(lambda: not bench.worker._pool.occupied)
    second = coordinator.assign(program, {"do": "pid"})
    await second.end()
    assert second.report["outcome"]["output"] != first.report["outcome"]["output"]
    assert second.report["reused_process"] is False
    assert bench.worker._pool.occupied == 1


async def test_an_attempt_that_is_owned_already_is_refused(
    coordinator: Any, start: Start, publish: Publish, mark: Path
) -> None:
    """WRK-055."""
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})
    bench = await start(concurrency=2)
    await sleeping(bench, mark)
    twin = copy.deepcopy(attempt)
    twin.owner["lease_id"] = "other"
    coordinator.attempts[attempt.owner["attempt_id"]] = twin
    coordinator._work.put_nowait(twin)
    await twin.end()
    assert started(twin.report) == ("invalid_input", "admission", False)
    coordinator.attempts[attempt.owner["attempt_id"]] = attempt
    await bench.stop()
    assert started(attempt.report) == ("cancelled", "execution", True)


@pytest.fixture
def suspend(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """``suspend(ms)``: the machine slept so long; the clock went on, timers of the event loop did not."""
    slept_ms = 0.0

    def jump(ms: float) -> None:
        nonlocal slept_ms
        slept_ms += ms

    real = time.clock_gettime
    monkeypatch.setattr(clock, "time", SimpleNamespace(clock_gettime=lambda which: real(which) + slept_ms / 1000))
    return jump


def test_the_clock_goes_on_in_a_suspended_machine() -> None:
    """WRK-016: the one of the system that does."""
    wanted = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    before = time.clock_gettime(wanted) * 1000
    assert before <= clock.now_ms() <= time.clock_gettime(wanted) * 1000


@pytest.mark.parametrize(("slept_ms", "kind"), [(56_000, "cancelled"), (296_000, "timed_out")])
async def test_a_lease_that_ran_out_in_a_suspended_machine_is_over(
    coordinator: Any, start: Start, publish: Publish, mark: Path, suspend: Any, slept_ms: float, kind: str
) -> None:
    """WRK-018, WRK-030: noticed at once, before any renewal."""
    coordinator.remaining_ms = 60_000 if kind == "cancelled" else 600_000
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})
    held = asyncio.Event()

    async def settle_later(scripted: Any, exchange: Any) -> Any:
        await held.wait()
        return await scripted.answer(exchange.path, exchange.body)

    coordinator.script(SETTLEMENTS, settle_later)
    bench = await start()
    await sleeping(bench, mark)
    renewals = len(coordinator.seen(RENEWALS))
    suspend(slept_ms)
    await coordinator.until(lambda: coordinator.seen(SETTLEMENTS))
    assert len(coordinator.seen(RENEWALS)) == renewals
    held.set()
    await attempt.end()
    assert started(attempt.report) == (kind, "execution", True)


async def test_permission_that_comes_after_a_long_sleep_is_too_late(
    coordinator: Any, start: Start, publish: Publish, mark: Path, suspend: Any
) -> None:
    """WRK-015: thirty seconds, suspended ones too; the lease itself would hold."""
    attempt = coordinator.assign(publish(), {"do": "sleep", "mark": str(mark)})

    async def late(scripted: Any, exchange: Any) -> Any:
        suspend(31_000)
        return await scripted.answer(exchange.path, exchange.body)

    coordinator.script(RENEWALS, late)
    await start()
    await attempt.end()
    assert started(attempt.report) == ("cancelled", "admission", False)
    assert not is_file(mark)
