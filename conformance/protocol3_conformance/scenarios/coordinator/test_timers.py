"""Timers, timeouts and wait keys (chapter 16)."""

from __future__ import annotations

import asyncio

from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.faults import NotDetermined
from protocol3_conformance.wire.strict_json import same

FAILED = "decision_application_failed"


@scenario(
    "timers/fires-once-after-its-deadline",
    cites=["TMR-002", "TMR-006", "TMR-013", "TMR-014", "TMR-015", "TMR-020", "WF-051"],
    slow=True,
)
async def test_fires_once_after_its_deadline(lab: Lab) -> None:
    """A timer wakes its workflow once, not before the stored deadline, which is acceptance plus delay."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    activation = await worker.activation()
    settled = await activation.wait_timer("nap", 1200, state="asleep")
    # On a slow target the timer may have fired before anybody looked.
    applied = await lab.client.workflow_until(workflow_id, "waiting", "running", revision=1)
    assert applied["state"] == "running" or applied["activation_id"] is None
    woken = await worker.activation()
    wake = woken.wake("timer")
    assert wake["key"] == "nap"
    assert wake["deadline"] >= settled["receipt"]["accepted_at"] + 1200
    submitted = (await lab.client.status(woken.task_id)).accepted()["submitted_at"]
    assert submitted >= wake["deadline"], "the timer fired before its deadline"
    assert (woken.frozen["state"], woken.frozen["revision"], woken.frozen["inputs"]) == ("asleep", 1, {})
    await woken.complete()
    await lab.client.workflow_until(workflow_id, "succeeded", revision=2)
    await worker.nothing()


@scenario("timers/zero", cites=["TMR-012", "TMR-011", "WF-053", "TMR-002", "LIM-020"])
async def test_zero(lab: Lab) -> None:
    """With no time to wait a timer and a timeout are due at installation, in the same step."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    await (await worker.activation()).wait_timer("now", 0)
    second = await worker.activation()
    second.wake("timer")
    await second.wait_event("nobody", 0)
    third = await worker.activation()
    assert third.wake("timeout")["key"] == "nobody"
    snapshot = (await lab.client.workflow_status(workflow_id)).accepted()
    assert (snapshot["state"], snapshot["revision"]) == ("running", 2)


