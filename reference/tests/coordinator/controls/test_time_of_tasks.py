"""Rules of tasks and delivery that wait, in virtual time, to the millisecond: the database's own clock stands still."""

from __future__ import annotations

import asyncio

import pytest

RETRY = {"max_attempts": 3, "retry_delay_ms": 5_000}
LEASE, GRACE, DAY = 60_000, 30_000, 86_400_000


@pytest.fixture
async def pool(frozen_pool):
    return frozen_pool


@pytest.fixture
def until(client):
    """`await until(task_id, reason)`: once a background pass has written it."""

    async def wait(task_id: str, reason: str) -> list[str]:
        async with asyncio.timeout(20):
            while reason not in (reasons := await client.reasons(task_id)):
                await asyncio.sleep(0.002)
        return reasons

    return wait


async def claimed(client, **input):
    task_id = (await client.submit(**input))["task_id"]
    session = await client.open()
    return task_id, session, await client.assignment(session)


async def test_a_lease_ends_at_its_instant(client, clock, refused, until):
    """TST-011, TST-014, DLV-015, DLV-054, DLV-110, DLV-111: live until then; then nothing of its owner counts, and it
    is recovered.
    """
    task_id, session, assignment = await claimed(client)
    await clock.advance(LEASE - 1)
    assert (await client.poll(session, 1))["assignment"]["authority"]["remaining_ms"] == 1
    assert await refused(client.poll(session, 2)) == "busy"
    await clock.advance(1)
    assert await refused(client.renew(assignment)) == "ownership_lost"
    assert await refused(client.settle(assignment)) == "ownership_lost"
    assert (await client.poll(session, 1))["disposition"] == "ownership_lost"
    assert await until(task_id, "lease_expired") == ["submitted", "claimed", "lease_expired", "retry_scheduled"]


async def test_a_renewal_counts_from_its_own_instant(client, clock, refused, until):
    """DLV-056, DLV-054: sixty seconds from the renewal; afterwards replays are refused before the sequence is seen."""
    task_id, _, assignment = await claimed(client)
    await clock.advance(LEASE - 1)
    renewed = await client.renew(assignment)
    assert renewed["remaining_ms"] == LEASE
    await clock.advance(LEASE - 1)
    assert (await client.renew(assignment))["remaining_ms"] == 1  # a replay extends nothing (DLV-057)
    await clock.advance(1)
    for sequence in (0, 1, 2, 9):
        assert await refused(client.renew(assignment, sequence)) == "ownership_lost"
    await until(task_id, "lease_expired")


async def test_execution_deadline_and_grace(client, clock, refused, until):
    """DLV-051, DLV-060, DLV-064, DLV-066: renewed past the deadline until the authority ends, never beyond."""
    task_id, session, assignment = await claimed(client, attempt_timeout_ms=LEASE)
    deadline = assignment["attempt_deadline"]
    await clock.advance(LEASE - 1)
    before = await client.renew(assignment, 1, "keep_alive")
    assert (before["cancel_requested"], before["execution_remaining_ms"]) == (False, 1)
    await clock.advance(1)
    after = await client.renew(assignment, 2, "dispatch")
    assert (after["cancel_requested"], after["dispatch_allowed"]) == (True, False)
    assert (after["execution_remaining_ms"], after["expires_at"]) == (0, deadline + GRACE)
    assert (await client.poll(session, 1))["assignment"]["attempt_deadline"] == deadline
    await clock.advance(GRACE - 1)
    assert (await client.renew(assignment, 3))["remaining_ms"] == 1
    await clock.advance(1)
    assert await refused(client.renew(assignment, 4)) == "ownership_lost"
    assert "dispatch_authorized" not in await until(task_id, "lease_expired")


async def test_a_cancel_caps_the_authority(client, clock, refused, until):
    """TASK-203, DLV-065, DLV-110: thirty seconds from the cancel, whatever is renewed."""
    task_id, _, assignment = await claimed(client)
    await client.renew(assignment)
    await clock.advance(10_000)
    assert await client.cancel(task_id) == "active"
    await clock.advance(GRACE - 1)
    renewed = await client.renew(assignment, 2)
    assert (renewed["remaining_ms"], renewed["cancel_requested"]) == (1, True)
    await clock.advance(1)
    assert await refused(client.settle(assignment)) == "ownership_lost"
    assert (await until(task_id, "cancelled"))[-3:] == ["cancel_requested", "lease_expired", "cancelled"]


async def test_an_unconfirmed_success_that_expires(client, clock, refused, until):
    """DLV-103, DLV-114: it decides the task, stays unconfirmed, and cannot be confirmed any more."""
    task_id, _, assignment = await claimed(client)
    await client.settle(assignment, quiescence="unconfirmed")
    await clock.advance(LEASE)
    assert await refused(client.confirm(assignment)) == "ownership_lost"
    await until(task_id, "succeeded")
    assert await refused(client.confirm(assignment)) == "ownership_lost"
    assert (await client.read("task_result", task_id))["outcome"]["quiescence"] == "unconfirmed"


async def test_an_unconfirmed_retryable_failure_that_expires(client, clock, report, until):
    """DLV-115, TASK-044: retried like a confirmed one, and the attempt failed rather than got lost."""
    task_id, _, assignment = await claimed(client, retry_policy=RETRY)
    await client.settle(assignment, report.failed("io"), quiescence="unconfirmed")
    await clock.advance(LEASE)
    await until(task_id, "retry_scheduled")
    attempt = assignment["lease"]["owner"]["attempt_id"]
    assert (await client.read("inspect_attempt", task_id, attempt_id=attempt))["state"] == "failed"
    status = await client.read("task_status", task_id)
    assert status["available_at"] == (await clock.read())["now"] + 5_000


