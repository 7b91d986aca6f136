"""Rules that strike exchanges, over HTTP: every place with every act, and who does not notice."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from protocol3.coordinator.controls.parts import ControlledParts
from protocol3.coordinator.controls.places import HELD_INSIDE
from protocol3.coordinator.http.exchange import Exchanges

TASK = {"queue": "q", "program": {"id": "hello", "version": "1"}, "data": None}
FAULTS, CANCEL = "/testing/v1/faults", "/v1/tasks/cancel"
STATUS = {"kind": "status", "status": 418, "body": {"any": [1, 1.0]}}
BODIES = {
    "fail": (503, {"code": "unavailable", "message": "a fault rule ended the exchange"}),
    "drop": (0, None),
    "status": (418, {"any": [1, 1.0]}),
}


@pytest.fixture
async def connection(database):
    """Another session on the server's database."""
    connection = await asyncpg.connect(database, server_settings={"search_path": "protocol3"})
    yield connection
    await connection.close()


async def state(server, task_id):
    return (await server.get("/v1/tasks/status", task_id=task_id))["state"]


async def hits(server):
    return [rule["hits"] for rule in (await server.get(FAULTS))["faults"]]


async def until_hits(server, *wanted):
    async with asyncio.timeout(20):
        while await hits(server) != list(wanted):
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
@pytest.mark.parametrize("act", BODIES)
async def test_an_exchange_is_ended(server, where, act):
    """Before the commit nothing is done, after it everything; the repetition is answered as ever."""
    task_id = (await server.submit())["task_id"]
    await server.fault(CANCEL, STATUS if act == "status" else act, where)
    assert await server.send(CANCEL, task_id=task_id) == BODIES[act]
    assert await state(server, task_id) == ("cancelled" if where == "committed" else "queued")
    assert await server.post(CANCEL, task_id=task_id) == "cancelled"
    assert await hits(server) == [1]


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
async def test_an_exchange_is_held(server, connection, where):
    """TST-026, TST-033, TST-034: seen in the list, with its task; released it goes on. Nobody gets at the task while
    its guards are held.
    """
    task_id = (await server.submit())["task_id"]
    fault = await server.fault(CANCEL, "hold", where)
    cancelling = asyncio.create_task(server.send(CANCEL, task_id=task_id))
    (held,) = await server.until_held()
    match = {"method": "POST", "path": CANCEL}
    assert held == {"id": held["id"], "fault": fault, "match": match, "where": where, "subject": task_id}
    assert await state(server, task_id) == ("cancelled" if where == "committed" else "queued")
    free = "select 1 from task where id = $1 for update skip locked"
    assert await connection.fetchval(free, task_id) == (None if where in ("locked", "written") else 1)
    assert not cancelling.done()
    assert await server.post(f"{FAULTS}/release") == {"released": 1}
    assert await cancelling == (200, "cancelled")
    assert (await server.get(FAULTS))["held"] == []


@pytest.mark.parametrize("where", ["locked", "written"])
async def test_many_held_exchanges_leave_the_others_their_connections(server, wire, where):
    """TST-003, TST-026: of more than the process has connections, few hold one, and another scope does not notice."""
    await server.fault("/v1/tasks", {"kind": "delay", "ms": 0}, times=None)
    await server.fault("/v1/tasks", "hold", where, times=None)
    many = [asyncio.create_task(server.submit(f"key {n}")) for n in range(ControlledParts.pool_size + 5)]
    await until_hits(server, len(many), HELD_INSIDE)
    other = wire(server.scope["namespace"][:90] + "-other")
    other.url = server.url
    async with asyncio.timeout(20):
        await other.submit()
    assert len((await server.get(FAULTS))["held"]) == HELD_INSIDE
    await server.post(f"{FAULTS}/clear")
    assert len({task["task_id"] for task in await asyncio.gather(*many)}) == len(many)


