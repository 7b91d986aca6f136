"""What an operation costs, in statements: counts are exact, times are nobody's business here."""

from __future__ import annotations

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


async def test_statements_of_each_operation(client, counted, report):
    """Two round trips for a transition, one for a read; the scope is looked up once."""
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
        "submit": 3,
        "its replay": 1,
        "inspect_task": 1,
        "task_status": 1,
        "task_result": 1,
        "task_history": 1,
        "list": 1,
        "open session": 2,
        "extend session": 2,
        "claim": 3,
        "repeated poll": 1,
        "renew": 2,
        "repeated renewal": 1,
        "settle": 2,
        "confirm": 2,
        "repeated confirmation": 1,
        "cancel": 2,
        "empty poll": 2,
    }
