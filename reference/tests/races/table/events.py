"""Events against deadlines, decisions and each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.worker import Worker
from races.arena import RaceLab, pinned
from races.contest import Contest, Side, race, start
from races.table.ends import begun

HOUR = 3_600_000
EVENTS = "/v1/workflows/events"


async def waiting(lab: RaceLab, timeout_ms: int | None = None) -> tuple[Worker, Activation]:
    """A workflow that waits for the event `go`; its worker and its first activation."""
    worker, first = await begun(lab)
    await first.wait_event("go", timeout_ms=timeout_ms)
    await lab.client.workflow_until(first.workflow_id, "waiting")
    return worker, first


def sender(lab: RaceLab, workflow_id: str, event: Any, key: str = "go") -> Callable[[], Awaitable[Any]]:
    return lambda: lab.client.send_event(workflow_id, key, event)


@race("RACE-12", "RACE-13")
async def event_against_its_deadline(lab: RaceLab) -> Contest:
    """RACE-12, RACE-13, EVT-016: accepted before it is a wake, however late anybody looks; else too late."""
    worker, first = await waiting(lab, timeout_ms=HOUR)
    event = lab.client.event()

    async def judge(sent: Any, _: Any) -> str:
        wake = (await worker.activation()).frozen["wake"]
        await lab.nothing_owed()
        await worker.nothing()
        again = await lab.client.send_event(first.workflow_id, "go", event)
        if sent.code is None:
            assert (wake["kind"], wake["event"]["id"]) == ("event", event["id"])
            assert again.accepted() == sent.value | {"already_accepted": True}
            return "event"
        sent.refused("obsolete_operation")
        again.refused("obsolete_operation")
        assert wake["kind"] == "timeout"
        return "deadline"

    return Contest(
        sides=(
            Side(name="event", act=sender(lab, first.workflow_id, event)),
            Side(name="deadline", act=lambda: lab.advance(HOUR)),
        ),
        row=("clock", lab.scope["namespace"]),
        judge=judge,
    )


@race("RACE-14")
async def blocked_senders_against_the_deadline(lab: RaceLab) -> Contest:
    """RACE-14, EVT-016: one sender has the workflow, one waits for it; for both the time after they got it counts."""
    worker, first = await waiting(lab, timeout_ms=HOUR)
    event = lab.client.event()
    # The first is held with the workflow in hand, and not the clock. The second, at another coordinator, waits for the
    # workflow in the same form, which a delay of nothing makes it take; or it would hold the clock meanwhile.
    await lab.rule(EVENTS, "hold", where="locked", at=0)
    await lab.rule(EVENTS, "delay", where="locked", at=1)
    send = sender(lab, first.workflow_id, event)
    senders = [start(send, 0)]
    await lab.until_held(0)
    senders.append(start(send, 1))
    await lab.until_somebody_waits()

    async def release() -> list[Any]:
        await lab.release()
        return await asyncio.gather(*senders)

    async def judge(_: Any, __: Any) -> str:
        sent = await asyncio.gather(*senders)
        wake = (await worker.activation()).frozen["wake"]
        if {each.code for each in sent} == {None}:
            assert sorted(each.value["already_accepted"] for each in sent) == [False, True]
            assert wake["kind"] == "event"
            return "senders"
        for each in sent:
            each.refused("obsolete_operation")
        assert wake["kind"] == "timeout"
        return "deadline"

    async def deadline() -> None:
        await lab.advance(HOUR)
        await lab.release()

    return Contest(sides=(Side(name="senders", act=release), Side(name="deadline", act=deadline)), judge=judge)


@race("RACE-15")
async def event_against_a_wait_without_patience(lab: RaceLab) -> Contest:
    """RACE-15, DEC-023, TMR-012: accepted before the decision is applied, or in the same millisecond, or too late."""
    worker, first = await begun(lab)
    event = lab.client.event()

    async def judge(sent: Any, _: Any) -> str:
        wake = (await worker.activation()).frozen["wake"]
        await worker.nothing()
        if wake["kind"] == "event":
            assert sent.accepted()["accepted_at"] == wake["accepted_at"]
            return "event"
        assert wake["kind"] == "timeout"
        if sent.code is None:
            assert sent.value["accepted_at"] == wake["deadline"]
        else:
            sent.refused("obsolete_operation")
        return "wait"

    return Contest(
        sides=(
            Side(name="event", act=sender(lab, first.workflow_id, event)),
            Side(name="wait", act=lambda: first.wait_event("go", timeout_ms=0), step="decision.apply"),
        ),
        row=("workflow", first.workflow_id),
        judge=judge,
    )


@race("RACE-16", "RACE-17")
async def event_against_a_timer_with_its_key(lab: RaceLab) -> Contest:
    """RACE-16, RACE-17, TMR-004: the decision is rejected and the receipt stays, or the event is too late."""
    worker, first = await begun(lab)
    event = lab.client.event()

    async def judge(sent: Any, _: Any) -> str:
        again = await lab.client.send_event(first.workflow_id, "nap", event)
        if sent.code is None:
            failed = await lab.client.outcome_until(first.workflow_id, "failed")
            assert failed["error"]["kind"] == "decision_application_failed"
            assert again.accepted() == sent.value | {"already_accepted": True}
            return "event"
        sent.refused("obsolete_operation")
        again.refused("obsolete_operation")
        await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)
        await lab.advance(HOUR)
        assert (await worker.activation()).wake("timer")["key"] == "nap"
        return "timer"

    return Contest(
        sides=(
            Side(name="event", act=sender(lab, first.workflow_id, event, "nap")),
            Side(name="timer", act=lambda: first.wait_timer("nap", HOUR), step="decision.apply"),
        ),
        row=("workflow", first.workflow_id),
        judge=judge,
    )


@race("RACE-18")
async def two_events_for_one_key(lab: RaceLab) -> Contest:
    """RACE-18, EVT-010: one is accepted, the other a conflict, before and after it is consumed."""
    worker, first = await waiting(lab)
    events = [lab.client.event(), lab.client.event()]

    async def judge(*sent: Any) -> str:
        winner = [each.code for each in sent].index(None)
        sent[1 - winner].refused("conflict")
        second = await worker.activation()
        assert second.wake("event")["event"]["id"] == events[winner]["id"]
        (await lab.client.send_event(first.workflow_id, "go", events[1 - winner])).refused("conflict")
        again = await lab.client.send_event(first.workflow_id, "go", events[winner])
        assert again.accepted() == sent[winner].value | {"already_accepted": True}
        await worker.nothing()
        return ("one", "other")[winner]

    return Contest(
        sides=(
            Side(name="one", act=sender(lab, first.workflow_id, events[0])),
            Side(name="other", act=sender(lab, first.workflow_id, events[1])),
        ),
        row=("workflow", first.workflow_id),
        judge=judge,
    )


@race("RACE-19")
async def one_event_sent_twice(lab: RaceLab) -> Contest:
    """RACE-19: accepted once, at one instant."""
    worker, first = await waiting(lab)
    event = lab.client.event()

    async def judge(*sent: Any) -> str:
        receipts = [each.accepted() for each in sent]
        assert sorted(receipt["already_accepted"] for receipt in receipts) == [False, True]
        assert receipts[0]["accepted_at"] == receipts[1]["accepted_at"]
        assert (await worker.activation()).wake("event")["accepted_at"] == receipts[0]["accepted_at"]
        await lab.nothing_owed()
        await worker.nothing()
        return "again" if receipts[0]["already_accepted"] else "one"

    return Contest(
        sides=(
            Side(name="one", act=sender(lab, first.workflow_id, event)),
            Side(name="again", act=sender(lab, first.workflow_id, event)),
        ),
        row=("workflow", first.workflow_id),
        judge=judge,
    )


@race("RACE-33")
async def a_resumption_that_fails_against_a_replay(lab: RaceLab) -> Contest:
    """RACE-33, RCV-008: still waiting, the event still pending; a later try resumes once."""
    worker, first = await waiting(lab)
    event = lab.client.event()
    await lab.rule("wait.fire", "hold", "fail", where="locked")
    with pinned(0):
        sent = (await lab.client.send_event(first.workflow_id, "go", event)).accepted()
    await lab.until_held(0)

    async def judge(_: Any, again: Any) -> str:
        assert again.accepted() == sent | {"already_accepted": True}
        retries = asyncio.create_task(_keep_releasing(lab))  # a try at another coordinator is held and fails as well
        assert (await worker.activation()).wake("event")["key"] == "go"
        await lab.nothing_owed()
        retries.cancel()
        await worker.nothing()
        assert (await lab.client.workflow_status(first.workflow_id)).accepted()["revision"] == 1
        return "resumed once"

    async def replay() -> Any:
        status = (await lab.client.workflow_status(first.workflow_id)).accepted()
        assert status["state"] in ("waiting", "running")
        return await lab.client.send_event(first.workflow_id, "go", event)

    return Contest(
        sides=(Side(name="failure", act=lab.release), Side(name="replay", act=replay)),
        judge=judge,
        outcomes=("resumed once", "resumed once"),
    )


async def _keep_releasing(lab: RaceLab) -> None:
    while True:
        await lab.release()
        await asyncio.sleep(0.01)
