"""What an advance reports, what it may not do, and what `hold` moves along."""

from __future__ import annotations

import asyncio

import pytest

from protocol3.contract.limits import MAX_TIMESTAMP_MS
from protocol3.coordinator.controls.clock import Advance
from protocol3.store.virtual_time import LATEST

LEASE, DAY = 60_000, 86_400_000
SCOPE = {"tenant_id": "t", "namespace": "n"}


@pytest.fixture
async def pool(frozen_pool):
    return frozen_pool


async def claimed(client, key="key", **input):
    task_id = (await client.submit(key, **input))["task_id"]
    session = await client.open()
    return task_id, session, await client.assignment(session)


async def attempt_of(client, assignment):
    owner = assignment["lease"]["owner"]
    return await client.read("inspect_attempt", owner["task_id"], attempt_id=owner["attempt_id"])


async def test_an_untouched_scope(clock):
    """TST-028, TST-030: nothing is due in it."""
    before = await clock.read()
    assert (before["next_due"], before["live_attempts"]) == (None, 0)
    after = await clock.advance()
    assert after == before | {"advanced_ms": 0}
    assert await clock.advance(250) == before | {"now": before["now"] + 250, "advanced_ms": 250}
    assert await clock.read() == before | {"now": before["now"] + 250}


async def test_what_is_due_next(client, clock, report):
    """TST-016, TST-028: the end of a lease, or sooner a retry; with `hold` leases end nothing."""
    _, session, assignment = await claimed(client, retry_policy={"max_attempts": 2, "retry_delay_ms": 90_000})
    start = (await clock.read())["now"]
    assert await clock.read() == {"now": start, "next_due": start + LEASE, "live_attempts": 1}
    await client.settle(assignment, report.failed("io"))
    assert await clock.read() == {"now": start, "next_due": start + 90_000, "live_attempts": 0}
    await client.submit("other", queue="q2")
    other = await client.open(queue="q2")
    await client.poll(other, queue="q2")
    assert (await clock.read())["next_due"] == start + LEASE
    held = await clock.advance(leases="hold")
    assert (held["now"], held["live_attempts"]) == (start + 90_000, 1)
    assert held["next_due"] == start + 90_000 + LEASE
    assert (await client.poll(session, 2))["disposition"] == "assigned"


async def test_what_is_overdue_is_due_next(client, clock, pool):
    """TST-016: going on to it takes no time: a client that goes from one to the next leaves nothing behind."""
    await claimed(client)
    await pool.execute("update attempt set lease_expires_at = 1")
    assert (await clock.read())["next_due"] == 1
    assert (await clock.advance())["advanced_ms"] == 0


async def test_hold_moves_what_is_live(client, clock, refused):
    """TST-003, TST-015: as if everything had been renewed all the way: session, lease, authority, deadline; and only
    this scope.
    """
    task_id, session, assignment = await claimed(client, attempt_timeout_ms=LEASE)
    await client.renew(assignment)
    before = await attempt_of(client, assignment)
    reasons = await client.reasons(task_id)
    assert (await clock.advance(3 * DAY, leases="hold"))["live_attempts"] == 1
    after = await attempt_of(client, assignment)
    for field in ("deadline", "authority_deadline"):
        assert after[field] == before[field] + 3 * DAY
    assert after["lease"]["expires_at"] == before["lease"]["expires_at"] + 3 * DAY
    assert (await client.renew(assignment, 2))["execution_remaining_ms"] == LEASE
    assert (await client.extend(session))["expires_at"] == (await clock.read())["now"] + DAY
    assert await client.reasons(task_id) == reasons
    assert (await client.settle(assignment))["task_state"] == "succeeded"


async def test_hold_revives_nothing(client, clock, refused):
    """TST-015: what had run out before stays so."""
    _, session, assignment = await claimed(client)
    await clock.advance(DAY)
    await clock.advance(5, leases="hold")
    assert await refused(client.renew(assignment)) == "session_expired"
    assert await refused(client.extend(session)) == "session_expired"
    assert await refused(client.settle(assignment)) == "ownership_lost"


async def test_hold_while_owners_work(client, clock):
    """TST-010, TST-015: renewals, polls and advances of all kinds side by side: nobody loses anything, nothing
    deadlocks.
    """
    policy = {"max_attempts": 1, "retry_delay_ms": 0}
    work = []
    for n in range(6):
        task_id = (await client.submit(f"k{n}", retry_policy=policy))["task_id"]
        work.append((task_id, await client.assignment(await client.open())))

    async def own(assignment):
        for sequence in range(1, 21):
            await client.renew(assignment, sequence)
        await client.settle(assignment)

    async def move():
        for n in range(20):
            await clock.advance(7_000, leases=("hold", "expire")[n % 4 == 3])

    await asyncio.gather(move(), *(own(assignment) for _, assignment in work))
    for task_id, _ in work:
        assert (await client.read("task_status", task_id))["state"] == "succeeded"


async def test_time_ends(clock, refused):
    """TST-017: what is counted from the latest time still has an instant; beyond it nothing is advanced."""
    now = (await clock.read())["now"]
    assert LATEST + 2 * DAY == MAX_TIMESTAMP_MS
    assert await refused(clock.advance(LATEST - now + 1)) == "invalid_input"
    assert (await clock.read())["now"] == now
    assert (await clock.advance(LATEST - now))["now"] == LATEST
    assert await refused(clock.advance(1)) == "invalid_input"
    assert (await clock.advance(0))["now"] == LATEST


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"scope": SCOPE}, "body"),
        ({"scope": SCOPE, "advance_ms": 1, "to": "next_due"}, "body"),
        ({"scope": SCOPE, "advance_ms": -1}, "body.advance_ms"),
        ({"scope": SCOPE, "advance_ms": 1.0}, "body.advance_ms"),
        ({"scope": SCOPE, "advance_ms": True}, "body.advance_ms"),
        ({"scope": SCOPE, "advance_ms": MAX_TIMESTAMP_MS + 1}, "body.advance_ms"),
        ({"scope": SCOPE, "to": "tomorrow"}, "body.to"),
        ({"scope": SCOPE, "to": None}, "body.to"),
        ({"scope": SCOPE, "advance_ms": 1, "leases": "renew"}, "body.leases"),
        ({"scope": SCOPE, "advance_ms": 1, "more": 1}, "body"),
        ({"advance_ms": 1}, "body.scope"),
        ([], "body"),
    ],
)
def test_what_is_no_advance(refusal_of, body, at):
    """TST-002, TST-029: refused with the field's name."""
    refusal = refusal_of(lambda: Advance.from_json(body))
    assert refusal.code == "invalid_input"
    assert refusal.message.startswith(f"{at}: ")
