"""Commands of workflows, and the steps that they owe, cut off at every crash point."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.disturbance import Command
from protocol3_conformance.roles.worker import Worker
from protocol3_conformance.scenarios.coordinator.contests import (
    APPLY,
    CANCEL,
    END,
    EVENT,
    FORK,
    RECORD,
    SETTLE,
    begun,
    waiting,
    with_child,
)
from protocol3_conformance.scenarios.coordinator.crashing import crashes_of
from protocol3_conformance.scenarios.coordinator.test_crashes_of_tasks import receipt_of
from protocol3_conformance.wire.strict_json import JsonValue

crash = crashes_of(globals())
AHEAD_MS = 3 * 86_400_000


async def completed(lab: Lab, worker: Worker, last: Activation, revision: int) -> None:
    """Complete; nothing else was ever activated, and each decision counted once."""
    await worker.nothing()
    await last.complete("done")
    ended = await lab.client.workflow_until(last.workflow_id, "succeeded")
    assert ended["revision"] == revision, f"{ended['revision']} decisions were applied, {revision} were accepted"
    await worker.nothing()


def workflow_of(snapshot: Any) -> JsonValue:
    """What never changes in a snapshot."""
    return [snapshot["workflow_id"], snapshot["submitted_at"], snapshot["correlation_key"]]


@crash("workflow-submission", path="/v1/workflows", cites=["WF-013"])
async def workflow_submission(lab: Lab) -> Command:
    """One key is one workflow with one first activation."""

    async def account(snapshot: Any) -> None:
        worker = await lab.worker()
        first = await worker.activation()
        assert first.workflow_id == snapshot["workflow_id"]
        await completed(lab, worker, first, 1)

    return Command(path="/v1/workflows", body=lab.client.submission(), stays=workflow_of, account=account)


async def deciding(lab: Lab) -> Command:
    worker, first = await begun(lab)

    async def account(_: Any) -> None:
        children = await lab.worker(queue=lab.child_queue)
        child = await children.running()
        await children.nothing()
        await child.succeed("found")
        second = await worker.activation()
        assert second.output_of("c") == "found"
        await completed(lab, worker, second, 2)

    decision = first.checkpoint("suspend", {"commands": [first.command("c")]}, until=["c"])
    return Command(path=SETTLE, body=first.success(decision), stays=receipt_of, account=account, tells=True)


@crash("decision", path=SETTLE, cites=["DLV-074", "CHD-051"])
async def decision(lab: Lab) -> Command:
    """A decision is applied once: one child, one resumption."""
    return await deciding(lab)


@crash("decision-step", path=SETTLE, step=APPLY, cites=["CHD-051", "RCV-003"])
async def decision_step(lab: Lab) -> Command:
    """An accepted decision is applied whole and once, though the target died while it was applied."""
    return await deciding(lab)


@crash("decision-step-ahead", path=SETTLE, step=APPLY, cites=["RCV-003", "TST-013"], profile="core virtual-time")
async def decision_step_ahead(lab: Lab) -> Command:
    """What the dead target owes is taken up by real time, however far the clock of the scope is ahead of it."""
    await lab.controls.advance(AHEAD_MS)
    return await deciding(lab)


@crash("completion-step", path=SETTLE, step=END, cites=["CHD-051", "RCV-001", "RCV-003"])
async def completion_step(lab: Lab) -> Command:
    """The end of a child resumes its parent once, though the target died while it was told."""
    worker, second, child = await with_child(lab)
    await second.suspend("c")
    await lab.client.workflow_until(second.workflow_id, "waiting", revision=2)

    async def account(_: Any) -> None:
        third = await worker.activation()
        assert third.output_of("c") == "found"
        await completed(lab, worker, third, 3)

    return Command(path=SETTLE, body=child.success("found"), stays=receipt_of, account=account, tells=True)


@crash("timer-step", path=SETTLE, step="wait.fire", cites=["TMR-002", "TMR-012"])
async def timer_step(lab: Lab) -> Command:
    """A timer wakes once, with the deadline that was stored, though the target died while it fired."""
    worker, first = await begun(lab)
    wait: JsonValue = {"kind": "timer", "key": "nap", "delay_ms": 100}
    decision = first.checkpoint("wait", {"wait": wait})

    async def account(reply: Any) -> None:
        second = await worker.activation()
        assert second.wake("timer")["deadline"] >= reply["receipt"]["accepted_at"] + 100
        await completed(lab, worker, second, 2)

    return Command(path=SETTLE, body=first.success(decision), stays=receipt_of, account=account, tells=True)


def receipt_but_already(receipt: Any) -> JsonValue:
    """What no repetition changes: all but `already_accepted`."""
    return {name: value for name, value in receipt.items() if name != "already_accepted"}


async def sending(lab: Lab) -> Command:
    worker, first = await waiting(lab)
    event = lab.client.event(data={"paid": True})

    async def account(receipt: Any) -> None:
        second = await worker.activation()
        wake = second.wake("event")
        assert (wake["event"]["id"], wake["accepted_at"]) == (event["id"], receipt["accepted_at"])
        await completed(lab, worker, second, 2)

    body: JsonValue = {"scope": lab.scope, "workflow_id": first.workflow_id, "key": "go", "event": event}
    return Command(path=EVENT, body=body, stays=receipt_but_already, account=account, tells=True)


@crash("event", path=EVENT, cites=["EVT-012", "EVT-017", "EVT-020"])
async def event(lab: Lab) -> Command:
    """An event is accepted once, at one instant, and wakes once."""
    return await sending(lab)


@crash("wake-step", path=EVENT, step="wait.fire", cites=["EVT-012", "EVT-015"])
async def wake_step(lab: Lab) -> Command:
    """An accepted event wakes once, though the target died while it woke the workflow."""
    return await sending(lab)


@crash("local-result", path=RECORD, cites=["LOC-002", "LOC-011"])
async def local_result(lab: Lab) -> Command:
    """A record with a receipt is in the journal, once."""
    worker, first = await begun(lab)
    record: dict[str, JsonValue] = {"key": "fx", "callable": "conformance:step", "input": None, "output": {"a": 1.0}}

    async def account(_: Any) -> None:
        assert (await first.context()).accepted()["local_steps"] == [record]
        await completed(lab, worker, first, 1)

    body: JsonValue = {"owner": first.owner, "record": record}
    return Command(path=RECORD, body=body, stays=receipt_but_already, account=account, tells=True)


@crash("fork", path=FORK, cites=["FRK-013", "FRK-016"], profile="core forks")
async def fork(lab: Lab) -> Command:
    """A fork is accepted once: each of its branches exists and runs once."""
    worker, first = await begun(lab)
    branches = [first.branch(key, queue=lab.child_queue, data=key) for key in ("left", "right")]

    async def account(_: Any) -> None:
        children = await lab.worker(queue=lab.child_queue)
        started = [await children.activation() for _ in branches]
        assert sorted(one.event["data"] for one in started) == ["left", "right"]
        await children.nothing()
        await first.suspend("left", "right")
        for one in started:
            await one.complete(one.event["data"])
        joined = await worker.activation()
        assert [joined.output_of(key) for key in ("left", "right")] == ["left", "right"]
        await completed(lab, worker, joined, 2)

    body: JsonValue = {"owner": first.owner, "fork": {"key": "split", "branches": branches}}
    return Command(path=FORK, body=body, stays=receipt_but_already, account=account, tells=True)


async def cancelling(lab: Lab) -> Command:
    worker, second, child = await with_child(lab)

    async def account(_: Any) -> None:
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
        reasons = await lab.client.reasons(child.task_id)
        assert reasons.count("cancel_requested") == 1, f"the child's history is {reasons}"

    body: JsonValue = {"scope": lab.scope, "workflow_id": second.workflow_id}
    return Command(path=CANCEL, body=body, stays=workflow_of, account=account)


@crash("workflow-cancel", path=CANCEL, cites=["WF-062", "DRN-003", "DRN-006"])
async def workflow_cancel(lab: Lab) -> Command:
    """A cancelled workflow drains and ends cancelled, after everything it owns."""
    return await cancelling(lab)


@crash("drain-step", path=CANCEL, step="drain.pass", cites=["DRN-003", "DRN-006", "DRN-014"])
async def drain_step(lab: Lab) -> Command:
    """A drain goes on after the target died in the middle of it."""
    return await cancelling(lab)
