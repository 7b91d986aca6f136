"""Owned work beside public work, and reads that leave everything as it is (chapters 09 and 13)."""

from __future__ import annotations

import asyncio

COUNTS = (
    "select (select count(*) from obligation), (select sum(version) from workflow), (select sum(version) from task)"
)


async def test_reading_changes_nothing(flow, pool):
    """WF-041, WF-034, TASK-120: status and result of a waiting and of an ended workflow."""
    await flow.submit()
    run = await flow.start()
    await run.decide("wait", wait={"kind": "event", "key": "k", "timeout_ms": None})
    waiting = await flow.until(run.workflow_id, "waiting")
    await flow.settled()
    before = await pool.fetchrow(COUNTS)
    for _ in range(10):
        assert await flow.status(run.workflow_id) == waiting
        assert await flow.result(run.workflow_id) == {"workflow": waiting, "outcome": None}
    assert await pool.fetchrow(COUNTS) == before
    assert set(waiting) == {
        *("workflow_id", "scope", "state", "revision", "activation_id", "submitted_at", "terminal_at"),
        "correlation_key",
    }


async def test_owned_work_is_outside_the_public_keys(flow, staged):
    """WF-012, WF-011: whatever key a submission uses, it makes a root of its own and disturbs no child."""
    root = await flow.submit("root")
    run = await flow.start()
    await run.decide("suspend", commands=[staged("k", kind="workflow", data={"day": 1})], until=["k"])
    child = await flow.start("rates")
    for key in ("k", child.workflow_id, child.task_id, f"{root['workflow_id']}:k"):
        other = await flow.submit(key, program={"id": "rates", "version": "1"}, queue="rates", data={"day": 1})
        assert other["workflow_id"] not in (root["workflow_id"], child.workflow_id)
        assert "parent_workflow_id" not in other
        task = await flow.submit_task(key, program={"id": "rates", "version": "1"}, queue="rates")
        assert task["task_id"] != child.task_id
    await child.decide("complete", output=7)
    resumed = await flow.start()
    assert (await resumed.context())["inputs"]["k"]["workflow_id"] == child.workflow_id


async def test_children_need_no_worker(flow, staged):
    """CHD-028: nobody works on the queue of the children, and the parent runs on, and on."""
    await flow.submit()
    await (await flow.start()).decide("continue", commands=[staged("a"), staged("b", kind="workflow")])
    await (await flow.start()).decide("continue", commands=[staged("c")])
    run = await flow.start()
    assert (await run.context())["inputs"] == {}
    await run.decide("fail", error={"kind": "enough", "message": ""})


async def test_ended_children_make_room(flow, refused):
    """CHD-026, CHD-027: 64 live ones at a time, any number over time."""
    await flow.submit()
    run = await flow.start()
    await run.fork(*(f"a{n}" for n in range(64)))
    await run.decide("continue")
    run = await flow.start()
    assert await refused(run.fork("b0", key="g")) == "invalid_input"
    branches = [await flow.start("branches") for _ in range(64)]
    await asyncio.gather(*(branch.decide("complete", output=None) for branch in branches))
    await asyncio.gather(*(flow.until(branch.workflow_id) for branch in branches))
    receipt = await run.fork(*(f"b{n}" for n in range(64)), key="g")
    assert receipt["already_accepted"] is False


async def test_the_journal_asks_for_no_meaning(flow):
    """LOC-012: records of model operations and approved actions are records like others, under any key."""
    await flow.submit()
    run = await flow.start()
    for key in ("model:0", "approval/deploy", "ledgence.internal"):
        assert (await run.local(key, callable="ledgence.worker:anything"))["already_accepted"] is False
    assert len((await run.context())["local_steps"]) == 3
