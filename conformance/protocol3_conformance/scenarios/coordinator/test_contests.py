"""The table of races: children, decisions, cancels and events against each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.roles.contest import Contest, Side
from protocol3_conformance.scenarios.coordinator.contests import (
    APPLY,
    END,
    EVENT,
    ONCE,
    RETRIED,
    SETTLE,
    begun,
    cancelling,
    races_of,
    sending,
    waiting,
    with_child,
)

race = races_of(globals())


@race("child-and-suspend", cites=["RACE-01", "CHD-033", "CHD-051"])
async def child_and_suspend(lab: Lab) -> Contest:
    """A child ends while the `suspend` that names it is applied: one resumption, with its result."""
    worker, second, child = await with_child(lab)

    async def judge(*_: Any) -> str:
        third = await worker.activation()
        assert (third.output_of("c"), third.frozen["revision"]) == ("found", 2)
        await worker.nothing()
        await third.complete()
        await lab.client.workflow_until(second.workflow_id, "succeeded", revision=3)
        return "resumed"

    return Contest(
        sides=(
            Side(name="child", act=lambda: child.succeed("found"), path=SETTLE, step=END),
            Side(name="suspend", act=lambda: second.suspend("c"), path=SETTLE, step=APPLY),
        ),
        judge=judge,
    )


@race("last-two-children", cites=["RACE-02", "CHD-057", "RCV-004"])
async def last_two_children(lab: Lab) -> Contest:
    """The two last members of a wait end at once: one activation, with both results."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    await first.suspend("a", "b", commands=[first.command(key, data=key) for key in "ab"])
    claims = {claim.event["data"]: claim for claim in [await children.running() for _ in "ab"]}
    await lab.client.workflow_until(first.workflow_id, "waiting")

    async def judge(*_: Any) -> str:
        resumed = await worker.activation()
        assert (resumed.output_of("a"), resumed.output_of("b")) == (1, 2)
        await worker.nothing()
        await resumed.complete()
        await lab.client.workflow_until(first.workflow_id, "succeeded", revision=2)
        return "resumed"

    return Contest(
        sides=(
            Side(name="a", act=lambda: claims["a"].succeed(1), path=SETTLE, step=END),
            Side(name="b", act=lambda: claims["b"].succeed(2), path=SETTLE, step=END),
        ),
        judge=judge,
    )


@race("child-and-reading", cites=["RACE-03", "CHD-034"])
async def child_and_reading(lab: Lab) -> Contest:
    """A child ends while its parent's activation reads its inputs: they stay as they were."""
    worker, second, child = await with_child(lab)

    async def judge(_: Any, read: Any) -> str:
        assert read.accepted() == second.frozen == (await second.context()).accepted()
        assert (second.frozen["inputs"], second.frozen["revision"]) == ({}, 1)
        await second.suspend("c")
        third = await worker.activation()
        assert third.output_of("c") == "done"
        await third.complete()
        return "unchanged"

    context = "/v1/workflows/activations/context"
    return Contest(
        sides=(
            Side(name="child", act=lambda: child.succeed("done"), path=SETTLE, step=END),
            Side(name="read", act=second.context, path=context, locks=False),
        ),
        judge=judge,
    )


@race("child-and-retry", cites=["RACE-04", "CHD-058", "ACT-020"])
async def child_and_retry(lab: Lab) -> Contest:
    """A child ends while its parent's activation is tried again: the retry sees what the first attempt saw."""
    worker, first = await begun(lab, retry_policy=RETRIED)
    children = await lab.worker(queue=lab.child_queue)
    await first.suspend("a", commands=[first.command(key, data=key) for key in "ab"])
    claims = {claim.event["data"]: claim for claim in [await children.running() for _ in "ab"]}
    await claims["a"].succeed(1)
    second = await worker.activation()

    async def judge(*_: Any) -> str:
        again = await worker.activation()
        assert (again.task_id, again.attempt_id != second.attempt_id) == (second.task_id, True)
        assert again.frozen["inputs"] == second.frozen["inputs"]
        assert set(again.frozen["inputs"]) == {"a"}
        await again.suspend("b")
        third = await worker.activation()
        assert third.output_of("b") == 2
        await third.complete()
        return "unchanged"

    return Contest(
        sides=(
            Side(name="child", act=lambda: claims["b"].succeed(2), path=SETTLE, step=END),
            Side(name="retry", act=second.break_down, path=SETTLE),
        ),
        judge=judge,
    )


