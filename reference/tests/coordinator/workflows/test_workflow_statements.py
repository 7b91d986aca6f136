"""What a step costs, in statements: counts are exact, times are nobody's business here."""

import pytest

from protocol3.coordinator.background import workflow_handlers
from protocol3.core.records import Obligation
from protocol3.store.database import open_pool
from protocol3.store.tables import record_of


@pytest.fixture
async def pool(database):
    """One connection for everything: whoever needed two at once would wait for good."""
    pool = await open_pool(database, size=1)
    yield pool
    await pool.close()


@pytest.fixture
def counted(pool):
    """`await counted(call)`: how many statements a call sends."""

    async def _counted(call):
        statements = []

        def log(record):
            statements.append(record.query)

        async with pool.acquire() as connection:
            connection.add_query_logger(log)
        await call
        async with pool.acquire() as connection:
            connection.remove_query_logger(log)
        return len(statements)

    return _counted


async def owed(still, workflow_id, kind):
    row = await still.services.pool.fetchrow(
        "select o from obligation o where workflow_id = $1 and kind = $2", workflow_id, kind
    )
    return record_of(Obligation, row["o"])


async def walk(still, counted, staged, key):
    """The statements of each step of one workflow, on queues of its own."""
    root = await still.submit(key, queue=key)
    workflow_id, services = root["workflow_id"], still.services
    run = await still.start(key)
    counts = {
        "context": await counted(run.context()),
        "local result": await counted(run.local()),
        "its replay": await counted(run.local()),
        "fork": await counted(run.fork("x")),
        "event": await counted(still.send(workflow_id, "k")),
        "status": await counted(still.status(workflow_id)),
        "result": await counted(still.result(workflow_id)),
    }
    await run.decide("suspend", commands=[staged("a", queue=f"{key}-rates")], until=["a"])
    decision = await owed(still, workflow_id, "decision")
    counts["decision with commands"] = await counted(workflow_handlers.handle_decision(services, decision))
    await (await still.start(f"{key}-rates")).succeed(1)
    child = await owed(still, workflow_id, "child")
    counts["last child"] = await counted(workflow_handlers.handle_child_ended(services, child))
    await (await still.start(key)).decide("continue")
    decision = await owed(still, workflow_id, "decision")
    counts["decision"] = await counted(workflow_handlers.handle_decision(services, decision))
    counts["cancel"] = await counted(still.cancel(workflow_id))
    return counts


async def test_statements_of_each_step(still, counted, staged):
    """One load and one apply; a decision reads what ended before, and what its commands' keys are bound to.

    The first walk only prepares the statements of the connection.
    """
    await walk(still, counted, staged, "first")
    assert await walk(still, counted, staged, "second") == {
        "context": 1,
        "local result": 2,
        "its replay": 1,
        "fork": 2,
        "event": 2,
        "status": 1,
        "result": 1,
        "decision with commands": 4,
        "last child": 4,
        "decision": 3,
        "cancel": 2,
    }
