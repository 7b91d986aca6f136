"""Cancellation on a real database (chapter 06, Cancellation)."""

from __future__ import annotations

import asyncio


async def test_queued(client):
    """TASK-200, TASK-204."""
    task_id = (await client.submit())["task_id"]
    assert await client.cancel(task_id) == "cancelled"
    before = await client.read("task_status", task_id)
    assert await client.cancel(task_id) == "cancelled"
    assert await client.read("task_status", task_id) == before
    assert (await client.read("task_result", task_id))["outcome"] == {"kind": "cancelled"}
    assert (await client.poll(await client.open()))["disposition"] == "empty"  # TASK-206


async def test_active_then_reported(client):
    """TASK-202, TASK-206, DLV-060: the worker learns of it, its success is not shown."""
    task_id = (await client.submit())["task_id"]
    assignment = await client.assignment(await client.open())
    assert await client.cancel(task_id) == "active"
    assert await client.cancel(task_id) == "active"
    authority = await client.renew(assignment)
    assert (authority["cancel_requested"], authority["dispatch_allowed"]) == (True, False)
    assert authority["remaining_ms"] <= 30_000  # DLV-065
    assert (await client.settle(assignment))["task_state"] == "cancelled"
    assert (await client.read("task_result", task_id))["outcome"] == {"kind": "cancelled"}
    assert await client.reasons(task_id) == [
        *("submitted", "claimed", "cancel_requested", "report_accepted", "cancelled")
    ]


async def test_active_then_left_alone(client):
    """TASK-207, DLV-110: the entry moves to the cap, the loop ends the attempt."""
    task_id = (await client.submit())["task_id"]
    assignment = await client.assignment(await client.open())
    await client.cancel(task_id)
    due = await client.services.pool.fetchval("select due from agenda where ref = $1", task_id)
    assert due <= assignment["authority"]["expires_at"] - 29_000
    await client.age(task_id, 30_000)
    await client.recover(task_id)
    assert await client.reasons(task_id) == ["submitted", "claimed", "cancel_requested", "lease_expired", "cancelled"]


async def test_expired_and_unrecovered(client):
    """TASK-210: three records with one instant, an unconfirmed success included."""
    task_id = (await client.submit())["task_id"]
    assignment = await client.assignment(await client.open())
    await client.settle(assignment, quiescence="unconfirmed")
    await client.age(task_id, 60_000)
    assert await client.cancel(task_id) == "cancelled"
    history = await client.read("task_history", task_id)
    assert [record["event"]["reason"] for record in history[-3:]] == ["cancel_requested", "lease_expired", "cancelled"]
    assert len({record["event"]["at"] for record in history[-3:]}) == 1
    assert await client.services.pool.fetchval("select count(*) from agenda where ref = $1", task_id) == 0


async def test_cancel_against_settlement(client):
    """TASK-209: whichever commits first decides; exactly one terminal record."""

    async def race(n: int) -> list[str]:
        task_id = (await client.submit(f"k{n}", queue=f"q{n}"))["task_id"]
        lane = await client.open(queue=f"q{n}")
        assignment = await client.assignment(lane, queue=f"q{n}")
        state, reply = await asyncio.gather(client.cancel(task_id), client.settle(assignment))
        reasons = await client.reasons(task_id)
        assert (state, reply["task_state"]) in {("active", "cancelled"), ("succeeded", "succeeded")}
        assert reasons[-1] == reply["task_state"]
        return [reason for reason in reasons if reason in ("succeeded", "failed", "cancelled")]

    assert all(len(terminal) == 1 for terminal in await asyncio.gather(*(race(n) for n in range(12))))
