"""Commands against background steps and against each other, judged by rules that hold in every order (chapter 18)."""

from __future__ import annotations

import asyncio

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.scenario import scenario


@scenario("races/cancel-against-the-decision", cites=["RACE-06", "RACE-08", "RCV-007", "DRN-002", "DRN-009", "WF-051"])
async def test_cancel_against_the_decision(lab: Lab) -> None:
    """Cancel and decision at once: either the decision counted and its child is drained, or nothing of it exists."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    for _ in range(8):
        workflow_id = (await lab.client.workflow())["workflow_id"]
        activation = await worker.activation()
        decision = activation.suspend("child", commands=[activation.command("child")])
        cancelled, _ = await asyncio.gather(lab.client.cancel_workflow(workflow_id), decision)
        assert cancelled.accepted()["state"] == "cancelling"
        ended = await lab.client.workflow_until(workflow_id, "cancelled")
        assert ended["revision"] == cancelled.value["revision"] in (0, 1)
        assert (await lab.client.workflow_result(workflow_id)).accepted()["outcome"] == {"kind": "cancelled"}
        await children.nothing()
    await worker.nothing()


@scenario("races/cancel-against-completion", cites=["RACE-09", "RACE-06", "WF-062", "WF-050"])
async def test_cancel_against_completion(lab: Lab) -> None:
    """Cancel and `complete` at once: one end, and the reply to the cancel fits it."""
    worker = await lab.worker()
    for _ in range(8):
        workflow_id = (await lab.client.workflow())["workflow_id"]
        activation = await worker.activation()
        cancelled, _ = await asyncio.gather(lab.client.cancel_workflow(workflow_id), activation.complete("done"))
        acknowledged = cancelled.accepted()
        ended = await lab.client.workflow_until(workflow_id, "succeeded", "cancelled")
        outcome = (await lab.client.workflow_result(workflow_id)).accepted()["outcome"]
        if acknowledged["state"] == "succeeded":
            assert acknowledged == ended
            assert outcome == {"kind": "succeeded", "output": "done"}
        else:
            assert (acknowledged["state"], ended["state"], ended["revision"]) == ("cancelling", "cancelled", 0)
            assert outcome == {"kind": "cancelled"}


@scenario("races/last-two-children", cites=["RACE-02", "CHD-057", "CHD-032", "ACT-009"])
async def test_last_two_children(lab: Lab) -> None:
    """The last members of a wait end at once: one activation is scheduled, with both results."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    for _ in range(6):
        workflow_id = (await lab.client.workflow())["workflow_id"]
        first = await worker.activation()
        await first.suspend("a", "b", commands=[first.command("a", data="a"), first.command("b", data="b")])
        claims = [await children.running() for _ in range(2)]
        await asyncio.gather(*(claim.succeed(claim.event["data"]) for claim in claims))
        resumed = await worker.activation()
        outputs = {key: child["outcome"]["output"] for key, child in resumed.frozen["inputs"].items()}
        assert outputs == {"a": "a", "b": "b"}
        await worker.nothing()
        await resumed.complete()
        await lab.client.workflow_until(workflow_id, "succeeded", revision=2)


@scenario("races/child-against-the-wait", cites=["RACE-01", "CHD-033", "CHD-051", "WF-053", "RCV-001"])
async def test_child_against_the_wait(lab: Lab) -> None:
    """A child ends while the wait that names it is being installed: the workflow resumes once."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    for _ in range(6):
        workflow_id = (await lab.client.workflow())["workflow_id"]
        first = await worker.activation()
        await first.go_on(commands=[first.command("child")])
        second = await worker.activation()
        claim = await children.running()
        await asyncio.gather(second.suspend("child"), claim.succeed("found"))
        third = await worker.activation()
        assert third.output_of("child") == "found"
        assert third.frozen["revision"] == 2
        await worker.nothing()
        await third.complete()
        await lab.client.workflow_until(workflow_id, "succeeded", revision=3)


@scenario("races/event-against-cancel", cites=["RACE-20", "EVT-011", "EVT-012", "WF-060", "DRN-002"])
async def test_event_against_cancel(lab: Lab) -> None:
    """An event and a cancel at once: the workflow ends cancelled, and an accepted event reconciles for ever."""
    worker = await lab.worker()
    for _ in range(6):
        workflow_id = (await lab.client.workflow())["workflow_id"]
        await (await worker.activation()).wait_event("go")
        await lab.client.workflow_until(workflow_id, "waiting")
        event = lab.client.event()
        sent, cancelled = await asyncio.gather(
            lab.client.send_event(workflow_id, "go", event), lab.client.cancel_workflow(workflow_id)
        )
        assert cancelled.accepted()["state"] == "cancelling"
        await lab.client.workflow_until(workflow_id, "cancelled")
        again = await lab.client.send_event(workflow_id, "go", event)
        if sent.status == 200:
            assert again.accepted() == {**sent.value, "already_accepted": True}
        else:
            sent.refused("obsolete_operation")
            again.refused("obsolete_operation")
        await worker.nothing()


@scenario("races/last-attempt-against-cancel", cites=["TASK-206", "TASK-209", "DLV-116", "DRN-011", "RACE-11"])
async def test_last_attempt_against_cancel(lab: Lab) -> None:
    """A retryable failure and a cancel at once: no attempt follows a cancel that was acknowledged."""
    worker = await lab.worker()
    for _ in range(8):
        await lab.client.task(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
        claim = await worker.running()
        settled, cancelled = await asyncio.gather(
            claim.settle(claim.breakdown("io")), lab.client.cancel_task(claim.task_id)
        )
        assert settled.accepted()["task_state"] in ("queued", "cancelled")
        assert cancelled.accepted() in ("active", "cancelled")
        status = (await lab.client.status(claim.task_id)).accepted()
        assert (status["state"], status["attempt_count"]) == ("cancelled", 1)
        await worker.nothing()


@scenario("races/many-workers-one-workflow", cites=["DLV-025", "ACT-009", "WF-054", "DLV-024"], slow=True)
async def test_many_workers_one_workflow(lab: Lab) -> None:
    """Of workers that compete for the activations of one workflow exactly one gets each."""
    workflow_id = (await lab.client.workflow())["workflow_id"]
    workers = [await lab.worker() for _ in range(4)]
    for revision in range(3):
        wait_ms = lab.target.patience.poll_ms
        replies = await asyncio.gather(*(worker.poll(revision, wait_ms=wait_ms) for worker in workers))
        assigned = [reply["assignment"] for reply in replies if reply["disposition"] == "assigned"]
        assert len(assigned) == 1, f"{len(assigned)} assignments at revision {revision}"
        claim = Claim(lab, assigned[0])
        decision = {"v": 1, "activation_id": claim.task_id, "revision": revision, "kind": "continue"}
        await claim.succeed({**decision, "state": revision, "continuation": "next", "commands": []})
    snapshot = await lab.client.workflow_until(workflow_id, "running", revision=3)
    assert snapshot["activation_id"] is not None
