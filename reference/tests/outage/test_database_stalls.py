"""A database that takes everything and answers nothing, and statements that wait for good: exchanges end in time."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from protocol3.coordinator import server
from protocol3.coordinator.http.exchange import Exchanges
from protocol3.coordinator.operations import operations
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.parts import Parts
from protocol3.store.transition import Transitions

#: Less than asyncpg's own patience with a statement, and with its cancellation.
IN_TIME_S = 20.0
LATE = {"code": "unavailable", "message": "the exchange took longer than its budget"}


class Hurried(Parts):
    """Exchanges have a budget of two seconds."""

    def exchanges(self, services, health, observers):
        return Exchanges(operations(services), health, observers=observers, budget_s=2.0)


@pytest.fixture
async def hurried(database, store, monkeypatch):
    """A server in this process, on the database that stalls."""
    monkeypatch.setattr(server, "_parts", lambda _: Hurried())
    ready = asyncio.get_running_loop().create_future()
    options = ServeOptions(listen_host="127.0.0.1", listen_port=0, database_url=database.url, store=store)
    serving = asyncio.create_task(server.serve(options, ready=ready.set_result))
    await asyncio.wait([ready, serving], return_when=asyncio.FIRST_COMPLETED)

    class Here:
        url = ready.result().url

    yield Here
    serving.cancel()
    async with asyncio.timeout(IN_TIME_S):
        await asyncio.gather(serving, return_exceptions=True)


async def test_a_stall(database, hurried, to, every_command, eventually):
    """HTTP-080, HTTP-081, HTTP-090: while nothing answers, every exchange is over within its budget, the service alive.

    Then everything works on; no connection in the midst of a statement was used again, none is left behind.
    """
    wire = to(hurried)
    session = await wire.open()
    await wire.ready()
    with database.stalled():
        async with asyncio.timeout(IN_TIME_S):
            for _ in range(2):
                commands = every_command(wire, session)
                replies = dict(zip(commands, await asyncio.gather(*commands.values()), strict=True))
                assert {name: (status, reply["code"]) for name, (status, reply) in replies.items()} == dict.fromkeys(
                    commands, (503, "unavailable")
                )
            assert (await wire.health("live"))[0] == 200
    task = await wire.submit("after")
    for _ in range(3):
        replies = await asyncio.gather(*(wire.get("/v1/tasks/status", task_id=task["task_id"]) for _ in range(40)))
        assert {(status, reply["state"]) for status, reply in replies} == {(200, "queued")}
    await wire.ready()
    busy = "select count(*) from pg_stat_activity where application_name like 'protocol3%' and state <> 'idle'"
    await eventually(lambda: database.ask(busy), lambda count: count == 0)


@pytest.mark.parametrize("locked", [False, True])
async def test_a_row_that_stays_locked(database, hurried, to, locked, monkeypatch):
    """HTTP-080: a transition that waits for a row ends within the budget, in the ordinary form (its apply waits) and in
    the locked one (in a transaction); others go on, and so does this one afterwards.
    """
    wire = to(hurried)
    task, other = await wire.submit("a"), await wire.submit("b")
    rival = await asyncpg.connect(database.url, server_settings={"search_path": "protocol3"})
    try:
        holding = rival.transaction()
        await holding.start()
        await rival.execute("select from task where id = $1 for update", task["task_id"])
        if locked:

            async def missed(*_):
                return False

            monkeypatch.setattr(Transitions, "_applied", missed)
        async with asyncio.timeout(IN_TIME_S):
            assert (await wire.post("/v1/tasks/cancel", task_id=task["task_id"])) == (503, LATE)
            assert (await wire.sure(lambda: wire.post("/v1/tasks/cancel", task_id=other["task_id"]))) == "cancelled"
        await holding.rollback()
        assert (await wire.sure(lambda: wire.post("/v1/tasks/cancel", task_id=task["task_id"]))) == "cancelled"
    finally:
        rival.terminate()


async def test_a_signal_during_a_stall(database, coordinator, wire, eventually):
    """It ends though nothing can be said to the database."""
    await wire.ready()
    with database.stalled():
        stuck = "recovery_last_success_age_ms"
        await eventually(lambda: wire.health("ready"), lambda reply: reply[1][stuck] > 1_500)  # in its statement
        assert await asyncio.to_thread(coordinator.end) == 0
    assert "Traceback" not in coordinator.log.read_text()
