"""The profile `virtual-time`, and the rules of tasks and delivery that it shows to the millisecond's neighbourhood.

The clock of a scope goes on at its ordinary pace, so what is read a moment later lies within a small span.
"""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.controls import HOLD, PASS
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.test_settlement import edited
from protocol3_conformance.scenarios.coordinator.waits import long_before_its_end
from protocol3_conformance.wire.actors import CLOCK

TIME = "core virtual-time"
HOUR, DAY = 3_600_000, 86_400_000
SPAN_MS = 20_000
"""Real time that a few exchanges may take on a slow machine."""
LATEST = bound("MAX_TIMESTAMP_MS") - 2 * DAY
"""The last instant that an advance may reach (TST-017)."""
ONCE, RETRY = {"max_attempts": 1, "retry_delay_ms": 0}, {"max_attempts": 3, "retry_delay_ms": HOUR}


@scenario("virtual-time/reading-and-advance", cites=["TST-028", "TST-030", "TST-010", "TST-011"], profile=TIME)
async def test_reading_and_advance(lab: Lab) -> None:
    """Nothing is due in an untouched scope; an advance moves its clock by so much, and instants show it at once."""
    before = await lab.controls.reading()
    assert (before["next_due"], before["live_attempts"]) == (None, 0)
    moved = await lab.controls.advance(10 * DAY)
    assert (moved["advanced_ms"], moved["next_due"], moved["live_attempts"]) == (10 * DAY, None, 0)
    assert 0 <= moved["now"] - before["now"] - 10 * DAY <= SPAN_MS
    task = await lab.client.task()
    assert 0 <= task["submitted_at"] - moved["now"] <= SPAN_MS
    assert (await lab.controls.move(to="next_due"))["advanced_ms"] == 0


@scenario("virtual-time/invalid-advances", cites=["TST-002", "TST-029", "TST-017", "TXT-040"], profile=TIME)
async def test_invalid_advances(lab: Lab) -> None:
    """What is no advance, or goes beyond the end of time, is refused by the name of its field and moves nothing."""
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "neither": ({}, ""),
        "both": ({"advance_ms": 1, "to": "next_due"}, ""),
        "negative": ({"advance_ms": -1}, "advance_ms"),
        "float": ({"advance_ms": 1.0}, "advance_ms"),
        "boolean": ({"advance_ms": True}, "advance_ms"),
        "beyond all time": ({"advance_ms": bound("MAX_TIMESTAMP_MS") + 1}, "advance_ms"),
        "unknown destination": ({"to": "tomorrow"}, "to"),
        "null destination": ({"to": None}, "to"),
        "unknown leases": ({"advance_ms": 1, "leases": "renew"}, "leases"),
        "unknown member": ({"advance_ms": 1, "more": 1}, ""),
    }
    start = await lab.controls.reading()
    for name, (members, field) in cases.items():
        with lab.case(name):
            answer = await lab.controls.post(CLOCK, **members)
            answer.refused("invalid_input")
            assert field in answer.value["message"], "the message does not name the field"
    (await lab.controls.post(CLOCK, advance_ms=LATEST - start["now"] + 1)).refused("invalid_input")
    now = (await lab.controls.reading())["now"]
    assert now - start["now"] <= SPAN_MS, "a refused advance moved the clock"
    last = await lab.controls.advance(LATEST - now - SPAN_MS)
    task = await lab.client.task()
    assert last["now"] <= task["submitted_at"] <= bound("MAX_TIMESTAMP_MS")
    claim = await (await lab.worker()).running()
    assert (await claim.succeed())["task_state"] == "succeeded"


