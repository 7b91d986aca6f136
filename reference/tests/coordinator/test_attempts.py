"""Renewals, settlements, expiry and retries on a real database (chapter 07)."""

from __future__ import annotations

import asyncio

import pytest

from protocol3.contract.models.delivery import OpenSession, SettleCommand

RETRY = {"max_attempts": 2, "retry_delay_ms": 0}


async def claimed(client, **input):
    task_id = (await client.submit(**input))["task_id"]
    session = await client.open()
    return task_id, session, await client.assignment(session)


async def test_renewals(client, refused):
    """DLV-056, DLV-057, DLV-061: replays change nothing, keep-alives add no history."""
    task_id, _, assignment = await claimed(client)
    first = await client.renew(assignment, 1, "keep_alive")
    assert await refused(client.renew(assignment, 1, "dispatch")) == "conflict"
    replay = await client.renew(assignment, 1, "keep_alive")
    assert replay["expires_at"] == first["expires_at"]
    assert replay["remaining_ms"] <= first["remaining_ms"]
    assert await client.reasons(task_id) == ["submitted", "claimed"]
    await client.renew(assignment, 2, "dispatch")
    await client.renew(assignment, 3, "dispatch")
    assert await client.reasons(task_id) == ["submitted", "claimed", "dispatch_authorized"]  # DLV-059
    assert await refused(client.renew(assignment, 2, "dispatch")) == "obsolete_operation"
    assert await refused(client.renew(assignment, 5, "dispatch")) == "out_of_order"


@pytest.mark.parametrize(
    ("owner", "code"),
    [
        ({"worker_session_id": "ws_none"}, "unknown_session"),
        ({"worker_session_id": "another"}, "ownership_lost"),
        ({"lease_id": "other"}, "ownership_lost"),
        ({"generation": 2}, "ownership_lost"),
        ({"consumer_id": 1}, "ownership_lost"),
        ({"task_id": "other"}, "ownership_lost"),
        ({"attempt_id": "other"}, "ownership_lost"),
        ({"scope": {"tenant_id": "t", "namespace": "never used"}}, "not_found"),
    ],
)
async def test_renewal_by_another_owner(client, refused, owner, code):
    """DLV-055."""
    _, _, assignment = await claimed(client)
    if owner.get("worker_session_id") == "another":
        owner = {"worker_session_id": await client.open()}
    assert await refused(client.renew(assignment, **owner)) == code


async def test_an_owner_named_in_another_scope(client, refused):
    """DLV-055, chapter 07: a scope that is in use as well; the attempt is not in it."""
    _, _, assignment = await claimed(client)
    other = {"tenant_id": "t", "namespace": "another"}
    command = OpenSession.from_json({"scope": other, "queue": "q", "concurrency": 1})
    await client.send("open_session", command)
    owner = assignment["lease"]["owner"] | {"scope": other}
    assert await refused(client.renew(assignment, scope=other)) == "not_found"
    assert await refused(client.settle(assignment, owner=owner)) == "not_found"
    assert await refused(client.confirm(assignment, scope=other)) == "not_found"
    assert (await client.renew(assignment))["dispatch_allowed"]


async def test_expired_session(client, refused):
    """Chapter 07, Renewal, DLV-005, DLV-080: no renewal, no extension, no poll; settlement asks no session."""
    _, session, assignment = await claimed(client)
    await client.expire_session(session)
    assert await refused(client.renew(assignment)) == "session_expired"
    assert await refused(client.extend(session)) == "session_expired"
    assert await refused(client.poll(session, 1)) == "session_expired"
    assert (await client.settle(assignment))["task_state"] == "succeeded"


async def test_unknown_session(client, refused):
    """DLV-005."""
    assert await refused(client.extend("ws_none")) == "unknown_session"
    assert await refused(client.poll("ws_none", 0)) == "unknown_session"


async def test_extension_moves_no_lease(client):
    """DLV-004, DLV-006."""
    task_id, session, assignment = await claimed(client)
    earlier = "update session set expires_at = expires_at - 1000, version = version + 1 where id = $1"
    await client.services.pool.execute(earlier, session)
    extended = await client.extend(session)
    assert (extended["id"], extended["queue"], extended["scope"]) == (session, "q", client.scope)
    owner = assignment["lease"]["owner"]
    seen = await client.read("inspect_attempt", task_id, attempt_id=owner["attempt_id"])
    assert seen["lease"] == assignment["lease"]


