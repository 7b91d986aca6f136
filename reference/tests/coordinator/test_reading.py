"""Task reads (chapter 06, Reads)."""

from __future__ import annotations

import pytest

READS = ["inspect_task", "task_status", "task_result", "task_history"]


@pytest.mark.parametrize("read", [*READS, "inspect_attempt"])
@pytest.mark.parametrize("where", ["unknown id", "other scope", "unknown scope"])
async def test_not_found(client, refused, read, where):
    """TASK-050, TASK-121: by scope and id together."""
    more = {"attempt_id": "att"} if read == "inspect_attempt" else {}
    task_id = (await client.submit())["task_id"]
    if where == "other scope":
        await client.submit(namespace="elsewhere")
        client.scope = client.scope | {"namespace": "elsewhere"}
    if where == "unknown scope":
        client.scope = client.scope | {"namespace": "never used"}
    call = client.read(read, "task_none" if where == "unknown id" else task_id, **more)
    assert await refused(call) == "not_found"


async def test_reads_create_nothing(client, refused):
    """TASK-120: not even the scope."""
    for read in READS:
        await refused(client.read(read, "task_none"))
    assert (await client.list()) == {"items": [], "next_cursor": None}  # DISC-010
    await refused(client.cancel("task_none"))
    text = "select count(*) from scope where namespace = $1"
    assert await client.services.pool.fetchval(text, client.scope["namespace"]) == 0


async def test_an_attempt_of_another_task(client, refused):
    """TASK-122."""
    await client.submit("one")
    other = await client.submit("two")
    assignment = await client.assignment(await client.open())
    attempt_id = assignment["lease"]["owner"]["attempt_id"]
    assert await refused(client.read("inspect_attempt", other["task_id"], attempt_id=attempt_id)) == "not_found"


async def test_past_attempts_stay_inspectable(client, report):
    """TASK-123: after a later attempt and after the end; with the event as it was assigned (DLV-045)."""
    task_id = (await client.submit(retry_policy={"max_attempts": 2, "retry_delay_ms": 0}, data=[1, 1.0]))["task_id"]
    session = await client.open()
    assignments = []
    for number, said in ((1, report.failed("io")), (2, None)):
        assignments.append(await client.assignment(session, number))
        await client.renew(assignments[-1])
        await client.settle(assignments[-1], said)
    for assignment, state in zip(assignments, ("failed", "succeeded"), strict=True):
        owner = assignment["lease"]["owner"]
        seen = await client.read("inspect_attempt", task_id, attempt_id=owner["attempt_id"])
        assert seen["event"] == assignment["event"]
        assert (seen["state"], seen["lease"]["owner"]) == (state, owner)
        assert seen["last_renewal"] == {"owner": owner, "sequence": 1, "intent": "dispatch"}
        assert seen["settlement"]["receipt"]["attempt_id"] == owner["attempt_id"]


async def test_an_expired_attempt_reads_as_active(client):
    """TASK-120, DISC-021, DLV-113: until recovery commits."""
    task_id = (await client.submit())["task_id"]
    await client.assignment(await client.open())
    await client.age(task_id, 60_000)
    assert (await client.read("task_status", task_id))["state"] == "active"
    assert (await client.read("task_result", task_id))["outcome"] is None
    assert [item["state"] for item in (await client.list())["items"]] == ["active"]
    assert await client.reasons(task_id) == ["submitted", "claimed"]


async def test_history_is_paged(client):
    """TASK-131, TASK-132: at most 100 records, ascending, without gaps; an empty page is a success."""
    task_id = (await client.submit(retry_policy={"max_attempts": 40, "retry_delay_ms": 0}))["task_id"]
    session = await client.open()
    for number in range(1, 36):
        await client.assignment(session, number)
        await client.age(task_id, 60_000)
        await client.recover(task_id)
    first = await client.read("task_history", task_id)
    rest = await client.read("task_history", task_id, after_sequence=100)
    assert [record["sequence"] for record in first + rest] == list(range(1, 107))
    assert len(first) == 100
    assert {record["event"]["task_id"] for record in first} == {task_id}
    for beyond in (106, 2**31, 2**64 - 1):
        assert await client.read("task_history", task_id, after_sequence=beyond) == []
