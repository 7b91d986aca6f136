"""Lease and permission (chapter 22)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.coordinator import (
    ACQUISITIONS,
    EXTEND,
    RENEWALS,
    SETTLEMENTS,
    losing,
    refusing,
    replying,
)
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.wire.server import Raw, reply
from protocol3_conformance.wire.strict_json import JsonValue
from protocol3_conformance.worker_lab import WorkerLab, gone

NEVER_RUN = ("cancelled", "admission", False)
MARGIN = bound("SAFETY_MARGIN_MS")
LEFT = 3000
RENEWAL_SECONDS = bound("RENEW_INTERVAL_MS") / 1000 + 25


@worker_check("worker-lease/asks-for-permission", cites=["WRK-015", "WRK-023", "WRK-024", "DLV-068"])
async def test_asks_for_permission(lab: WorkerLab) -> None:
    """The first renewal asks to dispatch with the sequence after the assignment's; without it nothing runs."""
    attempt = lab.coordinator.prepare(lab.laboratory(), {"code": "return 1"})

    def later(command: JsonValue) -> JsonValue:
        lab.coordinator.give(command["consumer_id"], 1, attempt)
        attempt.assignment["authority"]["renew_sequence"] = 4
        return {"disposition": "assigned", "sequence": 1, "assignment": attempt.assignment}

    lab.coordinator.script(ACQUISITIONS, replying(later))
    worker = lab.worker()
    assert await lab.coordinator.settled(attempt) == ("success", 1)
    first = lab.coordinator.sent(RENEWALS)[0]
    assert (first["sequence"], first["intent"]) == (5, "dispatch")
    await lab.stopped(worker)


@worker_check("worker-lease/over-already", cites=["WRK-014", "WRK-022", "WRK-052"])
async def test_over_already(lab: WorkerLab) -> None:
    """An assignment that is cancelled, has no time left, or allows dispatch before a renewal, is never run."""
    worker = lab.worker()
    for change in (
        {"cancel_requested": True, "execution_remaining_ms": 0},
        {"remaining_ms": 0},
        {"execution_remaining_ms": 0},
        {"dispatch_allowed": True},
    ):
        with lab.case(repr(change)):
            mark = lab.mark(str(len(lab.coordinator.attempts)))
            attempt = lab.coordinator.prepare(lab.laboratory(), {"code": f"open({str(mark)!r}, 'w')"})

            def over(command: JsonValue, attempt: Any = attempt, change: Any = change) -> JsonValue:
                lab.coordinator.give(command["consumer_id"], command["sequence"], attempt)
                attempt.assignment["authority"] |= change
                return {
                    "disposition": "assigned",
                    "sequence": command["sequence"],
                    "assignment": attempt.assignment,
                }

            lab.coordinator.script(ACQUISITIONS, replying(over))
            trigger = await lab.task("return 0")  # ends the poll that waits, so that the next one is answered so
            assert await lab.coordinator.settled(attempt) == NEVER_RUN
            await lab.coordinator.settled(trigger)
            assert not mark.exists()
    await lab.stopped(worker)


@worker_check("worker-lease/identical-renewals", cites=["WRK-025"])
async def test_identical_renewals(lab: WorkerLab) -> None:
    """A renewal whose outcome is unknown is repeated with the same sequence and intent."""
    lab.coordinator.script(RENEWALS, losing, *refusing("unavailable"), *refusing("busy"), losing)
    attempt = await lab.task("return 1")
    worker = lab.worker()
    assert await lab.coordinator.settled(attempt) == ("success", 1)
    assert len(set(lab.coordinator.bodies(RENEWALS)[:5])) == 1
    await lab.stopped(worker)


@worker_check("worker-lease/contradictory-renewals", cites=["WRK-026", "WRK-052"])
async def test_contradictory_renewals(lab: WorkerLab) -> None:
    """A reply with another owner or sequence, or a definite refusal, is fatal: nothing is run, the worker ends."""
    for number, case in enumerate(("another owner", "another sequence", "out_of_order")):
        with lab.case(case):
            attempt = await lab.task(f"open({str(lab.mark(case[:5]))!r}, 'w')")

            def wrong(command: JsonValue, case: str = case, attempt: Any = attempt) -> JsonValue:
                given = attempt.authority(command["sequence"], dispatch=True)
                if case == "another owner":
                    given["owner"] = {**given["owner"], "lease_id": "other"}
                else:
                    given["renew_sequence"] += 1
                return given

            answers = refusing("out_of_order") if case == "out_of_order" else [replying(wrong)]
            lab.coordinator.script(RENEWALS, *answers)
            worker = lab.worker(cache=number)
            assert await lab.coordinator.settled(attempt) == NEVER_RUN
            await lab.ended(worker)
            assert not lab.mark(case[:5]).exists()


