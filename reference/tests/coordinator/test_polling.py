"""Acquisitions: cursors, claims, waiting (chapter 07)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protocol3.contract.limits import WAIT_RESERVE_MS
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.background.claiming import Claiming
from protocol3.coordinator.background.waiting import BATCH
from protocol3.coordinator.budget import exchange_deadline


async def until_waiting(client, count=1):
    """Until that many polls wait in a dispatcher."""
    async with asyncio.timeout(20):
        while client.services.dispatchers.waiting < count:
            await asyncio.sleep(0.001)


async def test_sequences(client, refused):
    """Chapter 07, Acquisition, DLV-012, DLV-018."""
    session = await client.open()
    for sequence, code in ((0, "out_of_order"), (2, "out_of_order")):
        assert await refused(client.poll(session, sequence)) == code
    assert await client.poll(session, 1) == {"disposition": "empty", "sequence": 1}
    await client.submit()
    assert await client.poll(session, 1) == {"disposition": "empty", "sequence": 1}
    first = await client.poll(session, 2)
    assert first["disposition"] == "assigned"
    assert await refused(client.poll(session, 1)) == "obsolete_operation"
    assert await refused(client.poll(session, 3, wait_ms=20_000)) == "busy"  # DLV-035
    again = await client.poll(session, 2, wait_ms=20_000)
    assert again["assignment"]["event"] == first["assignment"]["event"]
    assert again["assignment"]["lease"] == first["assignment"]["lease"]
    await client.settle(first["assignment"])
    lost = await client.poll(session, 2)
    assert lost["disposition"] == "ownership_lost"
    assert (await client.poll(session, 3))["disposition"] == "empty"


@pytest.mark.parametrize("other", [{"queue": "r"}, {"consumer_id": 1}, {"scope": {"tenant_id": "t", "namespace": "x"}}])
async def test_poll_that_does_not_fit_its_session(client, refused, other):
    """DLV-011."""
    session = await client.open()
    assert await refused(client.poll(session, 1, **other)) == "invalid_input"


async def test_order_of_claims(client):
    """DLV-023: by availability, then submission."""
    ids = [(await client.submit(f"k{n}"))["task_id"] for n in range(4)]
    for n, task_id in enumerate(ids):
        await client.age(task_id, 1_000 * (4 - n))
    session = await client.open(concurrency=4)
    got = [(await client.assignment(session, consumer=n))["lease"]["owner"]["task_id"] for n in range(4)]
    assert got == ids


async def test_what_is_no_candidate(client):
    """DLV-022: another queue, another scope, not due yet."""
    await client.submit("other queue", queue="r")
    await client.submit("other scope", namespace="elsewhere")
    later = await client.submit("later")
    await client.age(later["task_id"], -60_000)
    assert (await client.poll(await client.open()))["disposition"] == "empty"


async def test_a_wait_ends_with_a_submission(client):
    """DLV-032, DLV-033, DLV-034: nothing is committed meanwhile."""
    session = await client.open()
    poll = asyncio.create_task(client.poll(session, 1, wait_ms=20_000))
    await until_waiting(client)
    assert await client.services.pool.fetchval("select count(*) from cursor where session_id = $1", session) == 0
    task_id = (await client.submit())["task_id"]
    reply = await poll
    assert reply["assignment"]["lease"]["owner"]["task_id"] == task_id
    assert client.services.dispatchers.waiting == 0


async def test_a_wait_ends_with_a_delayed_retry(client):
    """DLV-033, DLV-117: claimed when its delay is over, with nobody to tell."""
    task_id = (await client.submit())["task_id"]
    await client.age(task_id, -300)
    session = await client.open()
    reply = await client.poll(session, 1, wait_ms=20_000)
    owner = reply["assignment"]["lease"]["owner"]
    times = await client.services.pool.fetchrow(
        "select t.available_at, a.claimed_at from task t join attempt a on a.task_id = t.id where a.id = $1",
        owner["attempt_id"],
    )
    assert times["claimed_at"] >= times["available_at"]


async def test_a_wait_ends_empty(client):
    """DLV-032, DLV-019: committed; the same sequence with another wait is the same poll."""
    session = await client.open()
    assert await client.poll(session, 1, wait_ms=30) == {"disposition": "empty", "sequence": 1}
    await client.submit()
    assert (await client.poll(session, 1, wait_ms=20_000))["disposition"] == "empty"


async def test_a_wait_leaves_time_to_answer_within_the_exchange(client):
    """DLV-036"""
    session = await client.open()
    loop = asyncio.get_running_loop()
    token = exchange_deadline.set(loop.time() + WAIT_RESERVE_MS / 1000 + 0.05)
    try:
        async with asyncio.timeout(WAIT_RESERVE_MS / 1000):
            reply = await client.poll(session, 1, wait_ms=20_000)
    finally:
        exchange_deadline.reset(token)
    assert reply == {"disposition": "empty", "sequence": 1}


async def test_a_wait_ends_with_the_session(client, refused):
    """DLV-037."""
    session = await client.open()
    poll = asyncio.create_task(refused(client.poll(session, 1, wait_ms=20_000)))
    await until_waiting(client)
    await client.expire_session(session)
    assert await poll == "session_expired"


async def test_an_abandoned_wait_leaves_the_sequence_free(client):
    """DLV-034."""
    session = await client.open()
    poll = asyncio.create_task(client.poll(session, 1, wait_ms=20_000))
    await until_waiting(client)
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert client.services.dispatchers.waiting == 0
    await client.submit()
    assert (await client.poll(session, 1))["disposition"] == "assigned"


async def test_identical_polls(client):
    """DLV-020: one claim, the same assignment for both."""
    session = await client.open()
    polls = [asyncio.create_task(client.poll(session, 1, wait_ms=20_000)) for _ in range(3)]
    await until_waiting(client, 3)
    await client.submit("one")
    await client.submit("two")
    replies = await asyncio.gather(*polls)
    assert len({reply["assignment"]["lease"]["owner"]["attempt_id"] for reply in replies}) == 1
    assert [item["state"] for item in (await client.list(state="queued"))["items"]] == ["queued"]


@pytest.mark.parametrize(("sequence", "answer"), [(1, "empty"), (2, "out_of_order")])
async def test_a_poll_beside_one_that_waits(client, refused, sequence, answer):
    """DLV-030, DLV-035: another poll of the consumer is answered at once; the same one then ends the other's wait."""
    session = await client.open()
    first = asyncio.create_task(client.poll(session, 1, wait_ms=20_000))
    await until_waiting(client)
    if answer == "empty":
        assert (await client.poll(session, sequence))["disposition"] == answer
        assert (await first)["disposition"] == "empty"
    else:
        assert await refused(client.poll(session, sequence, wait_ms=20_000)) == answer
        assert not first.done()
        first.cancel()


