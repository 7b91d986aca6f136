"""Worker sessions and acquisitions: sequences, replays, busy, lost, waiting (chapter 07)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.delivery import emitted_instant
from protocol3_conformance.wire.strict_json import encode, same

SAMPLING_MS = 250
"""Clock samples of one transition may lie a little apart (DLV-050)."""


async def now(lab: Lab) -> int:
    """An instant of the scope, from a task of a queue that nobody serves."""
    instant: int = (await lab.client.task(queue=lab.unique("unserved")))["submitted_at"]
    return instant


@scenario("sessions/open-and-extend", cites=["DLV-001", "DLV-003", "DLV-004", "DLV-005", "DLV-007", "DLV-021"])
async def test_open_and_extend(lab: Lab) -> None:
    """Every opening makes a new session; extending moves its end and nothing else; an unissued id is unknown."""
    validity, sampling = bound("SESSION_VALIDITY_MS"), SAMPLING_MS * lab.target.patience.factor
    start = await now(lab)
    first, second = await lab.worker(concurrency=2), await lab.worker(concurrency=2)
    opened = await now(lab)
    assert first.session["id"] != second.session["id"]
    for worker in (first, second):
        assert start - sampling <= worker.session["expires_at"] - validity <= opened + sampling
    assert (await first.acquire(1)).accepted()["disposition"] == "empty"
    extended = (
        await lab.client.post("/v1/worker-sessions/extend", {"worker_session_id": first.session["id"]})
    ).accepted()
    assert opened - sampling <= extended["expires_at"] - validity <= await now(lab) + sampling
    assert {**extended, "expires_at": 0} == {**first.session, "expires_at": 0}
    (await first.acquire(3)).refused("out_of_order")
    assert (await first.acquire(2)).accepted()["disposition"] == "empty", "the extension moved a cursor"
    unknown = {"worker_session_id": lab.unique("ws")}
    (await lab.client.post("/v1/worker-sessions/extend", unknown)).refused("unknown_session")


@scenario("sessions/invalid-openings", cites=["DLV-002", "JSON-080", "JSON-081", "TASK-040"])
async def test_invalid_openings(lab: Lab) -> None:
    """An opening with another concurrency than 1…2^32-1, or with unknown or missing members, is refused."""
    opening = {"scope": lab.scope, "queue": lab.queue, "concurrency": 1}
    largest = bound("MAX_CONCURRENCY")
    changes: dict[str, dict[str, Any]] = {
        **{f"concurrency {value!r}": {"concurrency": value} for value in (0, -1, 1.0, "1", None, True, largest + 1)},
        "unknown member": {"id": "ws_mine"},
        "scope with a stranger": {"scope": {**lab.scope, "region": "eu"}},
        "scope without namespace": {"scope": {"tenant_id": lab.scope["tenant_id"]}},
        "empty queue": {"queue": ""},
    }
    for name, change in changes.items():
        with lab.case(name):
            (await lab.client.post("/v1/worker-sessions", {**opening, **change})).refused("invalid_input")
    assert (await lab.client.post("/v1/worker-sessions", {**opening, "concurrency": largest})).status == 200


@scenario(
    "acquisition/first-assignment",
    cites=[
        "DLV-024",
        "DLV-026",
        "DLV-027",
        "DLV-028",
        "DLV-029",
        "DLV-041",
        "DLV-042",
        "DLV-325",
        "DLV-326",
    ],
)
async def test_first_assignment(lab: Lab) -> None:
    """A claim makes the task active and hands out attempt 1 with exactly the promised times."""
    task = await lab.client.task(data={"x": 1}, attempt_timeout_ms=90_000)
    worker = await lab.worker()
    claim = await worker.claim()
    authority, now = claim.assignment["authority"], emitted_instant(claim.event["time"])
    assert (claim.task_id, claim.owner["generation"]) == (task["task_id"], 1)
    assert claim.event["ldgrunid"] == task["run_id"]
    assert claim.assignment["descriptor"] == task["descriptor"]
    assert (authority["renew_sequence"], authority["dispatch_allowed"], authority["cancel_requested"]) == (
        0,
        False,
        False,
    )
    for name, shown, exact in [
        ("attempt deadline", claim.assignment["attempt_deadline"], now + 90_000),
        ("lease end", authority["expires_at"], now + bound("LEASE_MS")),
        ("remaining", authority["remaining_ms"], bound("LEASE_MS")),
        ("execution remaining", authority["execution_remaining_ms"], 90_000),
    ]:
        assert abs(shown - exact) <= SAMPLING_MS * lab.target.patience.factor, f"{name} is {shown}, expected {exact}"
    attempt = await claim.inspect()
    assert attempt["deadline"] == claim.assignment["attempt_deadline"]
    assert attempt["authority_deadline"] == attempt["deadline"] + bound("CLEANUP_GRACE_MS")
    assert (attempt["state"], attempt["execution_may_have_started"], attempt["quiescence"]) == (
        "active",
        False,
        "unconfirmed",
    )
    assert (attempt["last_renewal"], attempt["settlement"], attempt["finished_at"]) == (None, None, None)
    assert same(attempt["event"], claim.event)
    status = (await lab.client.status(claim.task_id)).accepted()
    assert (status["state"], status["attempt_count"], status["current_attempt_id"]) == ("active", 1, claim.attempt_id)
    assert status["available_at"] == task["available_at"]
    assert await lab.client.reasons(claim.task_id) == ["submitted", "claimed"]


@scenario("acquisition/time-of-an-invocation", cites=["TXT-046", "DLV-027"])
async def test_time_of_an_invocation(lab: Lab) -> None:
    """The event of an invocation is dated to the millisecond, so that its attempt ends when its timeout is over."""
    worker, within = await lab.worker(), SAMPLING_MS * lab.target.patience.factor
    for _ in range(5):
        await lab.client.task(attempt_timeout_ms=90_000)
        claim = await worker.claim()
        began = claim.assignment["attempt_deadline"] - 90_000
        if began % 1000 > within:  # what is cut to whole seconds differs now
            break
        await asyncio.sleep(within / 1000)
    found = emitted_instant(claim.event["time"])
    assert abs(found - began) <= within, f"the event is of {found}, its attempt of {began}"


@scenario(
    "acquisition/sequences",
    cites=["DLV-010", "DLV-018", "DLV-012", "DLV-030", "DLV-315", "DLV-316", "DLV-321", "DLV-322", "DLV-021"],
)
async def test_sequences(lab: Lab) -> None:
    """Sequences start at 1 without gaps; refused ones leave the cursor; a committed empty stays empty."""
    worker = await lab.worker()
    for wrong in (0, 2, 7):
        with lab.case(f"first sequence {wrong}"):
            (await worker.acquire(wrong)).refused("out_of_order")
    assert (await worker.acquire(1)).accepted()["disposition"] == "empty"
    await lab.client.task()
    assert (await worker.acquire(1)).accepted()["disposition"] == "empty", "a committed empty claimed later work"
    (await worker.acquire(3)).refused("out_of_order")
    assert (await worker.acquire(2)).accepted()["disposition"] == "assigned"
    (await worker.acquire(1)).refused("obsolete_operation")
    (await worker.acquire(0)).refused("out_of_order")


@scenario("acquisition/replay-of-an-assignment", cites=["DLV-013", "DLV-019", "DLV-052", "DLV-045"])
async def test_replay_of_an_assignment(lab: Lab) -> None:
    """Repeating the sequence returns the same assignment with authority of now, and extends nothing."""
    await lab.client.task(data=[1.0, -0.0])
    worker = await lab.worker()
    first = await worker.claim()
    sequence = worker.sequences[0]
    again = (await worker.acquire(sequence, wait_ms=20_000)).accepted()["assignment"]
    for name in ("descriptor", "event", "lease", "attempt_deadline"):
        assert same(again[name], first.assignment[name]), f"{name} changed on replay"
    assert again["authority"]["remaining_ms"] <= first.assignment["authority"]["remaining_ms"]
    assert await lab.client.reasons(first.task_id) == ["submitted", "claimed"]
    dispatched = await first.dispatch()
    replayed = (await worker.acquire(sequence)).accepted()["assignment"]
    assert replayed["authority"]["dispatch_allowed"]
    assert replayed["authority"]["renew_sequence"] == 1
    assert replayed["lease"]["expires_at"] == dispatched["expires_at"]
    assert same(replayed["event"], first.event)


@scenario("acquisition/busy-then-lost", cites=["DLV-016", "DLV-014", "DLV-018", "DLV-035"])
async def test_busy_then_lost(lab: Lab) -> None:
    """The next sequence is busy while the attempt lives, unconfirmed report included; then the old one is lost."""
    await lab.client.task()
    await lab.client.task()
    worker = await lab.worker()
    claim = await worker.claim()
    held = worker.sequences[0]
    (await worker.acquire(held + 1, wait_ms=20_000)).refused("busy")
    (await claim.settle(claim.success(quiescence="unconfirmed"))).accepted()
    (await worker.acquire(held + 1)).refused("busy")
    assert (await worker.acquire(held)).accepted()["disposition"] == "assigned"
    assert (await claim.confirm()).accepted() == "succeeded"
    for _ in range(2):
        lost = (await worker.acquire(held)).accepted()
        assert lost == {
            "disposition": "ownership_lost",
            "sequence": held,
            "assignment": {"task_id": claim.task_id, "attempt_id": claim.attempt_id},
        }
    assert (await worker.acquire(held + 1)).accepted()["disposition"] == "assigned"


@scenario("acquisition/foreign-consumer", cites=["DLV-011", "DLV-008", "DLV-005", "DLV-018"])
async def test_foreign_consumer(lab: Lab) -> None:
    """A consumer, queue or scope that is not the session's is invalid_input; an unissued session is unknown."""
    task = await lab.client.task()
    worker = await lab.worker(concurrency=2)
    (await worker.acquire(1, consumer=2)).refused("invalid_input")
    (await worker.acquire(1, queue=lab.unique("other"))).refused("invalid_input")
    (await worker.acquire(1, worker_session_id=lab.unique("ws"))).refused("unknown_session")
    assert (await lab.client.status(task["task_id"])).accepted()["state"] == "queued"
    assert (await worker.acquire(1, consumer=1)).accepted()["disposition"] == "assigned"
    assert (await worker.acquire(1, consumer=0)).accepted()["disposition"] == "empty", "cursors are not independent"