@worker_check("worker-lease/lost-before-permission", cites=["WRK-027", "WRK-052", "WRK-074"])
async def test_lost_before_permission(lab: WorkerLab) -> None:
    """Lost ownership on renewal stops the attempt; its report is made, and the worker goes on."""
    worker = lab.worker()
    for code in ("ownership_lost", "not_found"):
        with lab.case(code):
            lab.coordinator.script(RENEWALS, *refusing(code))
            attempt = await lab.task("return 1")
            assert await lab.coordinator.settled(attempt) == NEVER_RUN
    after = await lab.task("return 2")
    assert await lab.coordinator.settled(after) == ("success", 2)
    await lab.stopped(worker)


@worker_check("worker-lease/deadlines", cites=["WRK-016", "WRK-018", "WRK-062", "WRK-067", "WRK-038"])
async def test_deadlines(lab: WorkerLab) -> None:
    """User work is killed, deaf to TERM or not, 5 s before the lease or the execution time ends."""
    worker = lab.worker()
    for name, kind in (("remaining_ms", "cancelled"), ("execution_ms", "timed_out")):
        with lab.case(name):
            await lab.coordinator.settled(await lab.task("return 0"))  # so that a warm process is there
            deaf = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{lab.sleeping(name)}"
            attempt = lab.coordinator.prepare(lab.laboratory(), {"code": deaf})
            setattr(attempt, name, MARGIN + LEFT)
            await lab.coordinator.offer(attempt)
            pid = await lab.reached(worker, name)
            assert await lab.coordinator.settled(attempt) == (kind, "execution", True)
            asked, reported = lab.coordinator.times(RENEWALS)[-1], lab.coordinator.times(SETTLEMENTS)[-1]
            assigned = lab.coordinator.replied(ACQUISITIONS, before=asked)  # the request for permission began after it
            assert reported - assigned >= LEFT - 5
            assert reported - asked < LEFT + MARGIN
            await gone(pid, lab.target.patience.progress)
    await lab.stopped(worker)


@worker_check("worker-lease/from-the-start-of-the-request", cites=["WRK-016", "WRK-019"])
async def test_from_the_start(lab: WorkerLab) -> None:
    """Deadlines count from the start of the request: a reply that comes too late gives no time at all.

    So does an assignment, whatever the renewal after it would have given.
    """
    attempt = lab.coordinator.prepare(lab.laboratory(), {"code": f"open({str(lab.mark('ran'))!r}, 'w')"})

    async def late(command: JsonValue) -> Raw:
        await asyncio.sleep(2.5)
        return reply(attempt.authority(command["sequence"], dispatch=True, remaining_ms=MARGIN + 2000))

    lab.coordinator.script(RENEWALS, late)
    await lab.coordinator.offer(attempt)
    worker = lab.worker()
    assert await lab.coordinator.settled(attempt) == NEVER_RUN
    assert not lab.mark("ran").exists()
    waited = lab.coordinator.prepare(lab.laboratory(), {"code": f"open({str(lab.mark('ran'))!r}, 'w')"})

    async def assigned(command: JsonValue) -> Raw:
        await asyncio.sleep(2.5)
        lab.coordinator.give(command["consumer_id"], command["sequence"], waited)
        waited.assignment["authority"]["remaining_ms"] = MARGIN + 2000
        return reply({"disposition": "assigned", "sequence": command["sequence"], "assignment": waited.assignment})

    lab.coordinator.script(ACQUISITIONS, assigned)
    trigger = await lab.task("return 0")  # ends the poll that waits
    assert await lab.coordinator.settled(waited) == NEVER_RUN
    await lab.coordinator.settled(trigger)
    assert not lab.mark("ran").exists()
    await lab.stopped(worker)


@worker_check("worker-lease/only-shrinks", cites=["WRK-017", "WRK-024", "WRK-028", "WRK-098"], slow=True)
async def test_only_shrinks(lab: WorkerLab) -> None:
    """A later reply with more execution time does not move the deadline; renewals keep alive meanwhile, at their pace.

    A session, valid for a day, is extended every hour only.
    """
    attempt = lab.coordinator.prepare(lab.laboratory(), {"code": lab.sleeping("shrink")})
    attempt.execution_ms = MARGIN + 19_000
    await lab.coordinator.offer(attempt)
    worker = lab.worker()
    await lab.reached(worker, "shrink")
    attempt.execution_ms = 300_000
    assert await lab.coordinator.settled(attempt, RENEWAL_SECONDS) == ("timed_out", "execution", True)
    intents = [(one["sequence"], one["intent"]) for one in lab.coordinator.sent(RENEWALS)]
    assert intents == [(1, "dispatch"), (2, "keep_alive")]
    first, second = lab.coordinator.times(RENEWALS)
    assert second - first >= bound("RENEW_INTERVAL_MS") - 100
    assert lab.coordinator.sent(EXTEND) == []
    await lab.stopped(worker)


