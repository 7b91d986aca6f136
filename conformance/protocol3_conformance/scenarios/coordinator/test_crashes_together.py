"""Faults in pairs, faults of the network, and what a restart must not change."""

from __future__ import annotations

import time
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.roles.disturbance import die
from protocol3_conformance.roles.views import unchanged
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import ONCE, RECORD, RETRIED, SETTLE, begun, with_child
from protocol3_conformance.scenarios.coordinator.test_troubles_of_values import NUL, VALUE
from protocol3_conformance.wire.interrupted import Interrupted
from protocol3_conformance.wire.strict_json import JsonValue, compact_size, same

DELAY_MS = 300


async def nothing_more() -> None:
    """The target dies in whatever state it is."""


async def unheard(lab: Lab, path: str, body: JsonValue) -> None:
    """A command whose reply is due and gets lost."""
    sending = await Interrupted.begin(lab.peer, path, body)
    await sending.withheld()
    sending.cut("the reply was dropped")


async def lost(lab: Lab, claim: Claim, remaining_ms: int) -> None:
    """Let a lease run out, and wait for its recovery."""
    await lab.until(
        "the attempt is lost",
        claim.inspect,
        lambda seen: seen["state"] == "lost",
        not_before_ms=remaining_ms,
    )


@scenario(
    "crashes/restart-during-a-cancel",
    cites=["DRN-003", "DRN-006", "DRN-014", "WF-062", "RCV-002", "DLV-121"],
    profile="core restart",
)
async def test_restart_during_a_cancel(lab: Lab) -> None:
    """Killed while a cancelled workflow waits for its running child: the drain goes on, and nothing revives it."""
    worker, second, child = await with_child(lab)
    before = (await lab.client.cancel_workflow(second.workflow_id)).accepted()
    await die(lab, nothing_more)
    event = await lab.client.send_event(second.workflow_id, "late", lab.client.event())
    event.refused("obsolete_operation")
    again = (await lab.client.cancel_workflow(second.workflow_id)).accepted()
    assert (again["state"], again["revision"]) == ("cancelling", before["revision"])
    await lab.until(
        "the child is asked to stop",
        lambda: child.renew("keep_alive"),
        lambda seen: seen.accepted()["cancel_requested"],
        show=lambda seen: seen.value,
    )
    await child.succeed("too late")
    await second.settle(second.breakdown("cancelled"))
    assert await lab.client.outcome_until(second.workflow_id, "cancelled") == {"kind": "cancelled"}
    await worker.nothing()


@scenario(
    "crashes/expired-lease-and-doubled-report",
    cites=["DLV-077", "DLV-110", "DLV-112", "DLV-074", "HTTP-068"],
    profile="core expiry",
)
async def test_expired_lease_and_doubled_report(lab: Lab) -> None:
    """A report after its lease counts for nothing, twice; that of the next attempt counts once, its reply lost."""
    await lab.client.task(retry_policy=RETRIED)
    worker = await lab.worker()
    first = await worker.running()
    await lost(lab, first, bound("LEASE_MS"))
    second = await worker.running()
    for _ in range(2):
        (await first.settle(first.success("too late"))).refused("ownership_lost")
    report = second.success("in time")
    await unheard(lab, SETTLE, report)
    replies = [(await second.settle(report)).accepted() for _ in range(2)]
    assert [reply["already_accepted"] for reply in replies] == [True, True]
    assert replies[0]["receipt"] == replies[1]["receipt"]
    (await first.settle(first.success("too late"))).refused("ownership_lost")
    outcome = (await lab.client.result(first.task_id)).accepted()["outcome"]
    assert outcome["output"] == "in time"
    reasons = await lab.client.reasons(first.task_id)
    counted = {reason: reasons.count(reason) for reason in ("claimed", "lease_expired", "succeeded")}
    assert counted == {"claimed": 2, "lease_expired": 1, "succeeded": 1}, f"the history is {reasons}"
    await worker.nothing()


@scenario("crashes/lost-reply-and-full-journal", cites=["LOC-002", "LOC-004", "LOC-009", "LIM-012", "HTTP-068"])
async def test_lost_reply_and_full_journal(lab: Lab) -> None:
    """The record that fills the journal gets no reply: its repetition is accepted all the same, and no further one."""
    _, activation = await begun(lab)
    whole, ledger = bound("LOCAL_RECORD_BYTES"), bound("LOCAL_LEDGER_BYTES")

    def record(key: str, size: int) -> dict[str, JsonValue]:
        empty: dict[str, JsonValue] = {"key": key, "callable": "conformance:step", "input": None, "output": ""}
        return {**empty, "output": "x" * (size - compact_size(empty))}

    records = [record("a", whole), record("b", ledger - whole - 3)]  # with brackets and a comma the journal is full
    (await activation.local(**records[0])).accepted()
    await unheard(lab, RECORD, {"owner": activation.owner, "record": records[1]})
    (await activation.local("c")).refused("invalid_input", 400)
    assert (await activation.local(**records[1])).accepted()["already_accepted"] is True
    (await activation.local("c")).refused("invalid_input", 400)
    assert (await activation.context()).accepted()["local_steps"] == records


@scenario("crashes/report-delayed-past-its-lease", cites=["DLV-077", "DLV-110"], profile="core virtual-time")
async def test_report_delayed_past_its_lease(lab: Lab) -> None:
    """Half of a report comes while its lease lives, and the rest after it: it is too late, and changes nothing."""
    await lab.client.task(retry_policy=RETRIED)
    worker = await lab.worker()
    first = await worker.running()
    sending = await Interrupted.begin(lab.peer, SETTLE, first.success("too late"))
    await sending.send_half()
    await lost(lab, first, bound("LEASE_MS"))
    Answer(await sending.finish()).refused("ownership_lost")
    second = await worker.running()
    await second.succeed("in time")
    outcome = (await lab.client.result(first.task_id)).accepted()["outcome"]
    assert outcome["output"] == "in time"
    await worker.nothing()


