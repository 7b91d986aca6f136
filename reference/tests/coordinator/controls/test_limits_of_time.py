"""Durations of tasks and delivery, least and greatest: a millisecond before the end, at it and after it."""

import pytest

from protocol3_spec import limits

AROUND = pytest.mark.parametrize("late", [-1, 0, 1])


def bound(name):
    return limits()[name].value


@pytest.fixture
async def pool(frozen_pool):
    return frozen_pool


async def claimed(client, **input):
    task_id = (await client.submit(**input))["task_id"]
    session = await client.open()
    return task_id, session, await client.assignment(session)


@AROUND
async def test_the_end_of_a_lease(client, clock, refused, late):
    """TASK-045, DLV-015, DLV-027, DLV-054, DLV-077: strictly before is live."""
    _, session, assignment = await claimed(client)
    await clock.advance(bound("LEASE_MS") + late)
    if late < 0:
        assert (await client.poll(session))["assignment"]["authority"]["remaining_ms"] == -late
        assert (await client.settle(assignment))["task_state"] == "succeeded"
        return
    assert (await client.poll(session))["disposition"] == "ownership_lost"
    assert await refused(client.renew(assignment)) == "ownership_lost"
    assert await refused(client.settle(assignment)) == "ownership_lost"


@AROUND
@pytest.mark.parametrize("longest", ["MIN_ATTEMPT_TIMEOUT_MS", "MAX_ATTEMPT_TIMEOUT_MS"])
async def test_the_execution_deadline(client, clock, services, longest, late):
    """DLV-027, DLV-028, DLV-051, DLV-058: dispatch is allowed strictly before it; the lease goes on after it."""
    duration = bound(longest)
    task_id, session, assignment = await claimed(client, attempt_timeout_ms=duration)
    assert assignment["authority"]["execution_remaining_ms"] == duration
    assert assignment["attempt_deadline"] == (await clock.read())["now"] + duration
    await client.extend(session)
    far = "update attempt set lease_expires_at = authority_deadline where task_id = $1"
    await services.pool.execute(far, task_id)  # as if it had been renewed all the time
    await services.pool.execute("update session set expires_at = 2^52 where id = $1", session)
    await clock.advance(duration + late)
    authority = await client.renew(assignment)
    assert authority["dispatch_allowed"] is (late < 0)
    assert authority["cancel_requested"] is (late >= 0)
    assert authority["execution_remaining_ms"] == max(0, -late)
    assert authority["remaining_ms"] == min(bound("LEASE_MS"), bound("CLEANUP_GRACE_MS") - late)


@AROUND
async def test_the_grace_after_a_cancel(client, clock, refused, late):
    """TASK-203, DLV-065."""
    task_id, _, assignment = await claimed(client)
    assert await client.cancel(task_id) == "active"
    await clock.advance(bound("CLEANUP_GRACE_MS") + late)
    if late < 0:
        assert (await client.renew(assignment))["remaining_ms"] == -late
        assert (await client.settle(assignment))["task_state"] == "cancelled"
        return
    assert await refused(client.settle(assignment)) == "ownership_lost"


@AROUND
@pytest.mark.parametrize("delay", [0, 1, limits()["MAX_RETRY_DELAY_MS"].value])
async def test_the_delay_of_a_retry(client, clock, report, delay, late):
    """DLV-022, DLV-117: claimable at its instant."""
    retry = {"max_attempts": 2, "retry_delay_ms": delay}
    task_id, _, assignment = await claimed(client, retry_policy=retry)
    await client.settle(assignment, report.failed("io"))
    now = (await clock.read())["now"]
    assert (await client.read("task_status", task_id))["available_at"] == now + delay
    if delay + late < 0:
        return
    if delay + late:
        await clock.advance(delay + late)
    expected = "empty" if late < 0 else "assigned"
    assert (await client.poll(await client.open()))["disposition"] == expected


@AROUND
async def test_the_end_of_a_session(client, clock, refused, late):
    """DLV-001, DLV-004, DLV-005."""
    session = await client.open()
    await clock.advance(bound("SESSION_VALIDITY_MS") + late)
    if late < 0:
        expires_at = (await client.extend(session))["expires_at"]
        assert expires_at == (await clock.read())["now"] + bound("SESSION_VALIDITY_MS")
        return
    assert await refused(client.poll(session)) == "session_expired"
    assert await refused(client.extend(session)) == "session_expired"


@pytest.mark.parametrize(("beyond", "state"), [(-1, "queued"), (0, "failed")])
async def test_the_last_attempt(client, services, report, beyond, state):
    """TASK-105, DLV-116: the attempt of the greatest number is made, and is the last one."""
    most = bound("MAX_ATTEMPTS")
    retry = {"max_attempts": most, "retry_delay_ms": 0}
    task_id = (await client.submit(retry_policy=retry))["task_id"]
    await services.pool.execute("update task set attempt_count = $2 where id = $1", task_id, most - 1 + beyond)
    assignment = await client.assignment(await client.open())
    assert assignment["event"]["ldgattemptno"] == most + beyond
    assert (await client.settle(assignment, report.failed("io")))["task_state"] == state