@pytest.mark.parametrize("status", [204, 299, 304, 599])
async def test_statuses_that_the_contract_does_not_use(server, status):
    """TST-031: any that HTTP allows, registered or not."""
    await server.fault("/v1/tasks", {"kind": "status", "status": status})
    command = {"idempotency_key": "k", "input": TASK | server.scope}
    head, _, body = (await server.raw("POST", "/v1/tasks", command)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert body == b""


async def test_a_delay(server):
    """It only takes longer."""
    task_id = (await server.submit())["task_id"]
    await server.fault(CANCEL, {"kind": "delay", "ms": 1})
    assert await server.post(CANCEL, task_id=task_id) == "cancelled"
    assert await hits(server) == [1]


async def test_a_reply_that_drips(server):
    """The same bytes, but for what names the exchange and its second; on a kept connection the next one follows."""
    task_id = (await server.submit())["task_id"]
    await server.fault(CANCEL, {"kind": "drip", "bytes": 7, "every_ms": 0}, "committed")
    body = {"scope": server.scope, "task_id": task_id}
    dripped, plain = [(await server.raw("POST", CANCEL, body)).split(b"\r\n") for _ in range(2)]
    assert await hits(server) == [1]
    assert [line for line in dripped if b"Date" not in line and b"Request-Id" not in line] == [
        line for line in plain if b"Date" not in line and b"Request-Id" not in line
    ]
    await server.fault(CANCEL, {"kind": "drip", "bytes": 1, "every_ms": 0}, "committed")
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    content = json.dumps(body).encode()
    head = f"POST {CANCEL} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
    for _ in range(2):
        writer.write(f"{head}\r\n\r\n".encode() + content)
        async with asyncio.timeout(20):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            assert await reader.readexactly(11) == b'"cancelled"'
    writer.close()


async def test_reads_are_exchanges_too(server):
    """A GET route has places before and after the operation."""
    task_id = (await server.submit())["task_id"]
    match = {"method": "GET", "path": "/v1/tasks/status"}
    await server.post(FAULTS, match=match, where="committed", act={"kind": "drop"})
    query = f"/v1/tasks/status?tenant_id=t&namespace={server.scope['namespace']}&task_id={task_id}"
    assert (await server.exchange("GET", query))[0] == 0
    assert (await server.exchange("GET", query))[0] == 200


async def test_some_are_skipped_and_some_are_struck(server):
    """TST-023: the second and the third of four, whatever they are about."""
    await server.fault("/v1/worker-sessions", "drop", skip=1, times=2)
    opened = [(await server.send("/v1/worker-sessions", queue="q", concurrency=1))[0] for _ in range(4)]
    assert opened == [200, 0, 0, 200]
    assert await hits(server) == [2]


async def test_rules_in_the_order_of_their_arrival(server):
    """TST-024: one that lets the exchange go on is followed by the next; one that ends it hides the next."""
    await server.fault("/v1/worker-sessions", {"kind": "delay", "ms": 0}, times=None)
    await server.fault("/v1/worker-sessions", "fail")
    await server.fault("/v1/worker-sessions", "drop")
    opened = [(await server.send("/v1/worker-sessions", queue="q", concurrency=1))[0] for _ in range(3)]
    assert opened == [503, 0, 200]
    assert await hits(server) == [3, 1, 1]


async def test_what_is_refused_reaches_no_commit(server):
    """`committed` is where a reply 200 is due, `locked` and `written` where something would be changed."""
    await server.fault(CANCEL, "drop", "committed")
    await server.fault(CANCEL, "fail", "locked")
    await server.fault(CANCEL, "fail", "written")
    assert await server.send(CANCEL, task_id="unknown") == (404, {"code": "not_found"})
    task_id = (await server.submit())["task_id"]
    assert (await server.send(CANCEL, task_id=task_id))[0] == 503
    assert (await server.send(CANCEL, task_id=task_id))[0] == 503
    assert (await server.send(CANCEL, task_id=task_id))[0] == 0
    assert await server.send(CANCEL, task_id=task_id) == (200, "cancelled")


async def test_malformed_requests_belong_to_no_scope(server):
    """TST-021: a rule sees decoded commands alone."""
    await server.fault(CANCEL, "drop", times=None)
    assert (await server.send(CANCEL, task_id=1))[0] == 400
    assert await hits(server) == [0]


async def test_a_session_names_its_scope(server):
    """TST-021: the extension of a session has no scope of its own."""
    session = await server.post("/v1/worker-sessions", queue="q", concurrency=1)
    await server.fault("/v1/worker-sessions/extend", "drop")
    extend = {"worker_session_id": session["id"]}
    assert (await server.exchange("POST", "/v1/worker-sessions/extend", extend))[0] == 0
    assert (await server.exchange("POST", "/v1/worker-sessions/extend", extend))[0] == 200
    unknown = {"worker_session_id": "ws_none"}
    assert (await server.exchange("POST", "/v1/worker-sessions/extend", unknown))[0] == 404


async def test_a_poll_is_held_before_and_after_its_claim(server):
    """A lost assignment is found again by repeating the poll (DLV-013)."""
    await server.submit()
    session = await server.post("/v1/worker-sessions", queue="q", concurrency=1)
    poll = {"queue": "q", "worker_session_id": session["id"], "consumer_id": 0, "sequence": 1, "wait_ms": 0}
    await server.fault("/v1/acquisitions", "drop", "committed")
    assert await server.send("/v1/acquisitions", **poll) == (0, None)
    again = await server.post("/v1/acquisitions", **poll)
    assert again["disposition"] == "assigned"
    await server.fault("/v1/acquisitions", "hold")
    waiting = asyncio.create_task(server.send("/v1/acquisitions", **poll))
    await server.until_held()
    await server.post(f"{FAULTS}/release")
    assert (await waiting)[1]["assignment"]["lease"] == again["assignment"]["lease"]


async def test_a_rule_does_not_stay_with_the_queue(server):
    """What claims for a queue outlives the poll that needed it first, and belongs to no exchange."""
    session = await server.post("/v1/worker-sessions", queue="q", concurrency=2)
    poll = {"queue": "q", "worker_session_id": session["id"], "sequence": 1, "wait_ms": 20_000}
    await server.fault("/v1/acquisitions", {"kind": "delay", "ms": 0}, times=None)
    waiting = [asyncio.create_task(server.send("/v1/acquisitions", consumer_id=n, **poll)) for n in (0, 1)]
    await until_hits(server, 2)
    for n in range(2):
        await server.submit(f"key {n}")
    assert [(await one)[1]["disposition"] for one in waiting] == ["assigned", "assigned"]


async def test_no_other_scope_notices(server, wire):
    """TST-003, TST-004, TST-026: dozens held in one scope, at every place; another one is served as ever."""
    other = wire("another")
    other.url = server.url
    tasks = [(await server.submit(f"key {n}"))["task_id"] for n in range(12)]
    await server.fault(CANCEL, "hold", "locked", times=None)
    await server.fault("/v1/worker-sessions", "hold", times=None)
    held = [asyncio.create_task(server.send(CANCEL, task_id=task_id)) for task_id in tasks]
    held += [asyncio.create_task(server.send("/v1/worker-sessions", queue="q", concurrency=1)) for _ in range(40)]
    await server.until_held(52)
    for n in range(5):
        task_id = (await other.submit(f"key {n}"))["task_id"]
        assert await other.post(CANCEL, task_id=task_id) == "cancelled"
    assert await other.get(FAULTS) == {"faults": [], "held": []}
    assert await server.post(f"{FAULTS}/clear") == {"cleared": 2, "released": 52}
    assert {status for status, _ in await asyncio.gather(*held)} == {200}


async def test_release_of_one(server):
    """TST-034: by what is held, then by its rule."""
    await server.fault("/v1/worker-sessions", "hold", times=None)
    opening = {"queue": "q", "concurrency": 1}
    first = asyncio.create_task(server.send("/v1/worker-sessions", **opening))
    (held,) = await server.until_held()
    second = asyncio.create_task(server.send("/v1/worker-sessions", **opening))
    await server.until_held(2)
    assert await server.post(f"{FAULTS}/release", id=held["id"]) == {"released": 1}
    assert (await first)[0] == 200
    assert not second.done()
    assert await server.post(f"{FAULTS}/release", id=held["fault"]) == {"released": 1}
    assert (await second)[0] == 200
    assert await server.send(f"{FAULTS}/release", id=held["id"]) == (404, {"code": "not_found"})


async def test_submissions_meet_the_program_store(server):
    """program.resolve is a step of the scope that asks; a replay asks nobody (TASK-109)."""
    match = {"step": "program.resolve"}
    await server.post(FAULTS, match=match, where="received", act={"kind": "fail"})
    body = {"idempotency_key": "key", "input": None}
    program = {"id": "hello", "version": "1"}
    body["input"] = {**server.scope, "queue": "q", "program": program, "data": {}}
    status, document = await server.exchange("POST", "/v1/tasks", body)
    assert (status, document["code"]) == (503, "unavailable")
    task = await server.submit()
    await server.post(FAULTS, match=match, where="received", act={"kind": "hold"})
    assert await server.submit() == task
    new = asyncio.create_task(server.submit("new"))
    await server.until_held()
    await server.post(f"{FAULTS}/release")
    assert (await new)["state"] == "queued"


async def test_a_shutdown_ends_all_rules(started):
    """TST-027: what is held goes on and is answered; the drain does not wait for a test that forgot it."""
    server = await started(test_controls=True)
    task_id = (await server.submit())["task_id"]
    await server.fault(CANCEL, "hold", "locked")
    cancelling = asyncio.create_task(server.send(CANCEL, task_id=task_id))
    await server.until_held()
    await server.stop()
    assert await cancelling == (200, "cancelled")


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
async def test_the_budget_goes_on(started, monkeypatch, where):
    """TST-025, HTTP-080, HTTP-081: held too long it ends as always, undone unless it was committed; nothing stays
    held.
    """
    monkeypatch.setitem(Exchanges.__init__.__kwdefaults__, "budget_s", 2.0)
    server = await started(test_controls=True)
    task_id = (await server.submit())["task_id"]
    await server.fault(CANCEL, "hold", where)
    status, document = await server.send(CANCEL, task_id=task_id)
    assert (status, document["code"]) == (503, "unavailable")
    await server.until_held(0)
    assert await state(server, task_id) == ("cancelled" if where == "committed" else "queued")
    assert await server.post(CANCEL, task_id=task_id) == "cancelled"


async def test_concurrent_commands_one_after_the_other(server):
    """TASK-206 in a forced order: the second waits for the first, which holds the task, and finds it cancelled."""
    task_id = (await server.submit())["task_id"]
    await server.fault(CANCEL, "hold", "locked")
    first = asyncio.create_task(server.send(CANCEL, task_id=task_id))
    await server.until_held()
    await server.fault(CANCEL, {"kind": "delay", "ms": 0})
    second = asyncio.create_task(server.send(CANCEL, task_id=task_id))
    await until_hits(server, 1, 1)
    assert not second.done()
    await server.post(f"{FAULTS}/release")
    assert await asyncio.gather(first, second) == [(200, "cancelled")] * 2
    history = await server.get("/v1/tasks/history", task_id=task_id, after_sequence="0")
    assert [record["event"]["reason"] for record in history] == ["submitted", "cancel_requested", "cancelled"]


@pytest.mark.parametrize("where", ["received", "written", "committed"])
async def test_a_claim(server, connection, where):
    """Held before its commit nobody sees it; held after it the task is taken, and nobody told yet."""
    task_id = (await server.submit())["task_id"]
    session = await server.post("/v1/worker-sessions", queue="q", concurrency=1)
    await server.post(FAULTS, match={"step": "task.claim"}, where=where, act={"kind": "hold"})
    poll = {"queue": "q", "worker_session_id": session["id"], "consumer_id": 0, "sequence": 1, "wait_ms": 20_000}
    polling = asyncio.create_task(server.send("/v1/acquisitions", **poll))
    (held,) = await server.until_held()
    assert (held["match"], held["subject"]) == ({"step": "task.claim"}, None)
    assert await state(server, task_id) == ("active" if where == "committed" else "queued")
    free = "select 1 from task where id = $1 for update skip locked"
    assert await connection.fetchval(free, task_id) == (None if where == "written" else 1)
    assert not polling.done()
    await server.post(f"{FAULTS}/release")
    assert (await polling)[1]["assignment"]["lease"]["owner"]["task_id"] == task_id


@pytest.mark.parametrize("where", ["received", "written"])
async def test_a_claim_fails(server, where):
    """A poll that may not wait is told so, one that may waits on."""
    task_id = (await server.submit())["task_id"]
    session = await server.post("/v1/worker-sessions", queue="q", concurrency=1)
    poll = {"queue": "q", "worker_session_id": session["id"], "consumer_id": 0, "sequence": 1}
    for wait_ms, status in ((0, 503), (20_000, 200)):
        await server.post(FAULTS, match={"step": "task.claim"}, where=where, act={"kind": "fail"})
        answer = await server.send("/v1/acquisitions", **poll, wait_ms=wait_ms)
        assert answer[0] == status
    assert answer[1]["assignment"]["lease"]["owner"]["task_id"] == task_id
    assert await hits(server) == [1, 1]


@pytest.mark.parametrize(("sequence", "answer"), [(1, (200, "empty")), (9, (409, "out_of_order"))])
async def test_a_poll_that_claims_nothing_is_no_claim(server, sequence, answer):
    """TST-023, DLV-035: refused or repeated it is answered, and the rule waits for a claim."""
    session = await server.post("/v1/worker-sessions", queue="q", concurrency=1)
    poll = {"queue": "q", "worker_session_id": session["id"], "consumer_id": 0}
    await server.post("/v1/acquisitions", **poll, sequence=1)
    task_id = (await server.submit())["task_id"]
    await server.post(FAULTS, match={"step": "task.claim"}, where="received", act={"kind": "hold"})
    async with asyncio.timeout(20):
        status, reply = await server.send("/v1/acquisitions", **poll, sequence=sequence, wait_ms=20_000)
    assert (status, reply.get("code") or reply["disposition"]) == answer
    assert await hits(server) == [0]
    claiming = asyncio.create_task(server.send("/v1/acquisitions", **poll, sequence=2))
    await server.until_held()
    await server.post(f"{FAULTS}/release")
    assert (await claiming)[1]["assignment"]["lease"]["owner"]["task_id"] == task_id
