"""Activations: context, authority to read it, retries, how they end (chapter 10)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import with_child
from protocol3_conformance.scenarios.coordinator.test_settlement import edited
from protocol3_conformance.wire.strict_json import JsonValue, same

TWICE = {"max_attempts": 2, "retry_delay_ms": 0}


@scenario("activation/context-needs-the-owner", cites=["ACT-024", "ACT-025", "ACT-026", "ACT-027"])
async def test_context_needs_the_owner(lab: Lab) -> None:
    """The context is readable by the live owner only, before dispatch too, and until the report is accepted."""
    await lab.client.workflow()
    worker = await lab.worker(concurrency=2)
    claim = await worker.claim()
    stranger = await lab.worker()
    context = (await claim.context()).accepted()
    changes: dict[str, dict[str, Any]] = {
        "lease": {"lease_id": lab.unique("lease")},
        "generation": {"generation": 2},
        "attempt": {"attempt_id": lab.unique("att")},
        "session": {"worker_session_id": stranger.session["id"]},
        "consumer": {"consumer_id": 1},
        "unknown task": {"task_id": lab.unique("task")},
    }
    for name, change in changes.items():
        with lab.case(name):
            (await claim.context(**change)).refused("ownership_lost")
    (await claim.context(lease_id="")).refused("invalid_input")
    (await lab.client.post("/v1/workflows/activations/context", {"owner": claim.owner})).refused("invalid_input")
    await lab.client.task()
    ordinary = await worker.claim(1)
    (await ordinary.context()).refused("ownership_lost")
    assert same((await claim.context()).accepted(), context)
    await claim.dispatch()
    assert same((await claim.context()).accepted(), context)
    decision = {"v": 1, "activation_id": claim.task_id, "revision": 0, "kind": "complete", "output": None}
    (await claim.settle(claim.success(decision, quiescence="unconfirmed"))).accepted()
    (await claim.context()).refused("ownership_lost")


@scenario("activation/retry-sees-the-same", cites=["ACT-003", "ACT-020", "ACT-021", "ACT-043", "LOC-001", "DLV-043"])
async def test_retry_sees_the_same(lab: Lab) -> None:
    """A retried activation keeps task, context and journal; the workflow stays running at its revision."""
    workflow = await lab.client.workflow(retry_policy=TWICE)
    worker = await lab.worker()
    first = await worker.activation()
    (await first.local("fx", {"rate": 1.0})).accepted()
    await first.break_down("runtime")
    snapshot = (await lab.client.workflow_status(workflow["workflow_id"])).accepted()
    assert (snapshot["state"], snapshot["revision"], snapshot["activation_id"]) == ("running", 0, first.task_id)
    second = await worker.activation()
    assert second.task_id == first.task_id
    assert second.event["ldgrunid"] == first.event["ldgrunid"]
    assert second.event["id"] != first.event["id"]
    journal = [{"key": "fx", "callable": "conformance:step", "input": None, "output": {"rate": 1.0}}]
    assert same(second.frozen, {**first.frozen, "local_steps": journal})
    (await first.context()).refused("ownership_lost")
    await second.complete()
    await lab.client.workflow_until(workflow["workflow_id"], "succeeded")


@scenario("activation/application-failure", cites=["ACT-041", "ERR-010", "WF-052", "DRN-011", "ACT-045"])
async def test_application_failure(lab: Lab) -> None:
    """A failure that the controller reports ends the workflow with its kind and message, without a retry."""
    workflow = await lab.client.workflow(retry_policy=TWICE)
    worker = await lab.worker()
    activation = await worker.activation()
    (await activation.settle(activation.failure("no_funds", "account is empty"))).accepted()
    outcome = await lab.client.outcome_until(workflow["workflow_id"], "failed")
    assert outcome["error"] == {"kind": "no_funds", "message": "account is empty"}
    assert (await lab.client.workflow_status(workflow["workflow_id"])).accepted()["revision"] == 0
    await worker.nothing()


@scenario("activation/unusable-failure-texts", cites=["ACT-042", "ERR-010"])
async def test_unusable_failure_texts(lab: Lab) -> None:
    """A failure whose kind is no identifier, or whose message is too long, still fails the workflow."""
    texts = {"empty kind": ("", "m"), "kind with a newline": ("a\nb", "m"), "long message": ("kind", "m" * 4097)}
    worker = await lab.worker()
    for name, (kind, message) in texts.items():
        with lab.case(name):
            workflow = await lab.client.workflow()
            activation = await worker.activation()
            (await activation.settle(activation.failure(kind, message))).accepted()
            outcome = await lab.client.outcome_until(workflow["workflow_id"], "failed")
            assert outcome["error"]["kind"] == "decision_application_failed"


@scenario("activation/exhausted", cites=["ACT-041", "ERR-010", "ACT-043", "WF-052", "ACT-046"])
async def test_exhausted(lab: Lab) -> None:
    """Execution failures use the retry policy; with attempts exhausted, or a final kind, the workflow fails."""
    worker = await lab.worker()
    for kind, attempts in (("unavailable", 2), ("protocol", 1)):
        with lab.case(kind):
            workflow = await lab.client.workflow(retry_policy=TWICE)
            for _ in range(attempts):
                await (await worker.activation()).break_down(kind)
            outcome = await lab.client.outcome_until(workflow["workflow_id"], "failed")
            assert outcome["error"]["kind"] == "workflow_activation_failed"
            assert (await lab.client.workflow_status(workflow["workflow_id"])).accepted()["revision"] == 0


@scenario("activation/cancelled-through-its-task", cites=["RACE-38", "ERR-010", "ACT-041", "DRN-011", "ACT-047"])
async def test_cancelled_through_its_task(lab: Lab) -> None:
    """Cancelling the activation's task by the task route fails the workflow; it does not cancel it."""
    workflow = await lab.client.workflow()
    assert (await lab.client.cancel_task(workflow["activation_id"])).accepted() == "cancelled"
    outcome = await lab.client.outcome_until(workflow["workflow_id"], "failed")
    assert outcome["error"]["kind"] == "workflow_activation_cancelled"