async def test_settlement_replays(client, refused, report):
    """DLV-074 to DLV-076: after the end, after expiry, during a later attempt; the current state."""
    _, session, first = await claimed(client, retry_policy=RETRY)
    accepted = await client.settle(first, report.failed("io"))
    assert (accepted["already_accepted"], accepted["task_state"]) == (False, "queued")
    second = await client.assignment(session, 2)
    replay = await client.settle(first, report.failed("io"))
    assert replay == accepted | {"already_accepted": True, "task_state": "active"}
    assert await refused(client.settle(first, report.failed("io"), operation_id="other")) == "conflict"
    await client.settle(second)
    assert (await client.settle(first, report.failed("io")))["task_state"] == "succeeded"


async def test_concurrent_identical_settlements(client):
    """DLV-074: accepted once, one receipt."""
    task_id, _, assignment = await claimed(client)
    replies = await asyncio.gather(*(client.settle(assignment) for _ in range(6)))
    assert sorted(reply["already_accepted"] for reply in replies) == [False] + [True] * 5
    assert len({reply["receipt"]["accepted_at"] for reply in replies}) == 1
    assert (await client.reasons(task_id)).count("report_accepted") == 1


@pytest.mark.parametrize(
    ("owner", "code"),
    [
        ({"task_id": "other"}, "not_found"),
        ({"attempt_id": "other"}, "not_found"),
        ({"scope": {"tenant_id": "t", "namespace": "never used"}}, "not_found"),
        ({"lease_id": "other"}, "ownership_lost"),
    ],
)
async def test_settlement_and_confirmation_by_another_owner(client, refused, owner, code):
    """Chapter 07."""
    _, _, assignment = await claimed(client)
    command = client.settlement(assignment)
    assert await refused(client.settle(assignment, owner=command["owner"] | owner)) == code
    assert await refused(client.confirm(assignment, **owner)) == code


async def test_unconfirmed_then_confirmed(client, refused):
    """DLV-084, DLV-100, DLV-101, DLV-104, TASK-065."""
    task_id, session, assignment = await claimed(client)
    assert await refused(client.confirm(assignment)) == "invalid_input"  # DLV-102
    assert (await client.settle(assignment, quiescence="unconfirmed"))["task_state"] == "active"
    assert (await client.read("task_result", task_id))["outcome"] is None  # TASK-125
    assert await refused(client.poll(session, 2)) == "busy"
    assert (await client.renew(assignment))["dispatch_allowed"] is False  # DLV-063
    assert await client.confirm(assignment) == "succeeded"
    assert await client.confirm(assignment) == "succeeded"
    assert (await client.read("task_result", task_id))["outcome"]["quiescence"] == "confirmed"
    seen = await client.read("inspect_attempt", task_id, attempt_id=assignment["lease"]["owner"]["attempt_id"])
    assert seen["settlement"]["command"]["quiescence"] == "unconfirmed"
    assert await client.reasons(task_id) == [
        "submitted",
        "claimed",
        "report_accepted",
        "cleanup_confirmed",
        "succeeded",
    ]


async def test_unconfirmed_then_expired(client, refused):
    """DLV-114, DLV-103, DLV-075."""
    task_id, _, assignment = await claimed(client)
    await client.settle(assignment, quiescence="unconfirmed")
    await client.age(task_id, 60_000)
    assert await refused(client.confirm(assignment)) == "ownership_lost"
    await client.recover(task_id)
    outcome = (await client.read("task_result", task_id))["outcome"]
    assert (outcome["kind"], outcome["quiescence"], outcome["output"]) == ("succeeded", "unconfirmed", "done")
    assert await client.reasons(task_id) == ["submitted", "claimed", "report_accepted", "lease_expired", "succeeded"]
    assert await refused(client.confirm(assignment)) == "ownership_lost"
    assert (await client.settle(assignment, quiescence="unconfirmed"))["already_accepted"] is True