async def test_an_old_sequence_is_answered_beside_one_that_waits(client, refused):
    """DLV-035: whatever waits in the queue, and however much."""
    session = await client.open(concurrency=40)
    await client.poll(session, 1)
    waiting = [asyncio.create_task(client.poll(session, 1, consumer=n, wait_ms=20_000)) for n in range(1, 40)]
    await until_waiting(client, 39)
    assert (await client.poll(session, 1, wait_ms=20_000))["disposition"] == "empty"
    assert await refused(client.poll(session, 2**63, wait_ms=20_000)) == "out_of_order"
    assert client.services.dispatchers.waiting == 39
    for poll in waiting:
        poll.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert client.services.dispatchers.waiting == 0


@pytest.mark.parametrize(("sequence", "answer"), [(1, "empty"), (9, "out_of_order")])
async def test_a_poll_at_the_end_of_a_busy_line_is_answered(client, refused, monkeypatch, sequence, answer):
    """DLV-030, DLV-035: however many wait, and however often a task may have become claimable."""
    session = await client.open(concurrency=40)
    waiting = [asyncio.create_task(client.poll(session, 1, consumer=n, wait_ms=20_000)) for n in range(1, 40)]
    await until_waiting(client, 39)
    scope_id = await client.services.pool.fetchval("select scope_id from session where id = $1", session)
    claiming = Claiming.__call__

    async def beside_a_submission(*args: Any, **named: Any) -> Any:
        claims = await claiming(*args, **named)
        client.services.dispatchers.wake(scope_id, "q")
        return claims

    monkeypatch.setattr(Claiming, "__call__", beside_a_submission)
    client.services.dispatchers.wake(scope_id, "q")
    if answer == "empty":
        assert (await client.poll(session, sequence))["disposition"] == answer
    else:
        assert await refused(client.poll(session, sequence, wait_ms=20_000)) == answer
    monkeypatch.undo()
    assert client.services.dispatchers.waiting == 39
    for poll in waiting:
        poll.cancel()


