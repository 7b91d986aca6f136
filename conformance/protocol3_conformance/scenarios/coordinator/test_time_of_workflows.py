"""Workflows while parts of the target fail, and when deadlines and a day pass: with both testing profiles."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.controls import FAIL, HOLD
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import begun, waiting, with_child

BOTH = "core virtual-time faults"
HOUR, DAY = 3_600_000, bound("APPLICATION_RETRY_MS")
LOST = "workflow_application_timeout"
EVENT = "/v1/workflows/events"


async def until_failed(lab: Lab, rule: str, more: int = 1) -> None:
    """The rule has struck again."""
    await lab.controls.until_hit(rule, await lab.controls.hits(rule) + more)


@scenario("workflow-time/event-beats-a-late-coordinator", cites=["RACE-12", "TMR-022", "EVT-016"], profile=BOTH)
async def test_event_beats_a_late_coordinator(lab: Lab) -> None:
    """An event accepted before the deadline wakes, though the wait is looked at only after the deadline."""
    worker, first = await begun(lab)
    await first.wait_event("go", HOUR)
    await lab.client.workflow_until(first.workflow_id, "waiting")
    rule = await lab.controls.rule("wait.fire", HOLD, times=None)
    event = lab.client.event()
    receipt = (await lab.client.send_event(first.workflow_id, "go", event)).accepted()
    await lab.controls.until_held(rule)
    moved = await lab.controls.advance(2 * HOUR, leases="hold")
    assert moved["now"] > receipt["accepted_at"] + HOUR
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "waiting"
    await lab.controls.clear()
    woken = await worker.activation()
    assert woken.wake("event")["accepted_at"] == receipt["accepted_at"]
    await woken.complete()
    await lab.client.workflow_until(first.workflow_id, "succeeded", revision=2)


@scenario("workflow-time/event-after-the-deadline", cites=["RACE-13", "EVT-012", "TMR-010"], profile=BOTH)
async def test_event_after_the_deadline(lab: Lab) -> None:
    """A send after the deadline is obsolete although the timeout has not been applied yet; the timeout wakes."""
    worker, first = await begun(lab)
    await first.wait_event("go", HOUR)
    await lab.client.workflow_until(first.workflow_id, "waiting")
    rule = await lab.controls.rule("wait.fire", HOLD, times=None)
    moved = await lab.controls.advance(HOUR, leases="hold")
    await lab.controls.until_held(rule)
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "waiting"
    event = lab.client.event()
    (await lab.client.send_event(first.workflow_id, "go", event)).refused("obsolete_operation")
    await lab.controls.clear()
    woken = await worker.activation()
    assert woken.wake("timeout")["deadline"] <= moved["now"]
    (await lab.client.send_event(first.workflow_id, "go", event)).refused("obsolete_operation")
    await worker.nothing()


@scenario("workflow-time/blocked-sender", cites=["RACE-14", "EVT-016", "TST-022", "TST-010"], profile=BOTH)
async def test_blocked_sender(lab: Lab) -> None:
    """A sender that is held with the workflow in its hands while the deadline passes is too late."""
    worker, first = await begun(lab)
    await first.wait_event("go", HOUR)
    await lab.client.workflow_until(first.workflow_id, "waiting")
    event = lab.client.event()
    async with lab.controls.holding(
        EVENT, lambda: lab.client.send_event(first.workflow_id, "go", event), "locked"
    ) as sending:
        await lab.controls.advance(HOUR, leases="hold")
        assert not sending.done()
    sending.result().refused("obsolete_operation")
    (await worker.activation()).wake("timeout")
    (await lab.client.send_event(first.workflow_id, "go", event)).refused("obsolete_operation")


@scenario(
    "workflow-time/timer-counts-from-its-decision", cites=["DEC-023", "TMR-002", "TMR-014", "TMR-020"], profile=BOTH
)
async def test_timer_counts_from_its_decision(lab: Lab) -> None:
    """A delay counts from the moment its decision is applied, not from when it was settled."""
    worker, first = await begun(lab)
    rule = await lab.controls.rule("decision.apply", HOLD)
    settled = await first.wait_timer("nap", HOUR)
    await lab.controls.until_held(rule)
    held = await lab.controls.advance(DAY // 2, leases="hold")
    await lab.controls.clear()
    await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)
    due = (await lab.controls.reading())["next_due"]
    assert due >= held["now"] + HOUR, "the delay counted from the settlement"
    assert due > settled["receipt"]["accepted_at"] + DAY // 2
    await lab.controls.move(to="next_due", leases="hold")
    assert (await worker.activation()).wake("timer")["deadline"] == due


@scenario("workflow-time/timer-that-fails-to-fire", cites=["TMR-002", "RCV-008", "TMR-014", "TMR-020"], profile=BOTH)
async def test_timer_that_fails_to_fire(lab: Lab) -> None:
    """A timer whose step fails, and fails again, fires as soon as it can, with the deadline that was stored."""
    worker, first = await begun(lab)
    await first.wait_timer("nap", HOUR)
    await lab.client.workflow_until(first.workflow_id, "waiting")
    due = (await lab.controls.reading())["next_due"]
    rule = await lab.controls.rule("wait.fire", FAIL, "locked", times=None)
    await lab.controls.advance(HOUR, leases="hold")
    await lab.controls.until_hit(rule)
    await until_failed(lab, rule)
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "waiting"
    await lab.controls.clear()
    assert (await worker.activation()).wake("timer")["deadline"] == due
    await worker.nothing()


@scenario("workflow-time/unconfirmed-decision", cites=["ACT-040", "DEC-003", "DLV-114"], profile="core virtual-time")
async def test_unconfirmed_decision(lab: Lab) -> None:
    """A decision whose clean-up is never confirmed is applied when the lease ends, and counts as any other."""
    _, first = await begun(lab)
    decision = first.decision("complete", output="kept")
    (await first.settle(first.success(decision, quiescence="unconfirmed"))).accepted()
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "running"
    await lab.controls.advance(bound("LEASE_MS"))
    assert await lab.client.outcome_until(first.workflow_id, "succeeded") == {"kind": "succeeded", "output": "kept"}
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["revision"] == 1


@scenario("workflow-time/failed-resumption", cites=["RACE-33", "RCV-008", "TST-012"], profile=BOTH)
async def test_failed_resumption(lab: Lab) -> None:
    """A resumption that fails in the middle leaves wait, event and workflow as they were; a later try resumes once."""
    worker, first = await waiting(lab)
    rule = await lab.controls.rule("wait.fire", FAIL, "written", times=None)
    event = lab.client.event()
    receipt = (await lab.client.send_event(first.workflow_id, "go", event)).accepted()
    await lab.controls.until_hit(rule)
    snapshot = (await lab.client.workflow_status(first.workflow_id)).accepted()
    assert (snapshot["state"], snapshot["revision"], snapshot["activation_id"]) == ("waiting", 1, None)
    again = (await lab.client.send_event(first.workflow_id, "go", event)).accepted()
    assert again == {**receipt, "already_accepted": True}
    await worker.nothing()
    await lab.controls.clear()
    await lab.controls.advance(0)
    assert (await worker.activation()).wake("event")["accepted_at"] == receipt["accepted_at"]
    await worker.nothing()


@scenario("workflow-time/unreachable-store", cites=["RCV-008", "CHD-015", "RACE-37", "RCV-022"], profile=BOTH)
async def test_unreachable_store(lab: Lab) -> None:
    """A decision whose program cannot be resolved waits as it is; after two days it is applied when it can be."""
    _, first = await begun(lab)
    rule = await lab.controls.rule("program.resolve", FAIL, times=None)
    decision = first.checkpoint("suspend", {"commands": [first.command("c", program=other_program(lab))]}, until=["c"])
    await first.decide(decision)
    await lab.controls.until_hit(rule)
    snapshot = (await lab.client.workflow_status(first.workflow_id)).accepted()
    assert (snapshot["state"], snapshot["revision"]) == ("running", 0)
    hold = await lab.controls.rule("decision.apply", HOLD)
    await lab.controls.advance(0)
    await lab.controls.until_held(hold)
    await lab.controls.clear(rule)
    await lab.controls.advance(2 * DAY, leases="hold")
    await lab.controls.clear()
    await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)


def other_program(lab: Lab) -> dict[str, str]:
    program_id, version = lab.target.program
    return {"id": program_id, "version": version}


@scenario("workflow-time/replay-without-the-store", cites=["WF-016", "WF-015"], profile="core faults any-scope")
async def test_replay_without_the_store(lab: Lab) -> None:
    """A key that is bound is answered, or refused, while the program store fails; a free one is not."""
    command = lab.client.submission()
    first = (await lab.client.post("/v1/workflows", command)).accepted()
    await lab.controls.rule("program.resolve", FAIL, times=None)
    (await lab.client.submit_workflow()).refused("unavailable")
    assert (await lab.client.post("/v1/workflows", command)).accepted() == first
    other = {**command, "input": {**command["input"], "data": "other"}}
    (await lab.client.post("/v1/workflows", other)).refused("conflict")


@scenario(
    "workflow-time/a-day-of-failures",
    cites=["RCV-020", "RCV-021", "RACE-37", "DRN-011"],
    profile=BOTH,
)
async def test_a_day_of_failures(lab: Lab) -> None:
    """A completion that still cannot be applied a day after it arose fails its workflow, and not a moment earlier."""
    _, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    rule = await lab.controls.rule("decision.apply", FAIL, "locked", times=None)
    await first.suspend("c", commands=[first.command("c")])
    await lab.controls.until_hit(rule)
    await lab.controls.advance(DAY - HOUR, leases="hold")
    await until_failed(lab, rule)
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "running"
    await lab.controls.advance(HOUR, leases="hold")
    outcome = await lab.client.outcome_until(first.workflow_id, "failed")
    assert outcome["error"]["kind"] == LOST
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["revision"] == 0
    await children.nothing()


@scenario("workflow-time/waits-do-not-age", cites=["TMR-023", "RCV-023", "RCV-022"], profile=BOTH)
async def test_waits_do_not_age(lab: Lab) -> None:
    """A wait whose processing fails for days wakes in the end, with its deadline of then."""
    worker, first = await begun(lab)
    await first.wait_timer("nap", HOUR)
    await lab.client.workflow_until(first.workflow_id, "waiting")
    deadline = (await lab.controls.reading())["next_due"]
    rule = await lab.controls.rule("wait.fire", FAIL, "locked", times=None)
    await lab.controls.advance(HOUR, leases="hold")
    await lab.controls.until_hit(rule)
    await lab.controls.advance(3 * DAY, leases="hold")
    await until_failed(lab, rule)
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "waiting"
    await lab.controls.clear()
    await lab.controls.advance(0)
    assert (await worker.activation()).wake("timer")["deadline"] == deadline


@scenario("workflow-time/wakes-do-not-age", cites=["TMR-023", "RCV-023"], profile=BOTH)
async def test_wakes_do_not_age(lab: Lab) -> None:
    """An event whose wait cannot be ended for days is kept, and wakes in the end."""
    worker, first = await waiting(lab)
    rule = await lab.controls.rule("wait.fire", FAIL, "locked", times=None)
    receipt = (await lab.client.send_event(first.workflow_id, "go", lab.client.event())).accepted()
    await lab.controls.until_hit(rule)
    await lab.controls.advance(3 * DAY, leases="hold")
    await until_failed(lab, rule)
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "waiting"
    await lab.controls.clear()
    await lab.controls.advance(0)
    assert (await worker.activation()).wake("event")["accepted_at"] == receipt["accepted_at"]


@scenario("workflow-time/satisfied-at-installation", cites=["WF-053", "TMR-012"], profile="core faults any-scope")
async def test_satisfied_at_installation(lab: Lab) -> None:
    """A wait that is over when it is installed goes on in the same step, and needs no later one that fires."""
    worker, first = await begun(lab)
    rule = await lab.controls.rule("wait.fire", HOLD, times=None)
    (await lab.client.send_event(first.workflow_id, "early", lab.client.event())).accepted()
    await first.wait_event("early")
    second = await worker.activation()
    assert second.wake("event")["key"] == "early"
    await second.wait_timer("now", 0)
    third = await worker.activation()
    assert third.wake("timer")["key"] == "now"
    assert await lab.controls.hits(rule) == 0, "the wait was installed before it ended"


@scenario("workflow-time/drains-do-not-age", cites=["DRN-010", "RCV-023"], profile=BOTH)
async def test_drains_do_not_age(lab: Lab) -> None:
    """A drain that fails for days is tried on, and the workflow ends cancelled."""
    _, first = await begun(lab)
    rule = await lab.controls.rule("drain.pass", FAIL, "locked", times=None)
    assert (await lab.client.cancel_workflow(first.workflow_id)).accepted()["state"] == "cancelling"
    await lab.controls.until_hit(rule)
    await lab.controls.advance(3 * DAY, leases="hold")
    await until_failed(lab, rule)
    assert (await lab.client.workflow_status(first.workflow_id)).accepted()["state"] == "cancelling"
    await lab.controls.clear()
    await lab.controls.advance(0)
    await first.break_down()
    assert await lab.client.outcome_until(first.workflow_id, "cancelled") == {"kind": "cancelled"}


@scenario("workflow-time/held-step", cites=["TST-026", "WF-041"], profile=BOTH)
async def test_held_step(lab: Lab) -> None:
    """A held step keeps its own workflow waiting and no other; reading it neither helps nor hinders."""
    worker, first = await begun(lab)
    rule = await lab.controls.rule("decision.apply", HOLD)
    await first.complete("late")
    held = await lab.controls.until_held(rule)
    assert [each["subject"] for each in held] == [first.workflow_id]
    before = (await lab.client.workflow_status(first.workflow_id)).accepted()
    other = (await lab.client.workflow())["workflow_id"]
    await (await worker.activation()).complete("early")
    await lab.client.workflow_until(other, "succeeded")
    for _ in range(3):
        assert (await lab.client.workflow_result(first.workflow_id)).accepted() == {"workflow": before, "outcome": None}
    assert await lab.controls.release() == 1
    assert (await lab.client.outcome_until(first.workflow_id, "succeeded"))["output"] == "late"


@scenario("workflow-time/resolved-once", cites=["DEC-021", "DEC-022", "CHD-015"], profile=BOTH)
async def test_resolved_once(lab: Lab) -> None:
    """A decision resolves each program once at most, and none when all its commands are registered already."""
    _, first = await begun(lab)
    worker = await lab.worker()
    resolved = await lab.controls.rule("program.resolve", {"kind": "delay", "ms": 0}, times=None)
    commands = [first.command("a"), first.command("b")]
    await first.go_on(commands=commands)
    second = await worker.activation()
    assert await lab.controls.hits(resolved) <= 1, "one program was resolved twice for one decision"
    await lab.controls.clear()
    failing = await lab.controls.rule("program.resolve", FAIL, times=None)
    await second.go_on(commands=commands)
    third = await worker.activation()
    assert third.frozen["revision"] == 2
    assert await lab.controls.hits(failing) == 0
    children = await lab.worker(queue=lab.child_queue)
    for _ in commands:
        claim = await children.claim()
        assert claim.assignment["descriptor"]["program"] == first.assignment["descriptor"]["program"]
    await children.nothing()


@scenario(
    "workflow-time/live-limit-before-the-owner-is-told",
    cites=["RACE-29", "CHD-026"],
    profile="core forks subworkflows faults",
)
async def test_live_limit_before_the_owner_is_told(lab: Lab) -> None:
    """A branch that has ended is not live any more, though its parent was not told yet: one more may be created."""
    worker, first = await begun(lab)
    most = bound("LIVE_SUBWORKFLOWS")
    branches = await lab.worker(queue=lab.child_queue)

    def branch(key: str) -> list[Any]:
        return [first.branch(key, queue=lab.child_queue)]

    (await first.fork("f", [one for number in range(most - 1) for one in branch(f"b{number}")])).accepted()
    await first.go_on()
    second = await worker.activation()
    (await second.fork("g", branch("last"))).accepted()
    (await second.fork("h", branch("one"))).refused("invalid_input")
    ended = await branches.activation()
    rule = await lab.controls.rule("completion.deliver", HOLD, times=None)
    await ended.complete(1)
    await lab.client.workflow_until(ended.workflow_id, "succeeded")
    await lab.controls.until_held(rule)
    assert (await second.fork("h", branch("one"))).accepted()["already_accepted"] is False
    (await second.fork("i", branch("more"))).refused("invalid_input")


@scenario("workflow-time/two-scopes", cites=["TST-003", "TST-026"], profile=BOTH)
async def test_two_scopes(lab: Lab) -> None:
    """Rules and clock of one scope leave the workflows of another alone."""
    rules = [await lab.controls.rule(step, FAIL, times=None) for step in ("decision.apply", "drain.pass", "wait.fire")]
    other = lab.client_in(lab.other_scope)
    workflow = await other.workflow()
    await lab.controls.advance(DAY)
    reply = await other.cancel_workflow(workflow["workflow_id"])
    assert reply.accepted()["state"] == "cancelling"
    await asyncio.gather(other.workflow_until(workflow["workflow_id"], "cancelled"))
    assert [await lab.controls.hits(rule) for rule in rules] == [0, 0, 0]


@scenario("workflow-time/children-keep-their-results", cites=["CHD-033", "RCV-008", "RCV-001"], profile=BOTH)
async def test_children_keep_their_results(lab: Lab) -> None:
    """The end of a child that cannot be told at once is told later, once."""
    worker, second, child = await with_child(lab)
    await second.suspend("c")
    await lab.client.workflow_until(second.workflow_id, "waiting")
    rule = await lab.controls.rule("completion.deliver", FAIL, "written", times=2)
    await child.succeed("kept")
    await lab.controls.until_hit(rule)
    await lab.controls.advance(0)
    assert (await worker.activation()).output_of("c") == "kept"
    await worker.nothing()