@race("cancel-and-suspend", cites=["RACE-06", "RACE-08", "WF-050", "DRN-002"], orders=("cancel", "suspend"))
async def cancel_and_suspend(lab: Lab) -> Contest:
    """Cancel and a decision: nothing of the decision exists, or its child does and is drained."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)

    async def judge(cancelled: Any, _: Any) -> str:
        revision = cancelled.accepted()["revision"]
        assert cancelled.value["state"] == "cancelling"
        ended = await lab.client.workflow_until(first.workflow_id, "cancelled")
        assert ended["revision"] == revision
        await children.nothing()
        await worker.nothing()
        return "suspend" if revision else "cancel"

    suspend = Side(
        name="suspend", act=lambda: first.suspend("c", commands=[first.command("c")]), path=SETTLE, step=APPLY
    )
    return Contest(sides=(cancelling(lab, first.workflow_id), suspend), judge=judge)


@race("cancel-and-confirmation", cites=["RACE-07", "DRN-009", "ACT-040"], orders=("cancel", "confirm"))
async def cancel_and_confirmation(lab: Lab) -> Contest:
    """Cancel and the confirmation of an accepted success: its decision counts only if it was applied before."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    decision = first.checkpoint("suspend", {"commands": [first.command("c")]}, until=["c"])
    await first.succeed(decision, quiescence="unconfirmed")

    async def judge(cancelled: Any, confirmed: Any) -> str:
        cancelled.accepted()
        state = confirmed.accepted()
        ended = await lab.client.workflow_until(first.workflow_id, "cancelled")
        assert state in ("cancelled", "succeeded")
        assert ended["revision"] <= (state == "succeeded")
        assert (await lab.client.status(first.task_id)).accepted()["state"] == state
        await children.nothing()
        await worker.nothing()
        return "confirm" if state == "succeeded" else "cancel"

    return Contest(
        sides=(
            cancelling(lab, first.workflow_id, "drain.pass"),
            Side(name="confirm", act=first.confirm, path="/v1/quiescence-confirmations"),
        ),
        judge=judge,
    )


@race("cancel-and-complete", cites=["RACE-09", "WF-062", "WF-050"], orders=("cancel", "complete"))
async def cancel_and_complete(lab: Lab) -> Contest:
    """Cancel and `complete`: one end, and the reply to the cancel fits it."""
    worker, first = await begun(lab)

    async def judge(cancelled: Any, _: Any) -> str:
        snapshot = cancelled.accepted()
        ended = await lab.client.workflow_until(first.workflow_id, "succeeded", "cancelled")
        outcome = (await lab.client.workflow_result(first.workflow_id)).accepted()["outcome"]
        await worker.nothing()
        assert (await lab.client.cancel_workflow(first.workflow_id)).accepted() == ended
        if ended["state"] == "succeeded":
            assert snapshot == ended
            assert outcome == {"kind": "succeeded", "output": "done"}
            return "complete"
        assert (snapshot["state"], ended["revision"], outcome) == ("cancelling", 0, {"kind": "cancelled"})
        return "cancel"

    complete = Side(name="complete", act=lambda: first.complete("done"), path=SETTLE, step=APPLY)
    return Contest(sides=(cancelling(lab, first.workflow_id), complete), judge=judge)


