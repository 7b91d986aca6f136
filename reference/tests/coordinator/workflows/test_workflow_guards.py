"""Transitions that are overtaken between load and apply: they miss, look again, and decide by what they find then.

A second session holds the guarded row, changes something that belongs to it, raises its version and commits, while the
transition waits for the row.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from protocol3.coordinator.background import workflow_handlers
from protocol3.core.records import Obligation
from protocol3.store.database import open_pool
from protocol3.store.tables import record_of

_BLOCKED = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
async def overtaken(database, eventually):
    """`async with overtaken(call, table, id) as session`: the call waits for the row until the block has ended.

    `changed=False` leaves the version of the row as it is.
    Its outcome is in `session.outcome` then: the reply, or the code of the refusal.
    """
    rivals = await open_pool(database, size=2)

    @asynccontextmanager
    async def _overtaken(call, table, id, *, changed=True):
        async with rivals.acquire() as rival, rivals.acquire() as observer:
            async with rival.transaction():
                await rival.execute(f"select 1 from {table} where id = $1 for update", id)
                task = asyncio.ensure_future(call)
                await eventually(lambda: observer.fetchval(_BLOCKED), lambda blocked: blocked > 0)
                session = Rival(rival)
                yield session
                if changed:
                    await rival.execute(f"update {table} set version = version + 1 where id = $1", id)
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            session.outcome = getattr(outcome, "code", outcome)

    yield _overtaken
    await rivals.close()


class Rival:
    def __init__(self, connection):
        self.execute = connection.execute
        self.fetchval = connection.fetchval
        self.outcome = None


async def test_an_event_overtaken_by_another_for_its_key(still, overtaken):
    """EVT-011 step 3, RACE-18."""
    workflow_id = (await still.submit())["workflow_id"]
    async with overtaken(still.send(workflow_id, "k"), "workflow", workflow_id) as rival:
        await rival.execute("insert into inbox values ($1, 'k', '/other', 'e', 'x', 1, 1)", workflow_id)
    assert rival.outcome == "conflict"


async def test_an_event_overtaken_by_its_deadline(still, overtaken, eventually):
    """RACE-14, EVT-016: the time after obtaining authority counts, though nothing else changed."""
    root = await still.submit()
    await (await still.start()).decide("wait", wait={"kind": "event", "key": "k", "timeout_ms": 400})
    passed = "select extract(epoch from clock_timestamp()) * 1000 > deadline from wait where workflow_id = $1"
    sending = still.send(root["workflow_id"], "k")
    async with overtaken(sending, "workflow", root["workflow_id"], changed=False) as rival:
        assert not await rival.fetchval(passed, root["workflow_id"])
        await eventually(lambda: rival.fetchval(passed, root["workflow_id"]), bool)
    assert rival.outcome == "obsolete_operation"


async def test_a_record_overtaken_by_another_under_its_key(still, overtaken):
    """LOC-004 step 5, LOC-011."""
    await still.submit()
    run = await still.start()
    async with overtaken(run.local("fx"), "task", run.task_id) as rival:
        await rival.execute("insert into local values ($1, 'fx', 'att', '{}', 'x')", run.task_id)
    assert rival.outcome == "conflict"


async def test_a_record_overtaken_by_a_cancel(still, overtaken):
    """DRN-008: the workflow is a guard of every record, though no record changes it."""
    root = await still.submit()
    run = await still.start()
    async with overtaken(run.local("fx"), "workflow", root["workflow_id"]) as rival:
        await rival.execute("update workflow set state = 'cancelling' where id = $1", root["workflow_id"])
    assert rival.outcome == "ownership_lost"


async def test_a_fork_overtaken_by_a_child_under_a_branch_key(still, overtaken, pool):
    """FRK-010 step 9, FRK-011: nothing of the fork is left."""
    root = await still.submit()
    run = await still.start()
    async with overtaken(run.fork("a", "b"), "workflow", root["workflow_id"]) as rival:
        await rival.execute(
            "insert into child values ($1, 'b', 'task', 'task_x', null, 'x', null)", root["workflow_id"]
        )
    assert rival.outcome == "conflict"
    assert await pool.fetchval("select count(*) from workflow where parent_id = $1", root["workflow_id"]) == 0


async def test_a_fork_overtaken_by_the_settlement_of_its_attempt(still, overtaken):
    """FRK-015: the task is a guard of every fork, though no fork changes it."""
    await still.submit()
    run = await still.start()
    async with overtaken(run.fork("a"), "task", run.task_id) as rival:
        await rival.execute("update attempt set settled_at = 1 where id = $1", run.owner["attempt_id"])
    assert rival.outcome == "ownership_lost"


async def test_a_decision_overtaken_by_a_cancel(apart, overtaken, pool):
    """DEC step 1, RACE-06."""
    root = await apart.submit()
    await (await apart.start()).decide("continue")
    row = await pool.fetchrow("select o from obligation o where workflow_id = $1", root["workflow_id"])
    applying = workflow_handlers.handle_decision(apart.services, record_of(Obligation, row["o"]))
    async with overtaken(applying, "workflow", root["workflow_id"]) as rival:
        await rival.execute("update workflow set state = 'cancelling' where id = $1", root["workflow_id"])
    assert rival.outcome is None
    status = await apart.status(root["workflow_id"])
    assert (status["state"], status["revision"]) == ("cancelling", 0)


async def test_a_settlement_overtaken_by_a_cancel(still, overtaken):
    """DEC step 1, RACE-06: the report is accepted, its decision is left to be discarded."""
    root = await still.submit()
    run = await still.start()
    async with overtaken(run.decide("continue", revision=0), "workflow", root["workflow_id"]) as rival:
        await rival.execute("update workflow set state = 'cancelling' where id = $1", root["workflow_id"])
    assert rival.outcome["task_state"] == "succeeded"
    status = await still.status(root["workflow_id"])
    assert (status["state"], status["revision"]) == ("cancelling", 0)
    assert await still.owed("decision") == 1
    assert await still.nothing()


async def test_a_settlement_overtaken_by_a_cancel_of_its_task(still, overtaken):
    """ACT-047, TASK-206: what it decided does not count any more."""
    root = await still.submit()
    run = await still.start()
    async with overtaken(run.decide("complete", revision=0, output=1), "task", run.task_id) as rival:
        await rival.execute("update task set cancel_requested_at = submitted_at where id = $1", run.task_id)
    assert rival.outcome["task_state"] == "cancelled"
    assert (await still.status(root["workflow_id"]))["state"] == "failing"
    assert await still.owed("decision") == 0


async def test_a_cancel_overtaken_by_the_end(still, overtaken):
    """RACE-09, WF-062."""
    root = await still.submit()
    async with overtaken(still.cancel(root["workflow_id"]), "workflow", root["workflow_id"]) as rival:
        end = "update workflow set state = 'succeeded', activation_id = null, terminal_at = submitted_at where id = $1"
        await rival.execute(end, root["workflow_id"])
    assert rival.outcome["state"] == "succeeded"
