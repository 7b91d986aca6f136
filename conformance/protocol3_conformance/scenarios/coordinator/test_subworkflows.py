"""Workflow children: lineage, results, depth, draining of trees (chapters 13 and 17)."""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.worker import Worker
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import same

SUB = "core subworkflows"


async def nest(parent: Activation, worker: Worker, key: str = "sub") -> tuple[Activation, Activation]:
    """Let the parent stage a workflow child on its own queue: (the parent's next activation, the child's first)."""
    await parent.go_on(commands=[parent.command(key, kind="workflow", queue=parent.lab.queue, data="of the child")])
    claims = [await worker.activation(), await worker.activation()]
    claims.sort(key=lambda claim: claim.workflow_id != parent.workflow_id)
    return claims[0], claims[1]


@scenario(
    "subworkflows/lineage",
    cites=["CHD-022", "WF-032", "ACT-006", "ACT-007", "WF-043", "CHD-002", "CHD-020"],
    profile=SUB,
)
async def test_lineage(lab: Lab) -> None:
    """A child names its parent and its root, a grandchild the same root; a root names neither."""
    correlation = lab.unique("tree")
    root = await lab.client.workflow(correlation_key=correlation)
    worker = await lab.worker()
    root_activation, child = await nest(await worker.activation(), worker)
    child_activation, grandchild = await nest(child, worker)
    assert "parent_workflow_id" not in root_activation.frozen
    assert (child.frozen["parent_workflow_id"], child.frozen["root_workflow_id"]) == (root["workflow_id"],) * 2
    assert grandchild.frozen["parent_workflow_id"] == child_activation.workflow_id
    assert grandchild.frozen["root_workflow_id"] == root["workflow_id"]
    assert (grandchild.frozen["continuation"], grandchild.frozen["revision"], grandchild.frozen["state"]) == (
        "start",
        0,
        None,
    )
    assert grandchild.event["ldgparentworkflowid"] == child.workflow_id
    assert grandchild.event["ldgrootworkflowid"] == root["workflow_id"]
    assert grandchild.event["data"] == "of the child"
    for activation in (child_activation, grandchild):
        status = (await lab.client.workflow_status(activation.workflow_id)).accepted()
        assert status["parent_workflow_id"] == activation.frozen["parent_workflow_id"]
        assert status["root_workflow_id"] == root["workflow_id"]
        assert status["correlation_key"] == correlation
        task = (await lab.client.status(activation.task_id)).accepted()
        assert (task["workflow_id"], task["workflow_activation_id"]) == (activation.workflow_id, activation.task_id)
    assert "parent_workflow_id" not in (await lab.client.workflow_status(root["workflow_id"])).accepted()
    await grandchild.go_on(commands=[grandchild.command("task")])
    task = (await (await lab.worker(queue=lab.child_queue)).claim()).event
    assert task["ldgworkflowid"] == grandchild.workflow_id
    lineage = (task.get("ldgparentworkflowid"), task.get("ldgrootworkflowid"))
    assert lineage == (child.workflow_id, root["workflow_id"])
    assert "ldgactivationid" not in task


@scenario(
    "subworkflows/terminal-outcome-counts",
    cites=["CHD-030", "CHD-031", "CHD-041", "CHD-035", "CHD-050", "WF-055"],
    profile=SUB,
)
async def test_terminal_outcome_counts(lab: Lab) -> None:
    """Only the child workflow's own end resolves the parent's wait, not an activation or checkpoint of it."""
    root = await lab.client.workflow()
    worker = await lab.worker()
    parent, child = await nest(await worker.activation(), worker)
    await child.go_on(state="before the wait")
    child = await worker.activation()
    await parent.suspend("sub")
    await lab.client.workflow_until(root["workflow_id"], "waiting")
    await child.go_on(state="checkpoint")
    later = await worker.activation()
    assert later.workflow_id == child.workflow_id, "a checkpoint of the child resumed the parent"
    assert (await lab.client.workflow_status(root["workflow_id"])).accepted()["state"] == "waiting"
    await later.complete({"rows": 1.0})
    resumed = await worker.activation()
    assert same(
        resumed.frozen["inputs"],
        {
            "sub": {
                "kind": "workflow",
                "workflow_id": child.workflow_id,
                "state": "succeeded",
                "outcome": {"kind": "succeeded", "output": {"rows": 1.0}},
            }
        },
    )
    child_end = (await lab.client.workflow_status(child.workflow_id)).accepted()["terminal_at"]
    assert (await lab.client.status(resumed.task_id)).accepted()["submitted_at"] >= child_end


@scenario("subworkflows/cancelled-child", cites=["CHD-036", "CHD-035", "WF-043", "CHD-040"], profile=SUB)
async def test_cancelled_child(lab: Lab) -> None:
    """A child cancelled through its own handle is a cancelled result to its parent."""
    await lab.client.workflow()
    worker = await lab.worker()
    parent, child = await nest(await worker.activation(), worker)
    await parent.suspend("sub")
    await lab.client.cancel_workflow(child.workflow_id)
    await child.succeed(None)
    resumed = await worker.activation()
    assert resumed.workflow_id == parent.workflow_id
    assert resumed.child("sub")["outcome"] == {"kind": "cancelled"}
    assert (await lab.client.workflow_status(parent.workflow_id)).accepted()["state"] == "running"


