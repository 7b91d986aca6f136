"""Cancelling, failing and draining on a running coordinator (chapters 09 and 17)."""


async def ended_at(flow, run_or_id):
    return (await flow.status(run_or_id))["terminal_at"]


async def test_cancel_ends_a_workflow_with_nothing_to_drain(flow, refused):
    """WF-060, WF-062, T9, T11: through cancelling; repeated and late requests change nothing."""
    root = await flow.submit()
    cancelling = await flow.cancel(root["workflow_id"])
    assert (cancelling["state"], cancelling["activation_id"]) == ("cancelling", root["activation_id"])
    ended = await flow.until(root["workflow_id"])
    assert (ended["state"], ended["revision"], ended["activation_id"]) == ("cancelled", 0, None)
    assert await flow.cancel(root["workflow_id"]) == ended
    assert await flow.outcome(root["workflow_id"]) == {"kind": "cancelled"}
    assert (await flow.task(root["activation_id"]))["state"] == "cancelled"
    assert await flow.nothing()
    await flow.settled()
    assert await flow.owed() == 0


async def test_a_running_activation_loses_its_authority_at_once(flow, refused):
    """DRN-008, DRN-009, DRN-013, FRK-013, LOC-005, RACE-22, RACE-27."""
    root = await flow.submit()
    run = await flow.start()
    await run.local("a")
    await run.fork("b")
    await flow.cancel(root["workflow_id"])
    for call in (run.context(), run.local("new"), run.fork("c", key="g")):
        assert await refused(call) == "ownership_lost"
    assert (await run.local("a"))["already_accepted"]
    assert (await run.fork("b"))["already_accepted"]
    assert (await flow.result(root["workflow_id"]))["outcome"] is None
    await flow.settled()
    decision = {"v": 1, "activation_id": run.task_id, "revision": 0, "kind": "complete", "output": 1}
    assert (await run.succeed(decision))["task_state"] == "cancelled"
    ended = await flow.until(root["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("cancelled", 0)
    assert (await run.fork("b"))["already_accepted"]


async def test_a_failing_parent_cancels_what_it_owns(flow, staged):
    """DRN-003, DRN-004, DRN-006, DRN-007, DEC-052, RACE-28: children end cancelled, the parent failed, in order."""
    root = await flow.submit(retry_policy={"max_attempts": 1, "retry_delay_ms": 0})
    run = await flow.start()
    await run.fork("branch")
    branch = await flow.start("branches")
    await run.settle(error="runtime")
    assert (await flow.until(root["workflow_id"], "failing"))["activation_id"] == run.task_id
    assert (await flow.until(branch.workflow_id, "cancelling"))["parent_workflow_id"] == root["workflow_id"]
    assert (await flow.result(root["workflow_id"]))["outcome"] is None
    await branch.settle(error="runtime")
    assert (await flow.until(root["workflow_id"]))["state"] == "failed"
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "workflow_activation_failed"
    assert await flow.outcome(branch.workflow_id) == {"kind": "cancelled"}
    assert await ended_at(flow, root["workflow_id"]) >= await ended_at(flow, branch.workflow_id)


async def test_cancel_of_a_failing_workflow_ends_cancelled(flow):
    """WF-061, RACE-10, RACE-11: and a late failure of its activation changes nothing."""
    root = await flow.submit()
    run = await flow.start()
    await run.fork("branch")
    branch = await flow.start("branches")
    await run.settle({"status": "failure", "kind": "k", "message": "m"})
    await flow.until(root["workflow_id"], "failing")
    assert (await flow.cancel(root["workflow_id"]))["state"] == "cancelling"
    await branch.settle(error="runtime")
    assert (await flow.until(root["workflow_id"]))["state"] == "cancelled"


async def test_a_whole_tree_ends_from_the_leaves(flow, staged):
    """RACE-30, DRN-004, DRN-006: a grandchild in a wait, a running task of the child."""
    root = await flow.submit()
    child_command = staged("child", kind="workflow", queue="children")
    await (await flow.start()).decide("suspend", commands=[child_command], until=["child"])
    child = await flow.start("children")
    commands = [
        staged("grand", kind="workflow", queue="grand"),
        staged("task", queue="tasks"),
        staged("idle", queue="idle"),
    ]
    await child.decide("suspend", commands=commands, until=["grand", "task"])
    grand = await flow.start("grand")
    await grand.decide("wait", wait={"kind": "timer", "key": "nap", "delay_ms": 3_600_000})
    await flow.until(grand.workflow_id, "waiting")
    task = await flow.start("tasks")
    await flow.cancel(root["workflow_id"])
    grand_end = (await flow.until(grand.workflow_id))["terminal_at"]
    assert (await flow.status(root["workflow_id"]))["state"] == "cancelling"
    assert (await flow.status(child.workflow_id))["state"] == "cancelling"
    await task.succeed("ignored")
    root_end = (await flow.until(root["workflow_id"]))["terminal_at"]
    child_status = await flow.status(child.workflow_id)
    task_status = await flow.task(task.task_id)
    assert (child_status["state"], task_status["state"]) == ("cancelled", "cancelled")
    assert root_end >= child_status["terminal_at"] >= max(grand_end, task_status["terminal_at"])
    assert await flow.nothing("idle")
    await flow.settled()
    assert await flow.owed() == 0
    assert await flow.services.pool.fetchval("select count(*) from agenda where ref = $1", grand.workflow_id) == 0


async def test_a_drain_of_more_than_one_pass(flow, staged):
    """DRN-012: forty queued tasks and branches end without anybody working on them."""
    root = await flow.submit()
    run = await flow.start()
    await run.fork(*(f"b{n}" for n in range(20)))
    await run.decide("continue", commands=[staged(f"t{n}") for n in range(20)])
    second = await flow.start()
    await second.decide("fail", error={"kind": "k", "message": ""})
    assert (await flow.until(root["workflow_id"]))["state"] == "failed"
    pool = flow.services.pool
    text = "select count(*) from workflow where parent_id = $1 and state = 'cancelled'"
    assert await pool.fetchval(text, root["workflow_id"]) == 20
    text = "select count(*) from task where workflow_id = $1 and state = 'cancelled'"
    assert await pool.fetchval(text, root["workflow_id"]) == 20


async def test_children_that_ended_keep_their_end(flow, staged):
    """DRN-005."""
    root = await flow.submit()
    run = await flow.start()
    await run.fork("a")
    branch = await flow.start("branches")
    await branch.decide("complete", output=1)
    await flow.until(branch.workflow_id)
    await flow.cancel(root["workflow_id"])
    await run.settle(error="runtime")
    await flow.until(root["workflow_id"])
    assert await flow.outcome(branch.workflow_id) == {"kind": "succeeded", "output": 1}


async def test_pending_events_are_dropped_and_their_receipts_stay(flow, refused):
    """DRN-001, EVT-012, RACE-20, WF-064."""
    root = await flow.submit()
    sent = await flow.send(root["workflow_id"], "early")
    await flow.cancel(root["workflow_id"])
    assert await refused(flow.send(root["workflow_id"], "late")) == "obsolete_operation"
    await flow.until(root["workflow_id"])
    assert await flow.send(root["workflow_id"], "early") == sent | {"already_accepted": True}
    row = await flow.services.pool.fetchrow(
        "select inbox_count, inbox_bytes from workflow where id = $1", root["workflow_id"]
    )
    assert tuple(row) == (0, 0)


async def test_complete_with_live_children_fails_and_drains_them(flow, staged):
    """DEC-043, DEC-040."""
    root = await flow.submit()
    await (await flow.start()).decide("continue", commands=[staged("a")])
    await (await flow.start()).decide("complete", output=1)
    ended = await flow.until(root["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("failed", 1)
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "decision_application_failed"
    assert await flow.nothing("rates")
