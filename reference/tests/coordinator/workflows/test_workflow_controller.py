"""Journal and forks on a running coordinator (chapters 11 and 14)."""

import asyncio

from protocol3.contract.strict_json import compact_size

TRACE = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}


async def test_records_belong_to_the_logical_activation(flow, refused):
    """LOC-001 to LOC-007, ACT-021, RACE-23 to RACE-25, REQ-A06."""
    await flow.submit()
    run = await flow.take()
    assert await refused(run.local()) == "ownership_lost"
    await run.dispatch()
    assert await run.local("b") == {"key": "b", "already_accepted": False}
    assert await run.local("a", input=None, output=None) == {"key": "a", "already_accepted": False}
    assert await run.local("b") == {"key": "b", "already_accepted": True}
    assert await refused(run.local("b", output=1.08)) == "conflict"
    journal = (await run.context())["local_steps"]
    assert [step["key"] for step in journal] == ["a", "b"]
    await run.settle(error="runtime")

    again = await flow.take()
    assert again.task_id == run.task_id
    assert (await again.context())["local_steps"] == journal
    assert await refused(again.local("b")) == "ownership_lost"
    await again.dispatch()
    assert await again.local("b") == {"key": "b", "already_accepted": True}
    assert await refused(run.local("c")) == "ownership_lost"
    assert await refused(run.local("b", output=9)) == "conflict"
    assert await run.local("b") == {"key": "b", "already_accepted": True}
    await again.decide("continue")

    later = await flow.start()
    assert (await later.context())["local_steps"] == []
    assert await later.local("b", output="another") == {"key": "b", "already_accepted": False}
    await later.decide("complete", output=1)
    await flow.until(run.workflow_id)
    assert await run.local("b") == {"key": "b", "already_accepted": True}
    assert await refused(run.context()) == "ownership_lost"


async def test_ordinary_tasks_have_no_journal(flow, refused):
    """LOC-004 step 4, ACT-024: an ordinary task id is ownership_lost, another scope is 404."""
    await flow.submit_task(queue="plain")
    plain = await flow.start("plain")
    assert await refused(plain.local()) == "ownership_lost"
    assert await refused(plain.context()) == "ownership_lost"
    await flow.submit()
    run = await flow.start()
    elsewhere = {"tenant_id": "t", "namespace": "elsewhere"}
    assert await refused(run.context(scope=elsewhere)) == "not_found"
    assert await refused(run.context(task_id="task_unknown", scope=elsewhere)) == "ownership_lost"


async def test_a_rejected_record_uses_no_budget(flow, refused):
    """LOC-009, LIM-012, LIM-020: the ledger is full to the byte, for all attempts together."""
    await flow.submit()
    run = await flow.start()
    frame = compact_size({"key": "0", "callable": "books:fx", "input": None, "output": ""})
    half = 131_072 - frame
    await run.local("0", input=None, output="x" * half)
    rest = half - 3  # two brackets and a comma
    assert await refused(run.local("1", input=None, output="x" * (rest + 1))) == "invalid_input"
    assert await run.local("1", input=None, output="x" * rest) == {"key": "1", "already_accepted": False}
    assert await refused(run.local("2", callable="b", input=None, output=None)) == "invalid_input"
    assert compact_size((await run.context())["local_steps"]) == 262_144


async def test_concurrent_records_of_one_activation(flow, still, pool):
    """LOC-011: two processes, one winner per key, and no lost update of the ledger."""
    await flow.submit()
    run = await flow.start()
    other = type(run)(flow=still, assignment=run.assignment)
    commits = [source.local(f"k{n}") for n in range(12) for source in (run, other)]
    receipts = await asyncio.gather(*commits)
    for n in range(12):
        accepted = sorted(r["already_accepted"] for r in receipts if r["key"] == f"k{n}")
        assert accepted == [False, True]
    row = await pool.fetchrow("select local_count, local_bytes from activation where task_id = $1", run.task_id)
    steps = (await run.context())["local_steps"]
    assert (row["local_count"], row["local_bytes"]) == (12, sum(compact_size(step) for step in steps))


