"""A coordinator whose database goes away and comes back: 503 meanwhile, then everything goes on without a restart."""

from __future__ import annotations

import asyncio
import json
import signal
import time

import pytest


async def test_away_and_back(database, coordinator, wire, every_command, eventually):
    """HTTP-067, HTTP-090 to HTTP-092, TASK-021: every command is unavailable, the service alive and unready; then it
    goes on by itself: a waiting poll gets what is submitted later, hints are listened for again.
    """
    session = await wire.open()
    await wire.ready()
    patient = asyncio.create_task(wire.poll(session, 1, wait_ms=20_000))
    giving_up = asyncio.create_task(wire.poll(session, 1, consumer=1, wait_ms=3_000))
    judged = "query like '%c.sequence >= u.sequence%' and pid <> pg_backend_pid()"
    await eventually(lambda: database.ask(f"select count(*) from pg_stat_activity where {judged}"))  # both wait
    database.stop()
    unready = await eventually(lambda: wire.health("ready"), lambda reply: reply[0] == 503)
    assert unready[1]["status"] == "not_ready"
    assert set(unready[1]["reasons"]) <= {"recovery_unavailable", "workflow_recovery_unavailable"}
    assert await wire.health("live") == (200, {"status": "ok", "reasons": []})
    commands = every_command(wire, session)
    replies = dict(zip(commands, await asyncio.gather(*commands.values()), strict=True))
    assert {name: (status, reply["code"]) for name, (status, reply) in replies.items()} == dict.fromkeys(
        commands, (503, "unavailable")
    )
    assert (await giving_up)[0] == 503
    assert not patient.done()
    database.start()
    await wire.ready()
    task = await wire.submit("later")
    status, reply = await patient
    assert (status, reply["disposition"]) == (200, "assigned")
    assert reply["assignment"]["event"]["ldgtaskid"] == task["task_id"]
    await eventually(database.listeners, lambda count: count == 1)
    assert [line["event"] for line in coordinator.changes()] == ["database lost", "database back"]
    assert coordinator.end() == 0
    assert "Traceback" not in coordinator.log.read_text()


async def test_what_became_due_meanwhile(database, coordinator, wire, eventually):
    """TMR-013, RCV-002, EVT-011: a timer whose instant passed fires, what was owed is met."""
    naps = (await wire.submit("naps", "/v1/workflows"))["workflow_id"]
    session = await wire.open()
    await wire.decide(await wire.assignment(session), "wait", wait={"kind": "timer", "key": "nap", "delay_ms": 1_000})
    await eventually(lambda: wire.get("/v1/workflows/status", workflow_id=naps), lambda r: r[1]["state"] == "waiting")
    deadline = await database.ask("select deadline from wait where workflow_id = $1", naps)
    owes = (await wire.submit("owes", "/v1/workflows"))["workflow_id"]
    assignment = await wire.assignment(session, 2)
    await wire.decide(assignment, "wait", wait={"kind": "event", "key": "paid", "timeout_ms": None})
    database.kill()
    database.start()
    database.stop()
    while time.time() * 1000 <= deadline:  # the instant passes while nobody can know it; the machine's clock is one
        await asyncio.sleep(0.02)
    database.start()
    await eventually(
        lambda: wire.get("/v1/workflows/status", workflow_id=owes), lambda r: r[1].get("state") == "waiting"
    )
    fired = await wire.assignment(session, 3)
    assert fired["event"]["ldgworkflowid"] == naps
    context = await wire.sure(
        lambda: wire.exchange("POST", "/v1/workflows/activations/context", fired["lease"]["owner"])
    )
    assert context["wake"] == {"kind": "timer", "key": "nap", "deadline": deadline}
    assert (await wire.poll(session, 1, consumer=1))[1]["disposition"] == "empty"


class Ledger:
    """What was acknowledged to clients and workers."""

    def __init__(self) -> None:
        self.submitted: dict[str, set[str]] = {}
        self.attempts: dict[str, set[str]] = {}
        self.settled: dict[str, set[str]] = {}