@scenario("acquisition/foreign-scope", cites=["DLV-011", "DLV-022"], profile="core any-scope")
async def test_foreign_scope(lab: Lab) -> None:
    """A session acquires only from its own scope, although the queue's name exists in another."""
    await lab.client_in(lab.other_scope).task()
    worker = await lab.worker()
    (await worker.acquire(1, scope=lab.other_scope)).refused("invalid_input")
    assert (await worker.acquire(1)).accepted()["disposition"] == "empty"


@scenario("acquisition/foreign-queue", cites=["DLV-008", "DLV-022"])
async def test_foreign_queue(lab: Lab) -> None:
    """A session acquires only from its own queue, whatever waits in others of its scope."""
    other = lab.unique("other")
    task = await lab.client.task(queue=other)
    worker, its_worker = await lab.worker(), await lab.worker(queue=other)
    for sequence, wait_ms in ((1, 0), (2, lab.target.patience.poll_ms)):
        assert (await worker.acquire(sequence, wait_ms=wait_ms)).accepted()["disposition"] == "empty"
    reply = (await its_worker.acquire(1)).accepted()
    assert reply["assignment"]["lease"]["owner"]["task_id"] == task["task_id"]
    assert (await worker.acquire(3)).accepted()["disposition"] == "empty"


@scenario("acquisition/wait-values", cites=["DLV-031", "JSON-027", "JSON-082"])
async def test_wait_values(lab: Lab) -> None:
    """wait_ms is an integer token 0…20000, and nothing else."""
    worker = await lab.worker()
    for wrong in (b"null", b"-1", b"-0", b"1.0", b"1e3", b'"5"', b"true", b"[]", b"{}", b"20001", b'5,"wait_ms":5'):
        with lab.case(wrong.decode()):
            body = encode(worker.command(1, wait_ms=77)).replace(b"77", wrong)
            (await lab.client.post("/v1/acquisitions", body)).refused("invalid_input")
    assert (await worker.acquire(1, wait_ms=0)).accepted()["disposition"] == "empty"
    await lab.client.task()
    assert (await worker.acquire(2, wait_ms=bound("MAX_WAIT_MS"))).accepted()["disposition"] == "assigned"


