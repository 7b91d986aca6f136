"""Two coordinators on one database (design 4): no leader, nothing in memory that counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from protocol3.coordinator.assembly import assemble, running
from protocol3.store.database import open_pool


class _Ignored:
    def succeeded(self, now: float) -> None: ...

    def unavailable(self) -> None: ...


@pytest.fixture
async def other(client: Any, database: str, programs: Any) -> AsyncIterator[Any]:
    """The same scope, seen through another coordinator with connections of its own."""
    pool = await open_pool(database)
    ignored = _Ignored()
    async with running(assemble(pool, programs, recovery=ignored, workflow_recovery=ignored)) as services:
        yield type(client)(services, client.scope["namespace"])
    await pool.close()


async def listening(pool: asyncpg.Pool[asyncpg.Record], count: int) -> None:
    text = "select count(*) from pg_stat_activity where application_name = 'protocol3 hints' and wait_event is not null"
    async with asyncio.timeout(20):
        while await pool.fetchval(text) < count:
            await asyncio.sleep(0.005)


async def test_a_hint_wakes_the_polls_of_another_process(client, other, monkeypatch):
    """DLV-033: at once, not at the next look."""
    monkeypatch.setattr("protocol3.coordinator.background.dispatcher.LOOK_S", 60.0)
    await listening(client.services.pool, 2)
    session = await other.open()
    poll = asyncio.create_task(other.poll(session, 1, wait_ms=20_000))
    async with asyncio.timeout(20):
        while not other.services.dispatchers.waiting:
            await asyncio.sleep(0.001)
    task_id = (await client.submit())["task_id"]
    assert (await poll)["assignment"]["lease"]["owner"]["task_id"] == task_id


async def test_who_has_just_begun_to_listen_is_told(client, database, programs, monkeypatch):
    """DLV-033: also by a process that has asked a moment ago, and believes itself alone."""
    monkeypatch.setattr("protocol3.coordinator.background.dispatcher.LOOK_S", 60.0)
    monkeypatch.setattr("protocol3.coordinator.background.hints.LISTENERS_S", 3_600.0)
    text = "select count(*) from pg_stat_activity where application_name = 'protocol3 hints'"
    async with asyncio.timeout(20):
        while await client.services.pool.fetchval(text) != 1:  # those of other tests may not be gone yet
            await asyncio.sleep(0.005)
        await client.submit("nobody listens", queue="another")
        while client.services.hints._asked_at < 0:
            await asyncio.sleep(0.001)
    pool, ignored = await open_pool(database), _Ignored()
    async with running(assemble(pool, programs, recovery=ignored, workflow_recovery=ignored)) as services:
        other = type(client)(services, client.scope["namespace"])
        poll = asyncio.create_task(other.poll(await other.open(), 1, wait_ms=19_000))
        async with asyncio.timeout(20):
            while not services.dispatchers.waiting:
                await asyncio.sleep(0.001)
        async with asyncio.timeout(10):  # a look of its own comes with the end of the wait
            while not poll.done():
                await client.submit(f"told {asyncio.get_running_loop().time()}")
                await asyncio.sleep(0.02)
        assert (await poll)["disposition"] == "assigned"
    await pool.close()


async def test_a_lost_hint_costs_a_second(client, other, monkeypatch):
    """DLV-033: the look of its own finds what nobody told."""
    monkeypatch.setattr("protocol3.coordinator.background.hints.Hints.tell", lambda *_: None)
    session = await other.open()
    poll = asyncio.create_task(other.poll(session, 1, wait_ms=20_000))
    async with asyncio.timeout(20):
        while not other.services.dispatchers.waiting:
            await asyncio.sleep(0.001)
    await client.submit()
    assert (await poll)["disposition"] == "assigned"


async def test_everything_is_in_the_database(client, other, refused):
    """DLV-121: what one coordinator began another one goes on with."""
    task = await client.submit()
    session = await client.open()
    assignment = await other.assignment(session)
    await client.renew(assignment)
    assert (await other.renew(assignment))["renew_sequence"] == 1
    assert (await other.settle(assignment))["already_accepted"] is False
    assert (await client.settle(assignment))["already_accepted"] is True
    assert (await other.submit())["task_id"] == task["task_id"]
    assert await client.confirm(assignment) == "succeeded"


async def test_no_task_is_claimed_twice(client, other):
    """DLV-024, DLV-025, DLV-112: many consumers on both, and some of their leases lost."""
    tasks, consumers = 60, 6
    clients = (client, other)
    policy = {"max_attempts": 9, "retry_delay_ms": 0}
    ids = [(await client.submit(f"k{n}", retry_policy=policy))["task_id"] for n in range(tasks)]
    sessions = [await one.open(concurrency=consumers) for one in clients]
    finished: list[str] = []

    async def consume(one, session, consumer):
        sequence = 0
        while len(finished) < tasks:
            sequence += 1
            reply = await one.poll(session, sequence, consumer=consumer, wait_ms=50)
            if reply["disposition"] != "assigned":
                continue
            task_id = reply["assignment"]["lease"]["owner"]["task_id"]
            if (sequence + consumer) % 5 == 0:
                await one.age(task_id, 60_000)
                await one.services.pool.execute("update agenda set due = 1 where ref = $1", task_id)
                for each in clients:
                    each.services.agenda.ring(0)
                continue
            assert (await one.settle(reply["assignment"]))["task_state"] == "succeeded"
            finished.append(task_id)

    pairs = zip(clients, sessions, strict=True)
    await asyncio.gather(*(consume(one, session, n) for one, session in pairs for n in range(consumers)))
    assert sorted(finished) == sorted(ids)
    for task_id in ids:
        reasons = await client.reasons(task_id)
        assert reasons == [
            "submitted",
            *("claimed", "lease_expired", "retry_scheduled") * reasons.count("lease_expired"),
            *("claimed", "report_accepted", "succeeded"),
        ]
