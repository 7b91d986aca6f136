"""Ends that meet something else: a cancel and a timer, a cancelled child and its result, an event and a completion."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.contest import Contest, Side
from protocol3_conformance.scenarios.coordinator.contests import (
    APPLY,
    EVENT,
    SETTLE,
    begun,
    cancelling,
    races_of,
    sending,
    with_child,
)

race = races_of(globals())


def nap_of(lab: Lab) -> int:
    """How long a wait takes. Where the clock is moved, an hour: a scope's time goes on by itself too, and must not end
    the wait before the sides meet, however slow the machine. Elsewhere that time really passes.
    """
    return 3_600_000 if lab.target.moves_time else 1000


@race("cancel-and-timer", cites=["WF-060", "DRN-002", "TMR-015"], orders=("cancel", "timer"))
async def cancel_and_timer(lab: Lab) -> Contest:
    """Cancel and a timer that falls due: finally cancelled, and nobody is woken."""
    worker, first = await begun(lab)
    nap_ms = nap_of(lab)
    await first.wait_timer("nap", nap_ms)
    await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)

    async def judge(cancelled: Any, _: Any) -> str:
        told = cancelled.accepted()
        assert (told["state"], told["revision"]) == ("cancelling", 1)
        ended = await lab.client.workflow_until(first.workflow_id, "cancelled", revision=1)
        await worker.nothing()
        assert (await lab.client.cancel_workflow(first.workflow_id)).accepted() == ended
        return "cancel" if told["activation_id"] is None else "timer"

    due = Side(name="timer", act=lambda: lab.pass_time(nap_ms), path="wait.fire", step="wait.fire", moves_time=True)
    return Contest(sides=(cancelling(lab, first.workflow_id), due), judge=judge)


@race("cancel-and-child", cites=["TASK-209", "CHD-040", "CHD-057"], orders=("cancel", "report"))
async def cancel_and_child(lab: Lab) -> Contest:
    """A child is cancelled while it reports: its parent resumes once, with the one outcome that the child has."""
    worker, second, child = await with_child(lab)
    await second.suspend("c")
    await lab.client.workflow_until(second.workflow_id, "waiting", revision=2)

    async def judge(cancelled: Any, settled: Any) -> str:
        state = (await lab.client.status(child.task_id)).accepted()["state"]
        assert cancelled.accepted() in ("active", state)
        third = await worker.activation()
        outcome = third.child("c")["outcome"]
        assert outcome["kind"] == state
        await worker.nothing()
        await third.complete()
        await lab.client.workflow_until(second.workflow_id, "succeeded", revision=3)
        if state == "cancelled":
            return "cancel"
        assert (outcome["output"], settled["task_state"]) == ("done", "succeeded")
        return "report"

    cancel = Side(name="cancel", act=lambda: lab.client.cancel_task(child.task_id), path="/v1/tasks/cancel")
    report = Side(name="report", act=lambda: child.succeed("done"), path=SETTLE)
    return Contest(sides=(cancel, report), judge=judge)


@race("event-and-complete", cites=["EVT-012", "DEC-050", "EVT-021", "DRN-014"], orders=("event", "complete"))
async def event_and_complete(lab: Lab) -> Contest:
    """An event and `complete`: the end stands; the event was accepted and reconciles for ever, or is too late."""
    worker, first = await begun(lab)
    event = lab.client.event()

    async def judge(sent: Any, _: Any) -> str:
        ended = await lab.client.workflow_until(first.workflow_id, "succeeded", revision=1)
        again = await lab.client.send_event(first.workflow_id, "go", event)
        assert (await lab.client.workflow_status(first.workflow_id)).accepted() == ended
        await worker.nothing()
        if sent.code is None:
            assert again.accepted() == {**sent.value, "already_accepted": True}
            return "event"
        sent.refused("obsolete_operation")
        again.refused("obsolete_operation")
        return "complete"

    complete = Side(name="complete", act=lambda: first.complete("done"), path=SETTLE, step=APPLY)
    return Contest(sides=(sending(lab, first.workflow_id, event), complete), judge=judge)


@race("event-and-timeout", cites=["RACE-12", "RACE-13", "RACE-14", "TMR-010"], orders=(None, "timeout"))
async def event_and_timeout(lab: Lab) -> Contest:
    """An event and the deadline of its wait: accepted before it wakes, else it is obsolete and the timeout wakes."""
    worker, first = await begun(lab)
    event, nap_ms = lab.client.event(), nap_of(lab)
    await first.wait_event("go", nap_ms)
    await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)

    async def judge(sent: Any, _: Any) -> str:
        woken = await worker.activation()
        wake = woken.frozen["wake"]
        await worker.nothing()
        await woken.complete()
        if sent.code is None:
            assert (wake["kind"], wake["accepted_at"]) == ("event", sent.value["accepted_at"])
            return "event"
        sent.refused("obsolete_operation")
        assert wake["kind"] == "timeout"
        return "timeout"

    due = Side(name="timeout", act=lambda: lab.pass_time(nap_ms), path="wait.fire", step="wait.fire", moves_time=True)
    event_side = Side(name="event", act=lambda: lab.client.send_event(first.workflow_id, "go", event), path=EVENT)
    return Contest(sides=(event_side, due), judge=judge)