@scenario("acquisition/order", cites=["DLV-022", "DLV-025"])
async def test_order(lab: Lab) -> None:
    """One consumer gets every task that is due, each once, whatever the order: DLV-023 only recommends one."""
    tasks = [await lab.client.task() for _ in range(6)]
    worker = await lab.worker()
    claimed = []
    for _ in tasks:
        claim = await worker.claim(0)
        claimed.append(claim.task_id)
        await claim.succeed()
    assert sorted(claimed) == sorted(task["task_id"] for task in tasks)


@scenario("acquisition/waiting-poll-wakes", cites=["DLV-032", "DLV-033", "DLV-038"])
async def test_waiting_poll_wakes(lab: Lab) -> None:
    """A waiting poll gets a task submitted meanwhile, and another consumer's work goes on beside it."""
    worker = await lab.worker(concurrency=2)
    waiting = asyncio.create_task(worker.acquire(1, consumer=1, wait_ms=bound("MAX_WAIT_MS")))
    assert (await worker.acquire(1, consumer=0)).accepted()["disposition"] == "empty"
    task = await lab.client.task()
    reply = (await waiting).accepted()
    assert reply["disposition"] == "assigned"
    assert reply["assignment"]["lease"]["owner"]["task_id"] == task["task_id"]


@scenario("acquisition/abandoned-wait", cites=["DLV-034", "HTTP-084"])
async def test_abandoned_wait(lab: Lab) -> None:
    """A client that hangs up during the wait leaves the sequence free and loses no work."""
    worker = await lab.worker()
    body = encode(worker.command(1, wait_ms=bound("MAX_WAIT_MS")))
    exchange = lab.peer.record("POST", "/v1/acquisitions", lab.peer.standard_headers("POST", body), body)
    connection = await lab.peer.connect()
    await connection.send(lab.peer.bytes_of(exchange))
    await worker.acquire(5)  # any answer shows that the service has read what came before it
    connection.abort()
    task = await lab.client.task()
    # Whether the abandoned poll claimed it or not, the same sequence must lead to the task.
    answer = await lab.until(
        "the repeated sequence is answered",
        lambda: worker.acquire(1, wait_ms=lab.target.patience.poll_ms),
        lambda seen: seen.code != "unavailable",
        show=lambda seen: seen.value,
    )
    reply = answer.accepted()
    assert reply["disposition"] == "assigned", "the abandoned poll used up its sequence"
    assert reply["assignment"]["lease"]["owner"]["task_id"] == task["task_id"]
    assert (await lab.client.reasons(task["task_id"])) == ["submitted", "claimed"]


