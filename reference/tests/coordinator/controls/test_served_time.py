"""The clock over HTTP, and what a server without test controls knows of it: nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import asyncpg
import pytest

from protocol3.contract.models.common import Scope
from protocol3.store.database import DatabaseError

DAY = 86_400_000
CLOCK = "/testing/v1/clock"


@pytest.fixture
async def advanced(database):
    """Scopes of other tests of this module are not ahead."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.execute("update protocol3.scope set clock_offset_ms = 0")
    await connection.close()


async def test_read_and_advance(server, advanced):
    """TST-029, TST-030: the shapes of spec/35-testing-profiles.md, and a session that ends a day later."""
    before = await server.get(CLOCK)
    assert before.keys() == {"now", "next_due", "live_attempts"}
    assert abs(before["now"] - time.time() * 1000) < 60_000
    session = await server.post("/v1/worker-sessions", queue="q", concurrency=1)
    after = await server.post(CLOCK, advance_ms=DAY, leases="expire")
    assert after.keys() == {*before, "advanced_ms"}
    assert (after["advanced_ms"], after["now"] - before["now"] >= DAY) == (DAY, True)
    extend = {"worker_session_id": session["id"]}
    assert await server.exchange("POST", "/v1/worker-sessions/extend", extend) == (410, {"code": "session_expired"})


async def test_errors_are_the_contracts(server):
    """TST-002: strict JSON, media type, methods and queries as everywhere."""
    assert await server.exchange("DELETE", CLOCK) == (405, {"code": "method_not_allowed"})
    status, document = await server.exchange("POST", CLOCK, {"scope": server.scope, "advance_ms": "1"})
    assert (status, document["code"]) == (400, "invalid_input")
    assert document["message"].startswith("body.advance_ms: ")
    status, document = await server.exchange("GET", f"{CLOCK}?tenant_id=t")
    assert (status, document["code"]) == (400, "invalid_input")
    assert await server.exchange("GET", "/testing/v1/clocks") == (404, {"code": "route_not_found"})


async def test_a_bound_server_has_one_clock(started):
    """TST-003, HTTP-020: the clock of another scope is not found."""
    server = await started(test_controls=True, fixed_scope=Scope(tenant_id="t", namespace="bound"))
    assert await server.exchange("GET", f"{CLOCK}?tenant_id=t&namespace=foreign") == (404, {"code": "not_found"})
    assert (await server.exchange("GET", f"{CLOCK}?tenant_id=t&namespace=bound"))[0] == 200


async def test_other_processes_hear_of_an_advance(started, advanced, monkeypatch):
    """TST-012: a poll that waits in another process ends with its session at once, not at that process's next look."""
    monkeypatch.setattr("protocol3.coordinator.background.dispatcher.LOOK_S", 60.0)
    one, other = await started(test_controls=True), await started(test_controls=True)
    listeners = "select count(*) from pg_stat_activity where application_name = 'protocol3 hints' and state = 'idle'"
    async with asyncio.timeout(20):
        while await advanced.fetchval(listeners) < 2:
            await asyncio.sleep(0.005)
    session = await one.post("/v1/worker-sessions", queue="q", concurrency=1)
    poll = {"queue": "q", "worker_session_id": session["id"], "consumer_id": 0, "sequence": 1, "wait_ms": 20_000}
    waiting = asyncio.create_task(other.exchange("POST", "/v1/acquisitions", {"scope": other.scope} | poll))
    async with asyncio.timeout(20):
        while not waiting.done():
            await one.post(CLOCK, advance_ms=DAY)
            await asyncio.sleep(0.01)
    assert await waiting == (410, {"code": "session_expired"})


async def test_the_routes_do_not_exist_without_the_flag(started):
    """TST-001: unknown paths, whatever the method and the query."""
    server = await started()
    paths = [CLOCK, f"{CLOCK}?tenant_id=t&namespace=n", "/testing/v1/faults", "/testing/v1/faults/release"]
    for path in (*paths, "/testing/v1/faults/clear"):
        for method, body in (("GET", None), ("POST", {"scope": server.scope})):
            assert await server.exchange(method, path, body) == (404, {"code": "route_not_found"})


async def test_a_database_that_is_ahead(started, server, advanced):
    """TST-018: its time would fall back: refused with what to do; with the flag it goes on."""
    await server.post(CLOCK, advance_ms=1)
    with pytest.raises(DatabaseError, match="--test-controls"):
        await started()
    again = await started(test_controls=True)
    assert (await again.post(CLOCK, advance_ms=1))["advanced_ms"] == 1


def test_nothing_of_it_is_imported_without_the_flag(database, tmp_path):
    """A whole process, served and used: no module of the test controls is even loaded."""
    script = """
import asyncio, json, sys, urllib.request
from pathlib import Path
from protocol3.cli import main
from protocol3.coordinator.options import ServeOptions
from protocol3.coordinator.server import serve

async def run():
    ready = asyncio.get_running_loop().create_future()
    options = ServeOptions(listen_host="127.0.0.1", listen_port=0, database_url=sys.argv[1], store=Path(sys.argv[2]))
    task = asyncio.create_task(serve(options, ready=ready.set_result))
    body = json.dumps({"scope": {"tenant_id": "t", "namespace": "n"}, "queue": "q", "concurrency": 1}).encode()
    url = (await ready).url + "/v1/worker-sessions"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    reply = await asyncio.to_thread(urllib.request.urlopen, request)
    print(reply.status)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

asyncio.run(run())
print(sorted(name for name in sys.modules if "controls" in name or "virtual_time" in name))
"""
    command = [sys.executable, "-c", script, database, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert output.split("\n") == ["200", "[]", ""]