async def cancel_and_failure(lab: Lab, second: Activation, child: Claim, act: Callable[[], Awaitable[Any]]) -> Contest:
    async def judge(cancelled: Any, _: Any) -> str:
        assert cancelled.accepted()["state"] == "cancelling"
        await child.succeed()
        assert await lab.client.outcome_until(second.workflow_id, "cancelled") == {"kind": "cancelled"}
        return "cancelled"

    failure = Side(name="failure", act=act, path=SETTLE, step=APPLY)
    return Contest(sides=(cancelling(lab, second.workflow_id), failure), judge=judge)


@race("cancel-and-fail", cites=["RACE-10", "RACE-11", "WF-061"])
async def cancel_and_fail(lab: Lab) -> Contest:
    """Cancel and `fail`: one that comes second is ignored, one that came first is overtaken."""
    _, second, child = await with_child(lab)
    return await cancel_and_failure(lab, second, child, second.fail)


@race("cancel-and-rejection", cites=["RACE-11", "WF-061", "DEC-040"])
async def cancel_and_rejection(lab: Lab) -> Contest:
    """Cancel and a decision that would be rejected: cancelled in any order."""
    _, second, child = await with_child(lab)
    return await cancel_and_failure(lab, second, child, lambda: second.decide(second.decision("complete", revision=9)))


@race("cancel-and-exhaustion", cites=["RACE-11", "WF-061"])
async def cancel_and_exhaustion(lab: Lab) -> Contest:
    """Cancel and the last failed attempt of the activation: cancelled in any order."""
    _, second, child = await with_child(lab, retry_policy=ONCE)
    return await cancel_and_failure(lab, second, child, second.break_down)


@race("event-and-timer", cites=["RACE-16", "RACE-17", "TMR-004"], orders=("event", "timer"))
async def event_and_timer(lab: Lab) -> Contest:
    """An event and a timer with its key: the decision is rejected and the receipt stays, or the event is too late."""
    _, first = await begun(lab)
    event = lab.client.event()

    async def judge(sent: Any, _: Any) -> str:
        again = await lab.client.send_event(first.workflow_id, "nap", event)
        if sent.code is None:
            failed = await lab.client.outcome_until(first.workflow_id, "failed")
            assert failed["error"]["kind"] == "decision_application_failed"
            assert again.accepted() == {**sent.value, "already_accepted": True}
            return "event"
        sent.refused("obsolete_operation")
        again.refused("obsolete_operation")
        await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)
        return "timer"

    timer = Side(name="timer", act=lambda: first.wait_timer("nap", 3_600_000), path=SETTLE, step=APPLY)
    return Contest(sides=(sending(lab, first.workflow_id, event, "nap"), timer), judge=judge)


@race("event-and-no-patience", cites=["RACE-15", "TMR-012", "DEC-023"])
async def event_and_no_patience(lab: Lab) -> Contest:
    """An event and a wait for it with `timeout_ms` 0: before its acceptance it wakes, else it is too late or equal."""
    worker, first = await begun(lab)
    event = lab.client.event()

    async def judge(sent: Any, _: Any) -> str:
        woken = await worker.activation()
        wake = woken.frozen["wake"]
        await worker.nothing()
        await woken.complete()
        if wake["kind"] == "event":
            assert sent.accepted()["accepted_at"] == wake["accepted_at"]
            return "event"
        assert wake["kind"] == "timeout"
        if sent.code is None:
            assert sent.value["accepted_at"] == wake["deadline"]
        else:
            sent.refused("obsolete_operation")
        return "wait"

    wait = Side(name="wait", act=lambda: first.wait_event("go", 0), path=SETTLE, step=APPLY)
    return Contest(sides=(sending(lab, first.workflow_id, event), wait), judge=judge)


