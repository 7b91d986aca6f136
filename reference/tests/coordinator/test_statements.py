"""What an operation costs, in statements: counts are exact, times are nobody's business here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protocol3.coordinator.assembly import assemble
from protocol3.store.database import open_pool


class _Ignored:
    def succeeded(self, now: float) -> None: ...

    def unavailable(self) -> None: ...


@pytest.fixture
async def pool(database: str) -> Any:
    """One connection for everything: whoever needed two at once would wait for good."""
    pool = await open_pool(database, size=1)
    yield pool
    await pool.close()


@pytest.fixture
async def services(pool: Any, programs: Any) -> Any:
    """Without loops, which send statements of their own."""
    services = assemble(pool, programs, recovery=_Ignored(), workflow_recovery=_Ignored())
    yield services
    await services.dispatchers.close()


@pytest.fixture
def counted(pool: Any) -> Any:
    """`await counted(call)`: how many statements a call sends."""

    async def count(call: Any) -> int:
        statements: list[str] = []

        def log(record: Any) -> None:
            if "typeinfo_tree" not in record.query and "set_config" not in record.query:  # asyncpg learns a row type
                statements.append(record.query)

        async with pool.acquire() as connection:
            connection.add_query_logger(log)
        await call
        async with pool.acquire() as connection:
            connection.remove_query_logger(log)
        return len(statements)

    return count


async def test_statements_of_each_operation(client, counted, report, monkeypatch):
    """Two round trips for a transition, one for a read and for the renewal of what was claimed here; the scope is
    looked up once.
    """
    for module in ("coordinator.operations.acceptance", "store.remembered"):
        monkeypatch.setattr(f"protocol3.{module}.FRESH_S", 60.0)  # on a machine without haste
    monkeypatch.setattr("protocol3.store.remembered.LAG_MS", 60_000)
    monkeypatch.setattr("protocol3.store.remembered.REST_S", 0.0)
    await client.submit("warm", queue="other")
    policy = {"max_attempts": 9, "retry_delay_ms": 0}
    counts = {"submit": await counted(client.submit(retry_policy=policy))}
    task = await client.submit(retry_policy=policy)
    task_id = task["task_id"]
    counts["its replay"] = await counted(client.submit(retry_policy=policy))
    for read in ("inspect_task", "task_status", "task_result", "task_history"):
        counts[read] = await counted(client.read(read, task_id))
    counts["list"] = await counted(client.list())
    counts["open session"] = await counted(client.open())
    session = await client.open()
    counts["extend session"] = await counted(client.extend(session))
    counts["claim"] = await counted(client.poll(session, 1))
    assignment = await client.assignment(session, 1)
    counts["repeated poll"] = await counted(client.poll(session, 1))
    counts["renew"] = await counted(client.renew(assignment, 1))
    counts["repeated renewal"] = await counted(client.renew(assignment, 1))
    counts["settle"] = await counted(client.settle(assignment, report.failed("io"), quiescence="unconfirmed"))
    counts["confirm"] = await counted(client.confirm(assignment))
    counts["repeated confirmation"] = await counted(client.confirm(assignment))
    counts["cancel"] = await counted(client.cancel(task_id))
    counts["empty poll"] = await counted(client.poll(session, 2))
    assert counts == {
        "submit": 2,
        "its replay": 1,
        "inspect_task": 1,
        "task_status": 1,
        "task_result": 1,
        "task_history": 1,
        "list": 1,
        "open session": 2,
        "extend session": 2,
        "claim": 2,
        "repeated poll": 2,
        "renew": 1,
        "repeated renewal": 1,
        "settle": 2,
        "confirm": 2,
        "repeated confirmation": 1,
        "cancel": 2,
        "empty poll": 2,
    }


@pytest.fixture
async def sent(pool: Any) -> Any:
    """`await sent()`: what the statements of the only connection since the last call were for."""
    kinds = {"row_number() over": "claim", "unnest($7": "judge", "select apply(": "apply"}
    queries: list[str] = []
    async with pool.acquire() as connection:
        connection.add_query_logger(lambda record: queries.append(record.query))

    async def sent() -> list[str]:
        await asyncio.sleep(0)  # the last statement is logged when the loop comes to it
        told = [next((kind for text, kind in kinds.items() if text in query), query) for query in queries]
        queries.clear()
        return told

    return sent


@pytest.fixture
def unasked(monkeypatch):
    """Dispatchers that never look by themselves, and submissions that need no second look on a slow machine."""
    monkeypatch.setattr("protocol3.coordinator.background.dispatcher.LOOK_S", 3_600)
    monkeypatch.setattr("protocol3.coordinator.operations.acceptance.FRESH_S", 60.0)


async def polling(client, session, consumers):
    """Polls of these consumers, once all of them wait."""
    before = client.services.dispatchers.waiting
    polls = [asyncio.create_task(client.poll(session, 1, consumer=n, wait_ms=20_000)) for n in consumers]
    async with asyncio.timeout(20):
        while client.services.dispatchers.waiting < before + len(polls):
            await asyncio.sleep(0.001)
    return polls


@pytest.mark.usefixtures("unasked")
async def test_statements_of_long_polls(client, sent):
    """Who arrives is judged in one statement with others, and waits without any; then there is one claim for a task."""
    await client.submit("its row types", queue="other")
    await client.poll(await client.open("other"), queue="other")
    session = await client.open(concurrency=40)
    polls = await polling(client, session, [0])
    await sent()
    polls += await polling(client, session, [1])
    assert await sent() == ["judge"]
    polls += await polling(client, session, range(2, 40))
    judged = await sent()
    assert set(judged) == {"judge"}
    assert len(judged) <= 4  # of 16 polls each, after the first one
    for key in ("one", "two"):
        await client.submit(key)
        done, polls = await asyncio.wait(polls, return_when="FIRST_COMPLETED")
        assert len(done) == 1
        assert (await sent())[1:] == ["apply", "claim", "apply"]
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


async def test_statements_of_polls_that_find_work(client, sent):
    """Those that arrive together are judged and served by one load and one apply."""
    session = await client.open(concurrency=16)
    for n in range(32):
        await client.submit(f"k{n}")
    for sequence in (1, 2):
        await sent()
        polls = (client.poll(session, sequence, consumer=n, wait_ms=20_000) for n in range(16))
        replies = await asyncio.gather(*polls)
        found = await sent()
        assert {reply["disposition"] for reply in replies} == {"assigned"}
        for reply in replies:
            await client.settle(reply["assignment"])
    assert found == ["claim", "apply"]