async def test_lost_attempts(client, refused):
    """DLV-077, DLV-110 to DLV-113, DLV-119: lost, retried, lost, failed."""
    task_id, session, assignment = await claimed(client, retry_policy=RETRY)
    await client.age(task_id, 60_000)
    assert await refused(client.settle(assignment)) == "ownership_lost"
    assert await refused(client.renew(assignment)) == "ownership_lost"
    lost = await client.poll(session, 1)
    assert (lost["disposition"], lost["assignment"]["task_id"]) == ("ownership_lost", task_id)
    assert (await client.poll(session, 2))["disposition"] == "empty"  # DLV-017, DLV-113
    await client.recover(task_id)
    second = await client.assignment(session, 3)
    assert second["event"]["ldgattemptno"] == 2
    assert second["event"]["ldgrunid"] == assignment["event"]["ldgrunid"]  # DLV-043
    assert second["event"]["id"] != assignment["event"]["id"]
    await client.renew(second)
    await client.age(task_id, 60_000)
    await client.recover(task_id)
    outcome = (await client.read("task_result", task_id))["outcome"]
    assert (outcome["failure"], outcome["execution_may_have_started"]) == ({"kind": "attempt_lost"}, True)  # TASK-063
    assert await client.reasons(task_id) == [
        *("submitted", "claimed", "lease_expired", "retry_scheduled"),
        *("claimed", "dispatch_authorized", "lease_expired", "failed"),
    ]


async def test_a_renewed_lease_outlives_its_agenda_entry(client):
    """DLV-110: the entry was early; it moves, and the attempt lives on."""
    task_id, _, assignment = await claimed(client)
    await client.renew(assignment)
    await client.recover(task_id)
    assert (await client.read("task_status", task_id))["state"] == "active"
    pool, owner = client.services.pool, assignment["lease"]["owner"]
    due = await pool.fetchval("select due from agenda where ref = $1", task_id)
    assert due == await pool.fetchval("select lease_expires_at from attempt where id = $1", owner["attempt_id"])


async def test_the_loop_rises_for_an_entry_that_comes_sooner(client):
    """DLV-110: it sleeps until the next due instant and is told of an earlier one."""
    task_id, _, _ = await claimed(client)
    await client.age(task_id, 59_950)
    pool = client.services.pool
    due = await pool.fetchval("update agenda set due = due - 59950 where ref = $1 returning due", task_id)
    client.services.agenda.ring(due)
    async with asyncio.timeout(20):
        while (await client.read("task_status", task_id))["state"] == "active":
            await asyncio.sleep(0.005)
    assert (await client.reasons(task_id))[-2:] == ["lease_expired", "retry_scheduled"]


async def test_failures(client, report):
    """Chapter 07, What a report decides: retried, permanent, the program's own."""
    task_id, session, assignment = await claimed(client, retry_policy={"max_attempts": 3, "retry_delay_ms": 0})
    assert (await client.settle(assignment, report.failed("cancelled")))["task_state"] == "queued"
    assert (await client.read("task_result", task_id))["outcome"] is None  # TASK-126
    second = await client.assignment(session, 2)
    assert (await client.settle(second, report.failed("integrity", started=False)))["task_state"] == "failed"
    outcome = (await client.read("task_result", task_id))["outcome"]
    assert outcome["failure"]["error"] == {"kind": "integrity", "message": "why"}
    assert outcome["execution_may_have_started"] is False
    own = await client.submit("own")
    third = await client.assignment(session, 3)
    failure = {"status": "failure", "kind": "\u0000any", "message": ""}
    assert (await client.settle(third, report.completed(failure)))["task_state"] == "failed"
    outcome = (await client.read("task_result", own["task_id"]))["outcome"]
    assert outcome["failure"] == {"kind": "application", "error": {"kind": "\u0000any", "message": ""}}  # DLV-072


async def test_trace_is_carried_and_echoed(client, refused):
    """DLV-044, DLV-079."""
    trace = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "a=1"}
    await client.submit(trace=trace)
    assignment = await client.assignment(await client.open())
    assert {name: assignment["event"][name] for name in trace} == trace
    command = client.settlement(assignment)
    del command["report"]["report"]["traceparent"]
    assert await refused(client.send("settle", SettleCommand.from_json(command))) == "conflict"
    assert (await client.settle(assignment))["task_state"] == "succeeded"