@pytest.mark.parametrize("settled", [False, True])
async def test_a_cancel_before_the_recovery(client, clock, faults, refused, until, settled):
    """TASK-210, DLV-112, DLV-113: it ends the expired attempt itself, even one that had succeeded; once and for all."""
    task_id, session, assignment = await claimed(client)
    if settled:
        await client.settle(assignment, quiescence="unconfirmed")
    faults.add("attempt.expire")
    await clock.advance(LEASE)
    await faults.until_held()
    assert (await client.read("task_status", task_id))["state"] == "active"
    assert (await client.poll(session, 2))["disposition"] == "empty"
    assert await refused(client.renew(assignment)) == "ownership_lost"
    assert await client.cancel(task_id) == "cancelled"
    after = ["cancel_requested", "lease_expired", "cancelled"]
    history = ["submitted", "claimed", *["report_accepted"] * settled, *after]
    assert await client.reasons(task_id) == history
    attempt = assignment["lease"]["owner"]["attempt_id"]
    seen = await client.read("inspect_attempt", task_id, attempt_id=attempt)
    assert (seen["state"], seen["quiescence"]) == ("lost", "unconfirmed")
    faults.release()
    await until(task_id, "cancelled")
    assert (await clock.read())["next_due"] is None
    assert await client.reasons(task_id) == history


async def test_a_renewed_attempt_does_not_expire(client, clock, faults, until):
    """DLV-056: what was due by the former lease is no run of attempt.expire; the end of the new one is."""
    task_id, _, assignment = await claimed(client)
    await clock.advance(LEASE // 2)
    await client.renew(assignment)
    faults.add("attempt.expire", "fail", times=2)
    await clock.advance(LEASE // 2)
    assert (await client.renew(assignment, 2))["remaining_ms"] == LEASE
    entry = "select due from agenda where ref = $1"
    async with asyncio.timeout(20):
        while await client.services.pool.fetchval(entry, task_id) == (await clock.read())["now"]:
            await asyncio.sleep(0.002)
    assert faults.hits == [0]
    await clock.advance()
    await until(task_id, "lease_expired")
    assert faults.hits == [2]


async def test_a_retry_waits_for_its_delay(client, clock, report):
    """DLV-117: not claimable before, claimable at the instant."""
    _, session, assignment = await claimed(client, retry_policy=RETRY)
    await client.settle(assignment, report.failed("io"))
    await clock.advance(4_999)
    assert (await client.poll(session, 2))["disposition"] == "empty"
    await clock.advance(1)
    assert (await client.poll(session, 3))["assignment"]["event"]["ldgattemptno"] == 2


async def test_a_waiting_poll_gets_a_retry_when_time_comes(client, clock, report):
    """TST-012, TST-013, DLV-033: the poll waits in real time and looks again after the advance."""
    _, session, assignment = await claimed(client, retry_policy=RETRY)
    await client.settle(assignment, report.failed("io"))
    poll = asyncio.create_task(client.poll(session, 2, wait_ms=20_000))
    await waiting(client)
    assert (await clock.advance())["advanced_ms"] == 5_000
    assert (await poll)["disposition"] == "assigned"


async def test_a_session_lasts_a_day(client, clock, refused):
    """DLV-001, DLV-004, DLV-005: extended until the last millisecond, never revived."""
    first, second = await client.open(), await client.open()
    await clock.advance(DAY - 1)
    extended = await client.extend(first)
    assert extended["expires_at"] == (await clock.read())["now"] + DAY
    assert (await client.poll(second, 1))["disposition"] == "empty"
    await clock.advance(1)
    assert await refused(client.extend(second)) == "session_expired"
    assert await refused(client.poll(second, 2)) == "session_expired"
    assert (await client.poll(first, 1))["disposition"] == "empty"


async def test_a_waiting_poll_ends_with_its_session(client, clock, refused):
    """TST-012, DLV-037: told at once, not when its wait is over."""
    session = await client.open()
    poll = asyncio.create_task(refused(client.poll(session, 1, wait_ms=20_000)))
    await waiting(client)
    await clock.advance(DAY)
    assert await poll == "session_expired"


async def test_a_lease_is_cut_at_the_end_of_its_session(client, clock, refused):
    """DLV-067."""
    session = await client.open()
    await clock.advance(DAY - 20_000)
    await client.submit()
    assignment = await client.assignment(session)
    assert assignment["authority"]["remaining_ms"] == 20_000
    await clock.advance(19_999)
    assert (await client.renew(assignment))["remaining_ms"] == 1
    await clock.advance(1)
    assert await refused(client.renew(assignment, 2)) == "session_expired"


async def test_no_other_scope_notices(client, clock, services):
    """TST-003: leases, retries and sessions of other scopes stay as they were; so does what their clock says."""
    other = type(client)(services, "another of the same database")
    _, session, assignment = await claimed(other)
    other_clock = type(clock)(services, other.scope["namespace"])
    before = await other_clock.read()
    await claimed(client)
    await clock.advance(10 * DAY)
    assert await other_clock.read() == before
    assert (await other.renew(assignment))["remaining_ms"] == LEASE
    assert await other.extend(session)


async def waiting(client):
    async with asyncio.timeout(20):
        while not client.services.dispatchers.waiting:
            await asyncio.sleep(0.001)