@scenario("crashes/child-ends-over-a-restart", cites=["RACE-31", "CHD-051", "DLV-121"], profile="core restart")
async def test_child_ends_over_a_restart(lab: Lab) -> None:
    """The target dies while a workflow is suspended, and the child's report comes when it is back: one resumption."""
    worker, second, child = await with_child(lab)
    await second.suspend("c")
    await lab.client.workflow_until(second.workflow_id, "waiting", revision=2)
    await die(lab, nothing_more)
    await child.succeed("found")
    third = await worker.activation()
    assert third.output_of("c") == "found"
    await worker.nothing()
    await third.complete()
    await lab.client.workflow_until(second.workflow_id, "succeeded", revision=3)


@scenario("crashes/timer-due-while-down", cites=["RACE-32", "TMR-002", "RCV-002"], profile="core restart")
async def test_timer_due_while_down(lab: Lab) -> None:
    """A timer that was set before the target died fires once after it, with the deadline that it had."""
    worker, first = await begun(lab)
    latest = 0

    async def set_it() -> None:
        nonlocal latest
        await first.wait_timer("nap", DELAY_MS)
        await lab.client.workflow_until(first.workflow_id, "waiting", "running", revision=1)
        latest = (await lab.client.task(queue=lab.child_queue))["submitted_at"] + DELAY_MS

    await die(lab, set_it)
    second = await worker.activation()
    assert second.wake("timer")["deadline"] <= latest, "the deadline moved with the restart"
    await worker.nothing()
    await second.complete()
    await lab.client.workflow_until(first.workflow_id, "succeeded", revision=2)


@scenario("crashes/listing-over-a-restart", cites=["DISC-019"], profile="core discovery restart")
async def test_listing_over_a_restart(lab: Lab) -> None:
    """A cursor goes on after a restart where it was."""
    correlation = lab.unique("list")
    made = [(await lab.client.task(correlation_key=correlation))["task_id"] for _ in range(3)]
    query = {"correlation_key": correlation, "limit": "2"}
    first = (await lab.client.list_tasks(**query)).accepted()
    await die(lab, nothing_more)
    rest = (await lab.client.list_tasks(**query, cursor=first["next_cursor"])).accepted()
    assert rest["next_cursor"] is None
    found = [item["task_id"] for item in [*first["items"], *rest["items"]]]
    assert sorted(found) == sorted(made), f"listed {found}, made {made}"


@scenario(
    "crashes/values-over-a-restart",
    cites=["DLV-121", "JSON-012", "JSON-046", "TXT-007", "ERR-010", "LOC-001", "EVT-002"],
    profile="core restart",
)
async def test_values_over_a_restart(lab: Lab) -> None:
    """U+0000 in data, member names and error texts, and great numbers, are after a restart what they were before."""
    worker, first = await begun(lab, data=VALUE)
    (await first.local("step", VALUE, input=VALUE)).accepted()
    (await lab.client.send_event(first.workflow_id, "go", lab.client.event(data=VALUE))).accepted()
    _, failed = await begun(lab)
    await failed.fail(message=NUL)
    await lab.client.outcome_until(failed.workflow_id, "failed")
    await lab.client.task(data=VALUE, retry_policy=ONCE)
    claim = await worker.running()
    report = claim.breakdown("io", phase="cleanup", message=NUL, cleanup_error={"kind": "io", "message": NUL})
    (await claim.settle(report)).accepted()
    workflows = [first.workflow_id, failed.workflow_id]
    async with unchanged(lab.client, workflows=workflows, claims=[first, claim], rule="DLV-121"):
        await die(lab, nothing_more)
    await first.wait_event("go", state=VALUE)
    second = await worker.activation()
    seen = [second.event["data"], second.frozen["state"], second.wake("event")["event"]["data"]]
    assert same(seen, [VALUE] * 3)
    await second.complete(VALUE)
    assert same((await lab.client.outcome_until(first.workflow_id, "succeeded"))["output"], VALUE)


@scenario(
    "crashes/lease-held-over-a-restart",
    cites=["DLV-121", "DLV-013", "DLV-110", "DLV-112", "DLV-043"],
    profile="core restart expiry",
)
async def test_lease_held_over_a_restart(lab: Lab) -> None:
    """A lease outlives the target's death; when it has run out the task is delivered again. How soon is measured."""
    await lab.client.task(retry_policy=RETRIED)
    worker = await lab.worker()
    first = await worker.running(0)
    await die(lab, nothing_more)
    assert lab.outage is not None
    held = (await worker.acquire(worker.sequences[0])).accepted()
    assert (held["disposition"], held["assignment"]["lease"]["owner"]) == ("assigned", first.owner)
    rest: Any = held["assignment"]["authority"]["remaining_ms"]
    await lab.pass_time(rest)
    ran_out = time.monotonic()
    second = await worker.running(1)
    delivered = time.monotonic()
    assert (second.task_id, second.event["ldgattemptno"]) == (first.task_id, 2)
    lab.measure("down, from the kill until ready", round(lab.outage.down_ms), "ms")
    lab.measure("from ready to the next delivery of a leased task", _ms(delivered - lab.outage.ready_at), "ms")
    lab.measure("of that, until its lease had run out", _ms(ran_out - lab.outage.ready_at), "ms")
    await second.succeed("done")
    await worker.nothing()
    reasons = await lab.client.reasons(first.task_id)
    assert reasons.count("lease_expired") == 1, f"the history is {reasons}"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