async def test_an_impossible_sequence_is_no_harm_to_the_polls_before_it(client, refused):
    """DLV-322: it is judged alone, also where those that wait are judged anew before its turn comes."""
    session = await client.open(concurrency=BATCH + 2)
    waiting = [asyncio.create_task(client.poll(session, 1, consumer=n, wait_ms=20_000)) for n in range(BATCH)]
    await until_waiting(client, BATCH)
    scope_id = await client.services.pool.fetchval("select scope_id from session where id = $1", session)
    client.services.dispatchers.look_again(scope_id)
    impossible = refused(client.poll(session, 2**64 - 1, consumer=BATCH, wait_ms=20_000))
    look = client.poll(session, 1, consumer=BATCH + 1)
    assert await asyncio.gather(impossible, look) == ["out_of_order", {"disposition": "empty", "sequence": 1}]
    for poll in waiting:
        poll.cancel()


async def test_many_waiting_consumers_get_different_tasks(client):
    """DLV-025, DLV-038: one dispatcher serves them in few transactions."""
    session = await client.open(concurrency=24)
    polls = [asyncio.create_task(client.poll(session, 1, consumer=n, wait_ms=20_000)) for n in range(24)]
    await until_waiting(client, 24)
    await asyncio.gather(*(client.submit(f"k{n}") for n in range(24)))
    replies = await asyncio.gather(*polls)
    assert len({reply["assignment"]["lease"]["owner"]["task_id"] for reply in replies}) == 24


async def test_a_wait_blocks_nobody(client, refused):
    """DLV-038: while polls wait, others renew, settle and poll."""
    await client.submit()
    session = await client.open(concurrency=3)
    assignment = await client.assignment(session)
    waiting = [asyncio.create_task(client.poll(session, 1, consumer=n, wait_ms=20_000)) for n in (1, 2)]
    await until_waiting(client, 2)
    await client.renew(assignment)
    assert (await client.settle(assignment))["task_state"] == "succeeded"
    assert (await client.poll(session, 2))["disposition"] == "empty"
    for poll in waiting:
        poll.cancel()


async def test_too_many_waiting_polls(client, refused, monkeypatch):
    """DLV-039: unavailable, and nothing is committed."""
    monkeypatch.setattr("protocol3.coordinator.background.dispatcher.WAITING", 1)
    session = await client.open(concurrency=2)
    first = asyncio.create_task(client.poll(session, 1, wait_ms=20_000))
    await until_waiting(client)
    assert await refused(client.poll(session, 1, consumer=1, wait_ms=20_000)) == "unavailable"
    first.cancel()


async def test_a_store_that_fails_is_unavailable_not_empty(client, monkeypatch):
    """TASK-021."""
    session = await client.open()
    await client.submit()

    async def broken(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("protocol3.store.loads.claims.claiming", broken)
    with pytest.raises(Refusal) as refused:
        await client.poll(session, 1)
    assert refused.value.code == "unavailable"
    monkeypatch.undo()
    assert (await client.poll(session, 1))["disposition"] == "assigned"