async def load(wire, ledger, *, tasks, midway):
    """Submit tasks and work on them; every command is repeated until it gets a definite answer (HTTP-068)."""
    session = await wire.open()
    done = asyncio.Event()

    async def submit(part):
        for n in range(tasks // 4):
            key = f"{part}-{n}"
            ledger.submitted.setdefault(key, set()).add((await wire.submit(key))["task_id"])
            ledger.submitted[key].add((await wire.submit(key))["task_id"])

    async def work(consumer):
        for sequence in range(1, tasks + 2):
            while not done.is_set():
                poll = wire.poll(session, sequence, consumer=consumer, wait_ms=500)
                status, reply = await poll
                if status == 200:
                    break
            if done.is_set():
                return
            if reply["disposition"] != "assigned":
                continue
            assignment = reply["assignment"]
            owner = assignment["lease"]["owner"]
            ledger.attempts.setdefault(owner["task_id"], set()).add(owner["attempt_id"])
            await wire.dispatch(assignment)
            receipt = await wire.settle(assignment, sequence)
            ledger.settled.setdefault(owner["task_id"], set()).add(json.dumps(receipt["receipt"]))
            if len(ledger.settled) == tasks // 2:
                await midway()
            if len(ledger.settled) == tasks:
                done.set()

    async with asyncio.timeout(60):
        await asyncio.gather(*map(submit, range(4)), *map(work, range(4)))


@pytest.mark.parametrize("blow", ["killed", "cut"])
async def test_nothing_is_lost_and_nothing_done_twice(database, coordinator, wire, eventually, blow):
    """DLV-120, TASK-016, HTTP-068: in the midst of load the server is killed, or all sessions are ended again and
    again. Every acknowledged task has one id, one attempt, one settlement; the coordinator was not restarted.
    """
    ledger = Ledger()

    async def midway():
        if blow == "killed":
            database.kill()
            database.start()
            return
        for _ in range(3):
            assert await database.cut()
            await eventually(database.listeners, lambda count: count == 1)

    await load(wire, ledger, tasks=120, midway=midway)
    assert all(len(ids) == 1 for ids in ledger.submitted.values())
    ids = {id for (id,) in ledger.submitted.values()}
    assert ids == set(ledger.attempts) == set(ledger.settled)
    assert all(len(attempts) == 1 for attempts in ledger.attempts.values())
    assert all(len(receipts) == 1 for receipts in ledger.settled.values())
    states = "select count(*) from task join scope on scope.id = scope_id where namespace = $1"
    assert await database.ask(states, wire.scope["namespace"]) == len(ids)
    assert await database.ask(f"{states} and state = 'succeeded'", wire.scope["namespace"]) == len(ids)
    attempts = "select count(*) from attempt a join task t on t.id = a.task_id join scope s on s.id = t.scope_id"
    assert await database.ask(f"{attempts} where s.namespace = $1", wire.scope["namespace"]) == len(ids)
    await wire.ready()
    assert coordinator.process.poll() is None
    assert "Traceback" not in coordinator.log.read_text()


async def test_no_connection_left(database, coordinator, wire, serve, eventually):
    """The server has no connection to give: what needs one is unavailable, and works once there are some again.

    A coordinator that starts then says so in a sentence.
    """
    await wire.open()
    await wire.ready()
    async with database.crowded():
        replies = await asyncio.gather(
            *(wire.exchange("POST", "/v1/tasks", wire.submission(f"{n}")) for n in range(40)),
            *(wire.get("/v1/tasks") for _ in range(40)),  # submissions share the few that are there, lists do not
        )
        assert {status for status, _ in replies} <= {200, 503}
        assert (503, {"code": "unavailable", "message": "the database cannot be reached"}) in replies
        assert [line["event"] for line in coordinator.changes()] == ["database lost"]
        late = serve()
        assert late.process.wait(timeout=30) == 1
        failure = json.loads(late.log.read_text().splitlines()[-1])
        assert "too many clients" in failure["message"]
    for n in range(40):
        await wire.sure(lambda n=n: wire.exchange("POST", "/v1/tasks", wire.submission(f"{n}")))
    await wire.ready()
    await eventually(database.listeners)
    assert "Traceback" not in coordinator.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_while_the_database_is_away(database, coordinator, wire, eventually, number):
    """The coordinator ends as ever, polls that wait included; the log says what it was told, and why it was unready."""
    session = await wire.open()
    patient = asyncio.create_task(wire.poll(session, 1, wait_ms=20_000))
    await wire.ready()
    database.stop()
    await eventually(lambda: wire.health("ready"), lambda reply: reply[0] == 503)
    assert await asyncio.to_thread(coordinator.end, number) == 0
    assert (await patient)[0] == 503
    log = coordinator.log.read_text()
    assert f"{number.name}: stopping" in log
    assert "Traceback" not in log
    assert [line["event"] for line in coordinator.changes()] == ["database lost"]