@scenario("subworkflows/unfinished", cites=["DEC-043", "DEC-040", "DRN-004", "DRN-007"], profile=SUB)
async def test_unfinished(lab: Lab) -> None:
    """`complete` beside a live workflow child is rejected; the child is cancelled and its parent fails."""
    await lab.client.workflow()
    worker = await lab.worker()
    parent, child = await nest(await worker.activation(), worker)
    await parent.complete("too early")
    failing = await lab.client.workflow_until(parent.workflow_id, "failing")
    assert failing["revision"] == 1
    await lab.client.workflow_until(child.workflow_id, "cancelling")
    await child.break_down()
    assert await lab.client.outcome_until(child.workflow_id, "cancelled") == {"kind": "cancelled"}
    outcome = await lab.client.outcome_until(parent.workflow_id, "failed")
    assert outcome["error"]["kind"] == "decision_application_failed"


@scenario("subworkflows/failing-child", cites=["DRN-004", "WF-061", "CHD-036"], profile=SUB)
async def test_failing_child(lab: Lab) -> None:
    """A child that is failing when its owner is cancelled becomes cancelling too, and its error is never told."""
    root = await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    _, child = await nest(await worker.activation(), worker)
    await child.go_on(commands=[child.command("held")])
    task = await children.running()
    await (await worker.activation()).fail("unbalanced")
    await lab.client.workflow_until(child.workflow_id, "failing")
    assert (await lab.client.cancel_workflow(root["workflow_id"])).accepted()["state"] == "cancelling"
    await lab.client.workflow_until(child.workflow_id, "cancelling")
    await task.break_down()
    assert await lab.client.outcome_until(child.workflow_id, "cancelled") == {"kind": "cancelled"}


@scenario("subworkflows/depth", cites=["CHD-025", "CHD-023", "LIM-020", "DEC-040"], profile=SUB)
async def test_depth(lab: Lab) -> None:
    """A tree may be 16 levels deep; the workflow at the bottom may own tasks but no workflow."""
    await lab.client.workflow()
    worker = await lab.worker()
    activation = await worker.activation()
    for _ in range(bound("WORKFLOW_DEPTH")):
        parent, child = await nest(activation, worker)
        await parent.suspend("sub")
        activation = child
    await activation.go_on(commands=[activation.command("task")])
    bottom = await worker.activation()
    await (await (await lab.worker(queue=lab.child_queue)).running()).succeed()
    await bottom.go_on(commands=[bottom.command("too deep", kind="workflow")])
    await lab.client.workflow_until(bottom.workflow_id, "failed")
    outcome = (await lab.client.workflow_result(bottom.workflow_id)).accepted()["outcome"]
    assert outcome["error"]["kind"] == "decision_application_failed"
    resumed = await worker.activation()
    assert resumed.child("sub")["state"] == "failed"


@scenario(
    "subworkflows/drained-tree",
    cites=["RACE-30", "DRN-003", "DRN-004", "DRN-005", "DRN-006", "DRN-013", "WF-060"],
    profile=SUB,
)
async def test_drained_tree(lab: Lab) -> None:
    """Cancelling the root cancels the whole tree; nothing ends before what it owns."""
    root = await lab.client.workflow()
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    root_activation, child = await nest(await worker.activation(), worker)
    await root_activation.suspend("sub")
    child_activation, grandchild = await nest(child, worker)
    await child_activation.go_on(commands=[child_activation.command("task")])
    task = await children.running()
    waiting = await worker.activation()
    await waiting.suspend("sub", "task")
    await grandchild.wait_event("never")
    await lab.client.workflow_until(grandchild.workflow_id, "waiting")
    await lab.client.workflow_until(child.workflow_id, "waiting")
    assert (await lab.client.cancel_workflow(root["workflow_id"])).accepted()["state"] == "cancelling"
    await lab.until(
        "the cancellation reaches the task at the bottom",
        lambda: lab.client.status(task.task_id),
        lambda seen: seen.accepted()["cancel_requested_at"] is not None,
        show=lambda seen: seen.value,
    )
    for workflow_id in (root["workflow_id"], child.workflow_id):
        snapshot = (await lab.client.workflow_status(workflow_id)).accepted()
        assert snapshot["state"] == "cancelling", "ended before the task it owns"
    await task.succeed("ignored")
    ends = {}
    for name, workflow_id in {
        "root": root["workflow_id"],
        "child": child.workflow_id,
        "grandchild": grandchild.workflow_id,
    }.items():
        ends[name] = (await lab.client.workflow_until(workflow_id, "cancelled"))["terminal_at"]
    task_end = (await lab.client.status(task.task_id)).accepted()["terminal_at"]
    assert ends["root"] >= ends["child"] >= max(ends["grandchild"], task_end)
    await worker.nothing()
