"""What a step costs, in statements: counts are exact, times are nobody's business here."""

import asyncio

import pytest

from protocol3.coordinator.background import workflow_handlers
from protocol3.core.records import Agenda, Obligation
from protocol3.store.database import open_pool
from protocol3.store.tables import record_of


@pytest.fixture
async def pool(database):
    """One connection for everything: whoever needed two at once would wait for good."""
    pool = await open_pool(database, size=1)
    yield pool
    await pool.close()


@pytest.fixture
def counted(pool, monkeypatch):
    """`await counted(call)`: how many statements a call sends."""
    for module in ("coordinator.operations.acceptance", "store.remembered"):
        monkeypatch.setattr(f"protocol3.{module}.FRESH_S", 60.0)  # on a machine without haste
    monkeypatch.setattr("protocol3.store.remembered.LAG_MS", 60_000)
    monkeypatch.setattr("protocol3.store.remembered.REST_S", 0.0)

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
    submit = await counted(still.submit(key, queue=key))
    replay = await counted(still.submit(key, queue=key))
    root = await still.submit(key, queue=key)
    workflow_id, services = root["workflow_id"], still.services
    run = await still.start(key)
    counts = {
        "submit": submit,
        "its replay": replay,
        "context": await counted(run.context()),
        "local result": await counted(run.local()),
        "fork": await counted(run.fork("x")),
        "local result after the fork": await counted(run.local("more")),
        "renewal": await counted(run.dispatch(2)),
        "replayed local result": await counted(run.local()),
        "event": await counted(still.send(workflow_id, "k")),
        "status": await counted(still.status(workflow_id)),
        "result": await counted(still.result(workflow_id)),
    }
    suspending = run.decide("suspend", revision=0, commands=[staged("a", queue=f"{key}-rates")], until=["a"])
    counts["settlement with commands"] = await counted(suspending)
    decision = await owed(still, workflow_id, "decision")
    counts["decision with commands"] = await counted(workflow_handlers.handle_decision(services, decision))
    await (await still.start(f"{key}-rates")).succeed(1)
    child = await owed(still, workflow_id, "child")
    counts["last child"] = await counted(workflow_handlers.handle_child_ended(services, child))
    run = await still.start(key)
    counts["settlement and decision"] = await counted(run.decide("continue", revision=1))
    run = await still.start(key)
    counts["the same with results"] = await counted(run.decide("suspend", revision=2, until=["a"]))
    run = await still.start(key)
    await run.decide("continue", revision=3, quiescence="unconfirmed")
    counts["confirmation"] = await counted(run.confirm())
    decision = await owed(still, workflow_id, "decision")
    counts["decision"] = await counted(workflow_handlers.handle_decision(services, decision))
    counts["cancel"] = await counted(still.cancel(workflow_id))
    return counts


async def test_statements_of_each_step(still, counted, staged):
    """One load and one apply; a settlement is one step with its decision if nothing has to be resolved.

    A decision that is a step of its own reads what ended before, and what its commands' keys are bound to.

    The first walk only prepares the statements of the connection.
    """
    await walk(still, counted, staged, "first")
    assert await walk(still, counted, staged, "second") == {
        "submit": 2,
        "its replay": 1,
        "context": 1,
        "local result": 1,
        "fork": 2,
        "local result after the fork": 1,
        "renewal": 1,
        "replayed local result": 2,
        "event": 2,
        "status": 1,
        "result": 1,
        "settlement with commands": 2,
        "decision with commands": 4,
        "last child": 4,
        "settlement and decision": 2,
        "the same with results": 3,
        "confirmation": 2,
        "decision": 3,
        "cancel": 2,
    }


async def test_ends_met_together_cost_one_load_and_one_apply(still, counted, staged):
    """However many there are; the last ones load what the workflow goes on with as well."""

    async def cost(key):
        names = [f"c{n}" for n in range(8)]
        root, services = await still.submit(key, queue=key), still.services
        await (await still.start(key)).decide(
            "suspend", commands=[staged(name, queue=f"{key}-rates") for name in names], until=names
        )
        await workflow_handlers.handle_decision(services, await owed(still, root["workflow_id"], "decision"))
        counts = []
        for ending in (3, 5):
            for _ in range(ending):
                await (await still.start(f"{key}-rates")).succeed(1)
            ends = await services.pool.fetch("select o from obligation o where workflow_id = $1", root["workflow_id"])
            held = [record_of(Obligation, row["o"]) for row in ends]
            assert len(held) == ending
            counts.append(await counted(workflow_handlers.handle_child_ended(services, *held)))
        assert len((await (await still.start(key)).context())["inputs"]) == 8
        return counts

    await cost("first")
    assert await cost("second") == [2, 4]


async def naps(still, *keys):
    """Agenda entries of workflows that sleep; their time has come."""
    pool, entries = still.services.pool, []
    for key in keys:
        root = await still.submit(key, queue=key)
        await (await still.start(key)).decide("wait", wait={"kind": "timer", "key": "nap", "delay_ms": 3_600_000})
        await pool.execute("update wait set deadline = 1 where workflow_id = $1", root["workflow_id"])
        text = "update agenda set due = 1 where kind = 'wait' and ref = $1 returning agenda"
        entries.append(record_of(Agenda, await pool.fetchval(text, root["workflow_id"])))
    return entries


async def test_deadlines_that_came_together_cost_one_load_and_one_apply(still, counted):
    """However many there are; what several workflows wait for is no reason to write several times."""
    await workflow_handlers.handle_waits_due(still.services, await naps(still, "a", "b"))
    entries = await naps(still, "c", "d", "e")
    assert await counted(workflow_handlers.handle_waits_due(still.services, entries)) == 2
    for key in "cde":
        assert (await (await still.start(key)).context())["wake"]["deadline"] == 1
    assert await still.services.pool.fetchval("select count(*) from agenda where kind = 'wait'") == 0


async def test_exchanges_go_on_between_deadlines_that_came_together(still, monkeypatch):
    """What is ready when one workflow of a group is decided runs before the next one is, and before all are written."""
    entries, order, loop = await naps(still, "h", "i", "j"), [], asyncio.get_running_loop()
    decide, all_of = workflow_handlers.decide_wait, workflow_handlers.all_of

    def decided(*arguments):
        order.append("decided")
        loop.call_soon(order.append, "other")
        return decide(*arguments)

    def written(ends):
        order.append("written")
        return all_of(ends)

    monkeypatch.setattr(workflow_handlers, "decide_wait", decided)
    monkeypatch.setattr(workflow_handlers, "all_of", written)
    assert await workflow_handlers.handle_waits_due(still.services, entries)
    assert order == [*["decided", "other"] * 3, "written"]


async def test_deadlines_of_which_one_is_contested_all_stay(still, monkeypatch):
    """TMR-013, RCV-004: a cancellation comes between load and apply; then each is handled alone."""
    entries, load = await naps(still, "f", "g"), workflow_handlers.progress.waits

    def overtaken(sql, workflow_ids):
        async def _load(connection):
            states = await load(sql, workflow_ids)(connection)
            await connection.execute("update workflow set version = version + 1 where id = $1", entries[0].ref)
            return states

        return _load

    with monkeypatch.context() as patch:
        patch.setattr(workflow_handlers.progress, "waits", overtaken)
        assert await workflow_handlers.handle_waits_due(still.services, entries) is False
    assert [(await still.status(entry.ref))["state"] for entry in entries] == ["waiting", "waiting"]
    for entry in entries:
        await workflow_handlers.handle_wait_due(still.services, entry)
    assert [(await still.status(entry.ref))["state"] for entry in entries] == ["running", "running"]