@scenario("virtual-time/what-is-due-next", cites=["TST-028", "TST-016", "DLV-117"], profile=TIME)
async def test_what_is_due_next(lab: Lab) -> None:
    """The end of a lease, a retry, a timer: the earliest is due next, and time goes exactly so far."""
    await lab.client.task(retry_policy=RETRY)
    worker = await lab.worker()
    claim = await worker.claim()
    reading = await lab.controls.reading()
    assert (reading["next_due"], reading["live_attempts"]) == (claim.assignment["lease"]["expires_at"], 1)
    await claim.break_down("io")
    ended = (await claim.inspect())["finished_at"]
    reading = await lab.controls.reading()
    assert (reading["next_due"], reading["live_attempts"]) == (ended + HOUR, 0)
    await worker.nothing()
    moved = await lab.controls.move(to="next_due")
    assert ended + HOUR <= moved["now"] <= ended + HOUR + SPAN_MS
    assert moved["advanced_ms"] <= HOUR
    again = await worker.claim()
    assert (again.task_id, again.event["ldgattemptno"]) == (claim.task_id, 2)
    held = await lab.controls.move(to="next_due", leases="hold")
    assert (held["advanced_ms"], held["live_attempts"]) == (0, 1), "the end of a live lease counts although it is held"


@scenario("virtual-time/other-scopes", cites=["TST-003"], profile=TIME)
async def test_other_scopes(lab: Lab) -> None:
    """Another scope keeps its clock, its leases and its sessions."""
    await lab.client.task()
    claim = await (await lab.worker()).claim()
    await lab.controls.post(CLOCK, scope=lab.other_scope, advance_ms=10 * DAY)
    reading = await lab.controls.reading()
    assert reading["live_attempts"] == 1
    assert reading["next_due"] == claim.assignment["lease"]["expires_at"]
    assert (await claim.renew()).accepted()["remaining_ms"] > 0
    assert await claim.succeed()


@scenario("virtual-time/held-leases", cites=["TST-015", "DLV-066"], profile=TIME)
async def test_held_leases(lab: Lab) -> None:
    """With `hold` session and live attempt move along by the same amount, and nothing is written into the history."""
    await lab.client.task(attempt_timeout_ms=bound("MIN_ATTEMPT_TIMEOUT_MS"))
    worker = await lab.worker()
    claim = await worker.running()
    before, reasons = await claim.inspect(), await lab.client.reasons(claim.task_id)
    assert (await lab.controls.advance(3 * DAY, leases="hold"))["live_attempts"] == 1
    after = await claim.inspect()
    for name in ("deadline", "authority_deadline"):
        assert after[name] == before[name] + 3 * DAY, f"{name} did not move along"
    assert after["lease"]["expires_at"] == before["lease"]["expires_at"] + 3 * DAY
    authority = (await claim.renew("dispatch")).accepted()
    assert authority["dispatch_allowed"]
    assert 0 < authority["execution_remaining_ms"] <= bound("MIN_ATTEMPT_TIMEOUT_MS")
    assert await lab.client.reasons(claim.task_id) == reasons
    assert (await claim.succeed())["task_state"] == "succeeded"


@scenario("virtual-time/hold-revives-nothing", cites=["TST-014", "TST-015", "DLV-005", "DLV-054"], profile=TIME)
async def test_hold_revives_nothing(lab: Lab) -> None:
    """Leases and sessions run out with `expire`, and `hold` brings back nothing that had run out."""
    await lab.client.task(retry_policy=ONCE)
    worker = await lab.worker()
    claim = await worker.claim()
    await lab.controls.advance(DAY)
    await lab.controls.advance(5, leases="hold")
    (await claim.renew()).refused("session_expired")
    (await worker.acquire(2)).refused("session_expired")
    extension = {"worker_session_id": worker.session["id"]}
    (await lab.client.post("/v1/worker-sessions/extend", extension)).refused("session_expired")
    (await claim.settle(claim.success())).refused("ownership_lost")
    await lab.client.task_until(claim.task_id, "failed")