async def test_branches_run_while_the_parent_does(flow, refused):
    """FRK-001 to FRK-005, FRK-018 to FRK-020, RACE-26, REQ-C12: fork, crash, replay, join."""
    root = await flow.submit()
    run = await flow.take()
    assert await refused(run.fork("a", "b")) == "ownership_lost"
    await run.dispatch()
    receipt = {"key": "f", "branch_keys": ["a", "b"], "already_accepted": False}
    assert await run.fork("a", "b", trace=TRACE) == receipt
    assert await flow.status(root["workflow_id"]) == root
    first = await flow.start("branches")
    context = await first.context()
    assert (context["continuation"], context["state"], context["revision"]) == ("double", None, 0)
    assert context["parent_workflow_id"] == context["root_workflow_id"] == root["workflow_id"]
    assert first.event["data"] == {"n": 1}
    assert first.event["traceparent"] == TRACE["traceparent"]
    assert first.assignment["descriptor"] == run.assignment["descriptor"]
    await first.decide("complete", output=2)
    await run.settle(error="runtime")

    again = await flow.start()
    assert await again.fork("a", "b") == receipt | {"already_accepted": True}
    assert await refused(again.fork("b", "a")) == "conflict"
    assert await refused(again.fork("a", "c", key="g")) == "conflict"
    await again.decide("suspend", until=["a", "b"])
    second = await flow.start("branches")
    await second.decide("fail", error={"kind": "odd", "message": ""})
    joined = await flow.start()
    inputs = (await joined.context())["inputs"]
    assert list(inputs) == ["a", "b"]
    assert {inputs[key]["workflow_id"]: inputs[key]["state"] for key in inputs} == {
        first.workflow_id: "succeeded",
        second.workflow_id: "failed",
    }
    assert await joined.fork("a", "b") == receipt | {"already_accepted": True}
    await joined.decide("complete", output=None)
    await flow.until(root["workflow_id"])
    assert await run.fork("a", "b") == receipt | {"already_accepted": True}
    assert await flow.nothing("branches")


async def test_concurrent_identical_forks_create_one_set(flow, still, pool):
    """FRK-016, FRK-002: through two processes."""
    root = await flow.submit()
    run = await flow.start()
    other = type(run)(flow=still, assignment=run.assignment)
    receipts = await asyncio.gather(*(source.fork("a", "b", "c") for source in (run, other, run, other)))
    assert sorted(receipt["already_accepted"] for receipt in receipts) == [False, True, True, True]
    assert await pool.fetchval("select count(*) from workflow where parent_id = $1", root["workflow_id"]) == 3


async def test_a_command_never_adopts_a_branch_nor_a_fork_a_child(flow, refused, staged):
    """CHD-013, FRK-012, CHD-010, FRK-006: fork keys are a namespace of their own."""
    root = await flow.submit()
    run = await flow.start()
    program = {"id": "books", "version": "1"}
    await run.fork("a", key="shared")
    await run.decide("continue", commands=[staged("shared")])
    second = await flow.start()
    assert await refused(second.fork("shared", key="g")) == "conflict"
    branch = staged("a", kind="workflow", program=program, queue="branches", data={"n": 1})
    await second.decide("continue", commands=[branch])
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "decision_application_failed"


async def test_budgets_span_forks_commands_and_attempts(flow, refused, staged):
    """CHD-023, CHD-024, FRK-010 step 8, FRK-011, FRK-017."""
    root = await flow.submit()
    run = await flow.start()
    await run.fork(*(f"b{n}" for n in range(60)))
    assert await refused(run.fork(*(f"c{n}" for n in range(5)), key="g")) == "invalid_input"
    await run.settle(error="runtime")
    again = await flow.start()
    assert (await again.fork(*(f"b{n}" for n in range(60))))["already_accepted"]
    await again.decide("continue", commands=[staged(f"t{n}") for n in range(4)])
    second = await flow.start()
    assert (await second.context())["revision"] == 1
    assert await refused(second.fork(*(f"c{n}" for n in range(5)), key="g")) == "invalid_input"
    await second.fork(*(f"c{n}" for n in range(4)), key="g")
    await second.decide("continue", commands=[staged("w", kind="workflow")])
    assert (await flow.until(root["workflow_id"], "failing", "failed"))["revision"] == 1


async def test_a_live_slot_is_free_the_moment_a_child_ended(flow, still, refused):
    """CHD-026, RACE-29: 64 live branches; one ends, and nobody told the parent yet."""
    await still.submit()
    run = await still.start()
    await run.fork(*(f"b{n:02}" for n in range(64)))
    await run.settle(error="runtime")
    parent = await still.start()
    assert await refused(parent.fork("extra", key="g")) == "invalid_input"
    await parent.decide("continue")
    async with asyncio.timeout(20):
        await flow.services.pool.execute("update obligation set ready_real = 0")
        second = await flow.start()
    assert await refused(second.fork("extra", key="g")) == "invalid_input"
    branch = await still.start("branches")
    await flow.cancel(branch.workflow_id)
    await branch.settle(error="runtime")
    await flow.until(branch.workflow_id)
    assert (await second.fork("extra", key="g"))["already_accepted"] is False