@scenario("acquisition/identical-polls", cites=["DLV-020", "DLV-024"])
async def test_identical_polls(lab: Lab) -> None:
    """Two concurrent polls of one sequence make one claim; both get it, or one is told to come again."""
    for _ in range(5):
        worker = await lab.worker()
        tasks = [await lab.client.task() for _ in range(2)]
        answers = await asyncio.gather(worker.acquire(1), worker.acquire(1))
        claims = [answer.value["assignment"] for answer in answers if answer.status == 200]
        for answer in answers:
            if answer.status != 200:
                answer.refused("unavailable")
        assert claims
        assert len({claim["lease"]["owner"]["attempt_id"] for claim in claims}) == 1
        states = [(await lab.client.status(task["task_id"])).accepted()["attempt_count"] for task in tasks]
        assert sum(states) == 1
        await _drain(lab, 2)


@scenario("acquisition/one-owner", cites=["DLV-025", "DLV-009", "DLV-024"])
async def test_one_owner(lab: Lab) -> None:
    """Many consumers of two sessions that poll at once get every task once."""
    tasks = {(await lab.client.task())["task_id"] for _ in range(12)}
    workers = [await lab.worker(concurrency=8) for _ in range(2)]
    replies = await asyncio.gather(*(worker.poll(consumer) for worker in workers for consumer in range(8)))
    claimed = [
        reply["assignment"]["lease"]["owner"]["task_id"] for reply in replies if reply["disposition"] == "assigned"
    ]
    assert len(claimed) == len(set(claimed)), "one task was assigned twice"
    while len(claimed) < len(tasks):
        extra = await lab.worker()
        claimed.append((await extra.claim()).task_id)
    assert set(claimed) == tasks
    for task_id in tasks:
        assert await lab.client.reasons(task_id) == ["submitted", "claimed"]


async def _drain(lab: Lab, count: int) -> None:
    """Take away what a round left queued, so that rounds do not meet."""
    worker = await lab.worker(concurrency=count)
    for consumer in range(count):
        reply = await worker.poll(consumer)
        if reply["disposition"] == "assigned":
            owner = reply["assignment"]["lease"]["owner"]
            Answer(
                await lab.peer.post("/v1/tasks/cancel", {"scope": lab.scope, "task_id": owner["task_id"]})
            ).accepted()