@scenario("virtual-time/hold-leaves-what-ran-out", cites=["TST-015"], profile=f"{TIME} faults")
async def test_hold_leaves_what_ran_out(lab: Lab) -> None:
    """With `hold` an attempt whose lease has run out, and which nobody has recovered yet, stays as it is."""
    await lab.client.task(retry_policy=ONCE)
    claim = await (await lab.worker()).claim()
    rule = await lab.controls.rule("attempt.expire", HOLD)
    await lab.controls.advance(bound("LEASE_MS"))
    await lab.controls.until_held(rule)
    before = await claim.inspect()
    assert (await lab.controls.advance(HOUR, leases="hold"))["live_attempts"] == 0
    assert await claim.inspect() == before
    (await claim.renew()).refused("ownership_lost")
    await lab.controls.clear(rule)
    await lab.client.task_until(claim.task_id, "failed")


@scenario("virtual-time/cancel-late-in-the-lease", cites=["DLV-065", "TASK-202", "TASK-203"], profile=TIME)
async def test_cancel_late_in_the_lease(lab: Lab) -> None:
    """A cancel never lengthens a lease that ends before the grace does; a renewal then moves it up to the cap."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    end = (await claim.inspect())["lease"]["expires_at"]
    await lab.controls.advance(bound("LEASE_MS") - bound("CLEANUP_GRACE_MS") // 2)
    assert (await lab.client.cancel_task(claim.task_id)).accepted() == "active"
    requested = (await lab.client.status(claim.task_id)).accepted()["cancel_requested_at"]
    attempt = await claim.inspect()
    assert attempt["lease"]["expires_at"] == end, "the cancel moved the end of the lease"
    assert attempt["authority_deadline"] == requested + bound("CLEANUP_GRACE_MS")
    renewed = (await claim.renew("keep_alive")).accepted()
    assert (renewed["expires_at"], renewed["cancel_requested"]) == (attempt["authority_deadline"], True)


@scenario("virtual-time/after-the-session", cites=["DLV-074", "DLV-075", "DLV-080", "DLV-101"], profile=TIME)
async def test_after_the_session(lab: Lab) -> None:
    """What was settled and confirmed is answered again when lease and session are long over."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    command = claim.success("done", quiescence="unconfirmed")
    first = (await claim.settle(command)).accepted()
    assert (await claim.confirm()).accepted() == "succeeded"
    await lab.controls.advance(2 * DAY)
    again = (await claim.settle(command)).accepted()
    assert (again["receipt"], again["already_accepted"], again["task_state"]) == (first["receipt"], True, "succeeded")
    assert (await claim.confirm()).accepted() == "succeeded"