@scenario("activation/cancelled-by-the-drain", cites=["ACT-048", "DRN-006"])
async def test_cancelled_by_the_drain(lab: Lab) -> None:
    """An activation that the drain has cancelled moves nothing: its workflow waits on for the child that still runs."""
    worker, second, child = await with_child(lab)
    await lab.client.cancel_workflow(second.workflow_id)
    await lab.until(
        "the drain has asked the activation to stop",
        lambda: lab.client.status(second.task_id),
        lambda seen: seen.accepted()["cancel_requested_at"] is not None,
        show=lambda seen: seen.value,
    )
    assert (await second.complete("too late"))["task_state"] == "cancelled"
    await worker.nothing()
    snapshot = (await lab.client.workflow_status(second.workflow_id)).accepted()
    assert (snapshot["state"], snapshot["revision"], snapshot["activation_id"]) == ("cancelling", 1, second.task_id)
    await child.break_down()
    ended = await lab.client.workflow_until(second.workflow_id, "cancelled", revision=1)
    assert ended["terminal_at"] >= (await lab.client.status(child.task_id)).accepted()["terminal_at"]


@scenario("activation/unconfirmed-decision", cites=["ACT-040", "DEC-003", "RACE-07", "WF-031"])
async def test_unconfirmed_decision(lab: Lab) -> None:
    """A decision reported with unconfirmed quiescence waits for the confirmation; a cancel in between drops it."""
    for cancelled in (False, True):
        with lab.case("cancelled in between" if cancelled else "confirmed"):
            workflow = await lab.client.workflow()
            activation = await (await lab.worker()).activation()
            decision = activation.decision("complete", output="kept")
            (await activation.settle(activation.success(decision, quiescence="unconfirmed"))).accepted()
            snapshot = (await lab.client.workflow_status(workflow["workflow_id"])).accepted()
            assert (snapshot["state"], snapshot["revision"]) == ("running", 0)
            if cancelled:
                await lab.client.cancel_workflow(workflow["workflow_id"])
            task_state = (await activation.confirm()).accepted()
            assert task_state in (("succeeded", "cancelled") if cancelled else ("succeeded",))
            ended = await lab.client.workflow_until(workflow["workflow_id"], "cancelled" if cancelled else "succeeded")
            assert ended["revision"] == (0 if cancelled else 1)


@scenario("activation/exact-replay-of-the-report", cites=["DLV-075", "RACE-05", "RCV-003", "DEC-003", "WF-051"])
async def test_exact_replay_of_the_report(lab: Lab) -> None:
    """Replaying the settlement of an activation applies its decision once."""
    workflow = await lab.client.workflow()
    worker = await lab.worker()
    activation = await worker.activation()
    command = activation.success(activation.checkpoint("continue", {"state": 1}))
    (await activation.settle(command)).accepted()
    second = await worker.activation()
    assert (await activation.settle(command)).accepted()["already_accepted"]
    snapshot = (await lab.client.workflow_status(workflow["workflow_id"])).accepted()
    assert (snapshot["revision"], snapshot["activation_id"]) == (1, second.task_id)
    assert (await activation.settle(command)).accepted()["already_accepted"]
    await second.complete()
    await lab.client.workflow_until(workflow["workflow_id"], "succeeded", revision=2)
    await worker.nothing()


@scenario("activation/report-of-its-workflow", cites=["DLV-078", "DLV-335"])
async def test_report_of_its_workflow(lab: Lab) -> None:
    """A report repeats exactly the workflow attributes of its event: none left out, none added, none another."""
    worker, activation, child = await with_child(lab)
    own: dict[str, list[JsonValue]] = {"workflow_id": [None, lab.unique("wf")], "activation_id": [None, child.task_id]}
    lineage: dict[str, list[JsonValue]] = {
        name: [lab.unique("wf")] for name in ("parent_workflow_id", "root_workflow_id")
    }
    decision = activation.success(activation.decision("complete", output=None))
    for command, claim, members in (
        (decision, activation, {**own, **lineage}),
        (child.success("done"), child, {**own, **lineage, "activation_id": [child.task_id]}),
    ):
        for name, values in members.items():
            for value in values:
                with lab.case(f"{claim.task_id}: {name} {value!r}"):
                    (await claim.settle(edited(command, **{name: value}))).refused("conflict")
    assert (await child.succeed("done"))["task_state"] == "succeeded"
    await activation.complete("done")
    await worker.nothing()
