"""Permission and stops on the event loop (WRK-018, WRK-023, WRK-029, WRK-030)."""

import asyncio
import math

import pytest

from protocol3.contract import limits
from protocol3.worker.authority import CANCEL_REQUESTED, EXECUTION_ENDED, LEASE_ENDED, LocalAuthority, Stop
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl, Stopped
from protocol3.worker.interruption import Interrupted, Interruptible

from .test_authority import authority


def control(*, lease_ms: float = 60_000, execution_ms: float = 60_000, permitted: bool = True) -> AttemptControl:
    now = now_ms()
    return AttemptControl(
        LocalAuthority(
            sequence=1, lease_deadline_ms=now + lease_ms, execution_deadline_ms=now + execution_ms, permitted=permitted
        )
    )


async def test_permission_is_taken_once_and_changes_the_intent() -> None:
    """WRK-023, WRK-024."""
    attempt = control()
    assert attempt.intent == "dispatch"
    with attempt.user_work():
        await attempt.take_permission()
    assert (attempt.permission_taken, attempt.intent) == (True, "keep_alive")
    with pytest.raises(RuntimeError):
        await attempt.take_permission()
    attempt.close()


async def test_without_permission_the_wait_ends_with_the_stop() -> None:
    """WRK-052."""
    attempt = control(permitted=False)
    asyncio.get_running_loop().call_soon(attempt.stop, CANCEL_REQUESTED)
    with pytest.raises(Stopped) as caught, attempt.user_work():
        await attempt.take_permission()
    assert caught.value.stop == CANCEL_REQUESTED
    assert not attempt.permission_taken


@pytest.mark.parametrize(("lease", "execution", "stop"), [(20, 60_000, LEASE_ENDED), (60_000, 20, EXECUTION_ENDED)])
async def test_the_deadline_interrupts_what_is_awaited(lease: int, execution: int, stop: Stop) -> None:
    """WRK-018: no earlier and without polling."""
    attempt = control(lease_ms=lease, execution_ms=execution)
    began = now_ms()
    with pytest.raises(Stopped) as caught, attempt.user_work():
        await asyncio.Event().wait()
    assert caught.value.stop == stop
    assert now_ms() - began >= 19


@pytest.mark.parametrize("moves", [[60], [60_000, 60], [60_000, 30_000, 60]])
async def test_a_deadline_that_moved_is_met_where_it_is_then(moves: list[int]) -> None:
    """WRK-018, WRK-019: later and earlier, whatever was waited for before."""
    attempt, began = control(lease_ms=20), now_ms()
    for number, remaining_ms in enumerate(moves):
        attempt.renewed(
            authority(renew_sequence=2 + number, remaining_ms=limits.SAFETY_MARGIN_MS + remaining_ms), began
        )
    with pytest.raises(Stopped) as caught, attempt.user_work():
        await asyncio.wait_for(asyncio.Event().wait(), 20)
    assert caught.value.stop == LEASE_ENDED
    assert now_ms() - began >= 59
    assert attempt.next_look_ms == math.inf


async def test_a_look_sees_what_a_timer_has_not() -> None:
    """WRK-030: a machine that slept."""
    attempt = control(lease_ms=60_000)
    attempt.renewed(authority(renew_sequence=2, remaining_ms=limits.SAFETY_MARGIN_MS + 60_000), now_ms() - 60_000)
    assert attempt.stop_reason == LEASE_ENDED
    attempt = control(lease_ms=1)
    until = now_ms() + 2
    while now_ms() < until:
        pass
    assert now_ms() >= attempt.next_look_ms
    attempt.look()
    assert attempt.stop_reason == LEASE_ENDED


async def test_work_that_crosses_the_deadline_without_yielding_is_rejected() -> None:
    """WRK-030, WRK-039."""
    attempt, over = control(execution_ms=5), now_ms() + 10
    work = iter(now_ms, None)
    with pytest.raises(Stopped), attempt.user_work():
        next(now for now in work if now > over)
    assert now_ms() > over
    with pytest.raises(Stopped), attempt.user_work():
        pytest.fail("user work never starts again")


async def test_what_the_work_raises_itself_wins_over_a_later_stop() -> None:
    attempt = control()
    with pytest.raises(KeyError), attempt.user_work():
        raise KeyError
    attempt.stop(LEASE_ENDED)
    assert attempt.stop_reason == LEASE_ENDED


async def test_a_foreign_cancellation_stays_one() -> None:
    """The worker's own end is no stop of the attempt."""
    attempt = control()

    async def work() -> None:
        with attempt.user_work():
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    attempt.stop(LEASE_ENDED)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_unconfirmed_dispatch_renewal_stops_only_before_permission() -> None:
    """WRK-015."""
    waiting, running = control(permitted=False), control()
    late = Stop(kind="cancelled", reason="late")
    for attempt in (waiting, running):
        attempt.stop_unless_permitted(late)
    assert (waiting.stop_reason, running.stop_reason) == (late, None)
    running.close()


async def test_an_interruption_ends_with_its_body() -> None:
    with Interruptible() as work:
        pass
    work.interrupt()
    await asyncio.sleep(0)
    again = Interruptible()
    asyncio.get_running_loop().call_soon(again.interrupt)
    with pytest.raises(Interrupted), again:
        await asyncio.Event().wait()
    await asyncio.sleep(0)