@race("two-events", cites=["RACE-18", "EVT-010"], orders=("one", "other"))
async def two_events(lab: Lab) -> Contest:
    """Two events for one key: one is accepted, the other a conflict, before it is consumed and after."""
    worker, first = await waiting(lab)
    events = [lab.client.event(), lab.client.event()]

    async def judge(*sent: Any) -> str:
        codes = [each.code for each in sent]
        assert codes.count(None) == 1, f"of two events {codes.count(None)} were accepted"
        winner = codes.index(None)
        sent[1 - winner].refused("conflict")
        second = await worker.activation()
        assert second.wake("event")["event"]["id"] == events[winner]["id"]
        (await lab.client.send_event(first.workflow_id, "go", events[1 - winner])).refused("conflict")
        again = await lab.client.send_event(first.workflow_id, "go", events[winner])
        assert again.accepted() == {**sent[winner].value, "already_accepted": True}
        await worker.nothing()
        return ("one", "other")[winner]

    one, other = (sending(lab, first.workflow_id, event, name=name) for event, name in zip(events, "ab", strict=True))
    return Contest(sides=(one, other), judge=judge)


@race("one-event-twice", cites=["RACE-19", "EVT-020"], orders=("one", "again"))
async def one_event_twice(lab: Lab) -> Contest:
    """The same event sent twice: accepted once, at one instant, and it wakes once."""
    worker, first = await waiting(lab)
    event = lab.client.event()

    async def judge(*sent: Any) -> str:
        receipts = [each.accepted() for each in sent]
        assert sorted(receipt["already_accepted"] for receipt in receipts) == [False, True]
        assert receipts[0]["accepted_at"] == receipts[1]["accepted_at"]
        assert (await worker.activation()).wake("event")["accepted_at"] == receipts[0]["accepted_at"]
        await worker.nothing()
        return "again" if receipts[0]["already_accepted"] else "one"

    sides = (sending(lab, first.workflow_id, event, name="one"), sending(lab, first.workflow_id, event, name="again"))
    return Contest(sides=sides, judge=judge)


@race("cancel-and-wake", cites=["RACE-20", "DRN-002", "EVT-012"])
async def cancel_and_wake(lab: Lab) -> Contest:
    """Cancel and the wake by an event: finally cancelled; the receipt replays, new events are too late."""
    worker, first = await waiting(lab)
    event = lab.client.event()

    async def judge(cancelled: Any, sent: Any) -> str:
        assert cancelled.accepted()["state"] == "cancelling"
        await lab.client.workflow_until(first.workflow_id, "cancelled")
        again = await lab.client.send_event(first.workflow_id, "go", event)
        if sent.code is None:
            assert again.accepted() == {**sent.value, "already_accepted": True}
        else:
            sent.refused("obsolete_operation")
            again.refused("obsolete_operation")
        (await lab.client.send_event(first.workflow_id, "new", lab.client.event())).refused("obsolete_operation")
        await worker.nothing()
        return "cancelled"

    sent = lambda: lab.client.send_event(first.workflow_id, "go", event)  # noqa: E731 - an act of a side
    wake = Side(name="wake", act=sent, path=EVENT, step="wait.fire")
    return Contest(sides=(cancelling(lab, first.workflow_id), wake), judge=judge)


@race("child-and-event", cites=["RACE-21", "CHD-055"])
async def child_and_event(lab: Lab) -> Contest:
    """The end of a child and an event that is waited for: only the event wakes, the next `continue` has the result."""
    worker, first = await begun(lab)
    await first.wait_event("go", commands=[first.command("c")])
    child = await (await lab.worker(queue=lab.child_queue)).running()
    await lab.client.workflow_until(first.workflow_id, "waiting")
    event = lab.client.event()

    async def judge(_: Any, sent: Any) -> str:
        assert sent.accepted()["already_accepted"] is False
        second = await worker.activation()
        assert second.wake("event")["key"] == "go"
        assert second.frozen["inputs"] == {}
        await worker.nothing()
        await second.suspend("c")
        third = await worker.activation()
        assert third.output_of("c") == 7
        await third.complete()
        return "woken by the event"

    sent = lambda: lab.client.send_event(first.workflow_id, "go", event)  # noqa: E731 - an act of a side
    return Contest(
        sides=(
            Side(name="child", act=lambda: child.succeed(7), path=SETTLE, step=END),
            Side(name="event", act=sent, path=EVENT, step="wait.fire"),
        ),
        judge=judge,
    )