@worker_check("worker-lease/stopped-by-a-renewal", cites=["WRK-021", "WRK-027", "WRK-036", "WRK-062"], slow=True)
async def test_stopped_by_a_renewal(lab: WorkerLab) -> None:
    """A requested cancellation, or lost ownership, that a renewal tells of kills user work for good."""
    worker = lab.worker(concurrency=2)
    program = lab.laboratory()
    cancelled = await lab.coordinator.assign(program, {"code": lab.sleeping("cancel")})
    lost = await lab.coordinator.assign(program, {"code": lab.sleeping("lost")})
    pids = [await lab.reached(worker, name) for name in ("cancel", "lost")]
    cancelled.cancelled = True

    async def renewed(command: JsonValue) -> Raw:
        if command["owner"]["attempt_id"] == lost.owner["attempt_id"]:
            return await refusing("ownership_lost")[0](command)
        return await lab.coordinator.ordinary(RENEWALS, command)

    lab.coordinator.script(RENEWALS, *[renewed] * 20)
    for attempt in (cancelled, lost):
        assert await lab.coordinator.settled(attempt, RENEWAL_SECONDS) == ("cancelled", "execution", True)
        assert attempt.settlements[0]["quiescence"] == "confirmed"
    for pid in pids:
        await gone(pid, lab.target.patience.progress)
    lab.coordinator.unscript()
    after = await lab.task("import os\nreturn os.getpid()")
    assert (await lab.coordinator.settled(after))[1] not in pids
    await lab.stopped(worker)


@worker_check("worker-lease/never-permitted", cites=["WRK-015", "WRK-024", "WRK-023"], slow=True)
async def test_never_permitted(lab: WorkerLab) -> None:
    """Permission must come within 30 s of the assignment; until then renewals keep asking, and nothing is run."""
    attempt = await lab.task(f"open({str(lab.mark('ran'))!r}, 'w')")

    async def without(command: JsonValue) -> Raw:
        return reply(attempt.authority(command["sequence"], dispatch=False))

    lab.coordinator.script(RENEWALS, *[without] * 40)
    worker = lab.worker()
    began = time.monotonic()
    seconds = bound("DISPATCH_CONFIRMATION_MS") / 1000
    assert await lab.coordinator.settled(attempt, seconds + 25) == NEVER_RUN
    assert time.monotonic() - began >= seconds - 1
    sent = lab.coordinator.sent(RENEWALS)
    assert {one["intent"] for one in sent[:2]} == {"dispatch"}
    assert [one["sequence"] for one in sent] == list(range(1, len(sent) + 1))
    assert not lab.mark("ran").exists()
    await lab.stopped(worker)


@worker_check(
    "worker-lease/until-the-report-is-resolved", cites=["WRK-028", "WRK-029", "WRK-073", "WRK-074"], slow=True
)
async def test_until_resolved(lab: WorkerLab) -> None:
    """While a report has no receipt the lease is renewed, and the settlement repeated byte by byte.

    Of work that was stopped as of work that ended.
    """
    lab.coordinator.script(SETTLEMENTS, *refusing("unavailable", times=400))
    attempt = await lab.task("return 1")
    stopped = lab.coordinator.prepare(lab.laboratory(), {"code": "return 2"})
    stopped.cancelled = True
    await lab.coordinator.offer(stopped)
    worker = lab.worker(concurrency=2)

    def renewals(one: Any) -> list[JsonValue]:
        return [sent for sent in lab.coordinator.sent(RENEWALS) if sent["owner"] == one.owner]

    await lab.coordinator.until(
        "renewals beside both", lambda: min(len(renewals(attempt)), len(renewals(stopped))) >= 2, RENEWAL_SECONDS
    )
    lab.coordinator.unscript()
    assert await lab.coordinator.settled(attempt) == ("success", 1)
    assert await lab.coordinator.settled(stopped) == NEVER_RUN
    bodies = lab.coordinator.bodies(SETTLEMENTS)
    assert len(bodies) > 5
    assert len(set(bodies)) == 2
    assert renewals(attempt)[1]["intent"] == renewals(stopped)[1]["intent"] == "keep_alive"
    await lab.stopped(worker)