@scenario("virtual-time/lease-end", cites=["TASK-235", "DLV-341", "DLV-324", "DLV-110", "TASK-221"], profile=TIME)
async def test_lease_end(lab: Lab) -> None:
    """A lease that is let run out is recovered: lost, retried while attempts remain, then `attempt_lost`."""
    await lab.client.task(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
    worker = await lab.worker()
    for number in (1, 2):
        claim = await worker.claim()
        assert claim.event["ldgattemptno"] == number
        await lab.controls.advance(bound("LEASE_MS"))
        (await claim.renew()).refused("ownership_lost")
        await lab.until(
            "the attempt is recovered", claim.inspect, lambda seen: seen["state"] == "lost", show=lambda seen: seen
        )
    status = (await lab.client.status(claim.task_id)).accepted()
    assert (status["state"], status["attempt_count"]) == ("failed", 2)
    outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
    assert outcome["failure"] == {"kind": "attempt_lost"}
    reasons = await lab.client.reasons(claim.task_id)
    assert reasons == [
        "submitted", "claimed", "lease_expired", "retry_scheduled", "claimed", "lease_expired", "failed",
    ]  # fmt: skip


@scenario(
    "virtual-time/cancel-before-recovery",
    cites=["TASK-210", "DLV-343", "TASK-207", "TASK-232", "TASK-239"],
    profile=f"{TIME} faults",
)
async def test_cancel_before_recovery(lab: Lab) -> None:
    """A cancel after the end of a lease, before its recovery, ends attempt and task, an accepted success included."""
    for settled in (False, True):
        with lab.case("unconfirmed success" if settled else "no report"):
            await lab.client.task()
            worker = await lab.worker()
            claim = await worker.claim()
            if settled:
                await claim.succeed("kept aside", quiescence="unconfirmed")
            rule = await lab.controls.rule("attempt.expire", {"kind": "hold"})
            await lab.controls.advance(bound("LEASE_MS"))
            await lab.controls.until_held(rule)
            assert (await lab.client.status(claim.task_id)).accepted()["state"] == "active"
            assert (await lab.client.cancel_task(claim.task_id)).accepted() == "cancelled"
            history = (await lab.client.history(claim.task_id)).accepted()[-3:]
            wanted = ["cancel_requested", "lease_expired", "cancelled"]
            assert [entry["event"]["reason"] for entry in history] == wanted
            assert {entry["event"]["attempt_id"] for entry in history} == {claim.attempt_id}
            await lab.controls.clear(rule)
            attempt = await claim.inspect()
            assert (attempt["state"], attempt["quiescence"]) == ("lost", "unconfirmed")
            assert (await lab.client.reasons(claim.task_id))[-3:] == wanted
            assert (await lab.client.result(claim.task_id)).accepted()["outcome"] == {"kind": "cancelled"}


@scenario(
    "virtual-time/authority-of-now",
    cites=["DLV-013", "DLV-050", "DLV-056", "DLV-057", "DLV-323", "DLV-324", "DLV-325", "DLV-332"],
    profile=TIME,
)
async def test_authority_of_now(lab: Lab) -> None:
    """Each answer counts what remains from its own instant: of an assignment, of a renewal, of their repetitions."""
    lease, timeout, pause = bound("LEASE_MS"), 3 * bound("MIN_ATTEMPT_TIMEOUT_MS"), 25_000

    def remain(authority: Any, of_lease: int, of_execution: int) -> None:
        for name, most in (("remaining_ms", of_lease), ("execution_remaining_ms", of_execution)):
            assert 0 <= most - authority[name] <= SPAN_MS, f"{name} is {authority[name]}, at most {most} are left"

    await lab.client.task(attempt_timeout_ms=timeout)
    worker = await lab.worker()
    claim = await worker.claim(0)
    await lab.controls.advance(pause)
    again = (await worker.acquire(worker.sequences[0])).accepted()["assignment"]
    assert again["authority"]["expires_at"] == again["lease"]["expires_at"] == claim.assignment["lease"]["expires_at"]
    remain(again["authority"], lease - pause, timeout - pause)
    renewed = (await claim.renew("keep_alive", sequence=1)).accepted()
    remain(renewed, lease, timeout - pause)
    await lab.controls.advance(pause)
    repeated = (await claim.renew("keep_alive", sequence=1)).accepted()
    assert repeated["expires_at"] == renewed["expires_at"]
    remain(repeated, lease - pause, timeout - 2 * pause)
    again = (await worker.acquire(worker.sequences[0])).accepted()["assignment"]
    assert again["authority"]["expires_at"] == again["lease"]["expires_at"] == renewed["expires_at"]
    remain(again["authority"], lease - pause, timeout - 2 * pause)
    assert (await lab.client.reasons(claim.task_id)) == ["submitted", "claimed"]


@scenario(
    "virtual-time/before-recovery",
    cites=[
        "DLV-014",
        "DLV-017",
        "DLV-054",
        "DLV-077",
        "DLV-078",
        "DLV-103",
        "DLV-111",
        "DLV-112",
        "DLV-113",
        "DLV-336",
        "DLV-342",
    ],
    profile=f"{TIME} faults",
)
async def test_before_recovery(lab: Lab) -> None:
    """Between the end of a lease and its recovery the task is active and nobody's, and its consumer goes on."""
    for settled in (False, True):
        with lab.case("unconfirmed success" if settled else "no report"):
            await lab.client.task(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
            worker, other = await lab.worker(), await lab.worker()
            claim = await worker.running(0)
            if settled:
                await claim.succeed("kept aside", quiescence="unconfirmed")
            rule = await lab.controls.rule("attempt.expire", HOLD)
            await lab.controls.advance(bound("LEASE_MS"))
            await lab.controls.until_held(rule)
            assert (await lab.client.status(claim.task_id)).accepted()["state"] == "active"
            for intent in ("keep_alive", "dispatch"):
                (await claim.renew(intent)).refused("ownership_lost")
            if not settled:
                (await claim.settle(claim.success("too late"))).refused("ownership_lost")
                foreign = edited(claim.success("too late"), event_id=lab.unique("evt"))
                (await claim.settle(foreign)).refused("conflict")
            (await claim.confirm()).refused("ownership_lost")
            await other.nothing()
            lost = (await worker.acquire(worker.sequences[0])).accepted()
            assert lost["disposition"] == "ownership_lost"
            assert (await worker.poll(0))["disposition"] == "empty", "a consumer is free once its lease has run out"
            assert (await claim.inspect())["state"] == "active"
            assert (await lab.client.reasons(claim.task_id)).count("lease_expired") == 0
            await lab.controls.clear(rule)
            if settled:
                await lab.client.task_until(claim.task_id, "succeeded")
            else:
                await (await other.claim()).succeed("done")
            assert (await claim.inspect())["quiescence"] == "unconfirmed"
            assert (await lab.client.reasons(claim.task_id)).count("lease_expired") == 1


@scenario(
    "virtual-time/waiting-poll", cites=["TST-012", "TST-013", "DLV-032", "DLV-033", "DLV-037"], profile=f"{TIME} faults"
)
async def test_waiting_poll(lab: Lab) -> None:
    """A poll that waits in real time gets the retry that became due, and hears at once that its session expired."""
    await lab.client.task(retry_policy=RETRY)
    worker = await lab.worker()
    await (await worker.claim(0)).break_down("io")
    bystander = await lab.worker()
    for consumer, advance in ((0, HOUR), (1, DAY)):
        came = await lab.controls.rule("/v1/acquisitions", PASS)
        sequence = worker.sequences.get(consumer, 0) + 1
        polling = asyncio.ensure_future(worker.acquire(sequence, consumer, wait_ms=bound("MAX_WAIT_MS")))
        await lab.controls.until_hit(came)
        assert (await bystander.acquire(consumer + 1)).accepted()["disposition"] == "empty"  # judged after it
        assert not polling.done()
        with long_before_its_end():
            await lab.controls.advance(advance)
            answer = await polling
        if consumer == 0:
            assert answer.accepted()["disposition"] == "assigned"
        else:
            answer.refused("session_expired")


@scenario("virtual-time/lease-cut-by-session", cites=["DLV-067", "DLV-006", "DLV-324"], profile=TIME)
async def test_lease_cut_by_session(lab: Lab) -> None:
    """No lease outlives its session, and extending the session lengthens no lease."""
    worker = await lab.worker()
    end = worker.session["expires_at"]
    await lab.controls.advance(end - (await lab.controls.reading())["now"] - bound("LEASE_MS") // 2)
    await lab.client.task()
    claim = await worker.claim()
    assert claim.assignment["lease"]["expires_at"] == end
    renewed = (await claim.renew()).accepted()
    assert renewed["expires_at"] == end
    extension = {"worker_session_id": worker.session["id"]}
    extended = (await lab.client.post("/v1/worker-sessions/extend", extension)).accepted()
    assert extended["expires_at"] > end
    assert (await claim.inspect())["lease"]["expires_at"] == end
    assert (await claim.renew()).accepted()["expires_at"] > end