@scenario("timers/retried-activation", cites=["TMR-002", "TMR-021", "TMR-020"])
async def test_retried_activation(lab: Lab) -> None:
    """A retry of the activation that a timer or a timeout woke is told the deadline that was stored."""
    await lab.client.workflow(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
    worker = await lab.worker()
    await (await worker.activation()).wait_timer("nap", 0)
    woken = await worker.activation()
    wake = woken.wake("timer")
    await woken.break_down("io")
    again = await worker.activation()
    assert same(again.wake("timer"), wake)
    await again.wait_event("nobody", 0)
    late = await worker.activation()
    wake = late.wake("timeout")
    await late.break_down("io")
    assert same((await worker.activation()).wake("timeout"), wake)


@scenario(
    "timers/timeout-of-an-event-wait",
    cites=["TMR-002", "TMR-010", "TMR-013", "TMR-016", "TMR-020", "RACE-13"],
    slow=True,
)
async def test_timeout_of_an_event_wait(lab: Lab) -> None:
    """An event wait that runs out wakes with a timeout at its deadline; a later event is obsolete."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    settled = await (await worker.activation()).wait_event("reply", 1000)
    woken = await worker.activation()
    wake = woken.wake("timeout")
    assert wake["key"] == "reply"
    assert wake["deadline"] >= settled["receipt"]["accepted_at"] + 1000
    assert (await lab.client.status(woken.task_id)).accepted()["submitted_at"] >= wake["deadline"]
    (await lab.client.send_event(workflow_id, "reply", lab.client.event())).refused("obsolete_operation")
    await worker.nothing()


@scenario("timers/event-before-timeout", cites=["TMR-010", "RACE-12", "TMR-022", "EVT-021"], slow=True)
async def test_event_before_timeout(lab: Lab) -> None:
    """An event that comes in time wins, and the deadline that passes later wakes nobody."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    timeout_ms = 3000
    await (await worker.activation()).wait_event("reply", timeout_ms)
    sent = await lab.client.send_event(workflow_id, "reply", lab.client.event())
    if sent.code == "obsolete_operation":
        raise NotDetermined(f"the event could not be sent within the wait of {timeout_ms} ms")
    receipt = sent.accepted()
    woken = await worker.activation()
    assert woken.wake("event")["accepted_at"] == receipt["accepted_at"]
    await woken.wait_timer("past the deadline", timeout_ms + 500)
    later = await worker.activation()
    later.wake("timer")  # not the resolved wait once more
    await later.complete()
    await lab.client.workflow_until(workflow_id, "succeeded", revision=3)


@scenario(
    "timers/keys-are-used-once", cites=["TMR-003", "TMR-004", "RACE-16", "EVT-012", "DEC-041", "WF-052", "CHD-010"]
)
async def test_keys_are_used_once(lab: Lab) -> None:
    """A wait key that an earlier wait used, or a timer key with an accepted event, rejects the decision."""
    worker = await lab.worker()
    for kind in ("timer again", "event after timer"):
        with lab.case(kind):
            workflow_id = (await lab.client.workflow())["workflow_id"]
            await (await worker.activation()).wait_timer("k", 0)
            second = await worker.activation()
            await (second.wait_timer("k", 0) if kind == "timer again" else second.wait_event("k"))
            outcome = await lab.client.outcome_until(workflow_id, "failed")
            assert outcome["error"]["kind"] == FAILED
            assert (await lab.client.workflow_status(workflow_id)).accepted()["revision"] == 1
    with lab.case("timer on a key with an event"):
        workflow_id = (await lab.client.workflow())["workflow_id"]
        activation = await worker.activation()
        event = lab.client.event()
        receipt = (await lab.client.send_event(workflow_id, "k", event)).accepted()
        await activation.wait_timer("k", 0)
        outcome = await lab.client.outcome_until(workflow_id, "failed")
        assert outcome["error"]["kind"] == FAILED
        replay = (await lab.client.send_event(workflow_id, "k", event)).accepted()
        assert replay == {**receipt, "already_accepted": True}
    with lab.case("child keys are another namespace"):
        await lab.client.workflow()
        activation = await worker.activation()
        await activation.wait_timer("k", 0, commands=[activation.command("k")])
        (await worker.activation()).wake("timer")


@scenario(
    "timers/cancelled-while-waiting",
    cites=["WF-060", "DRN-001", "DRN-014", "DRN-002", "RACE-20", "TMR-015", "WF-031"],
    slow=True,
)
async def test_cancelled_while_waiting(lab: Lab) -> None:
    """Cancelling a waiting workflow ends it at once; its timer, coming later, revives nothing."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    worker = await lab.worker()
    delay_ms = 3000
    await (await worker.activation()).wait_timer("alarm", delay_ms)
    await lab.client.workflow_until(workflow_id, "waiting", "running", revision=1)
    cancelling = (await lab.client.cancel_workflow(workflow_id)).accepted()
    assert cancelling["state"] == "cancelling"
    if cancelling["activation_id"] is not None:
        raise NotDetermined(f"the timer of {delay_ms} ms fired before the workflow could be cancelled")
    ended = await lab.client.workflow_until(workflow_id, "cancelled")
    assert ended["revision"] == 1
    witness = await lab.client.workflow()
    await (await worker.activation()).wait_timer("beyond", delay_ms + 500)
    woken = await worker.activation()
    assert woken.workflow_id == witness["workflow_id"], "a cancelled workflow was resumed by its timer"
    assert (await lab.client.workflow_status(workflow_id)).accepted() == ended
    await worker.nothing()


@scenario("timers/many", cites=["TMR-014", "TMR-013", "EVT-021", "TMR-006"], slow=True)
async def test_many(lab: Lab) -> None:
    """Timers of many workflows fire each once and each for its own workflow."""
    worker = await lab.worker()
    workflows = {(await lab.client.workflow(data=number))["workflow_id"]: number for number in range(12)}
    activations = [await worker.activation() for _ in workflows]
    await asyncio.gather(
        *(activation.wait_timer("t", 500 + 40 * number) for number, activation in enumerate(activations))
    )
    woken = [await worker.activation() for _ in workflows]
    assert {activation.workflow_id: activation.event["data"] for activation in woken} == workflows
    assert [activation.wake("timer")["key"] for activation in woken] == ["t"] * len(woken)
    await worker.nothing()
