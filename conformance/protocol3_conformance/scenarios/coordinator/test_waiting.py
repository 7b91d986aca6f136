"""Polls that wait, and those that must not (chapter 07, Waiting)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.answer import Answer
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import begun
from protocol3_conformance.scenarios.coordinator.test_expiry import EXPIRY
from protocol3_conformance.scenarios.coordinator.waits import WAIT_MS, long_before_its_end
from protocol3_conformance.wire.strict_json import encode


@scenario("waiting/answered-at-once", cites=["DLV-016", "DLV-030", "DLV-035"])
async def test_answered_at_once(lab: Lab) -> None:
    """A poll without a wait, a refused one and a repeated one do not wait, whatever `wait_ms` says."""
    worker = await lab.worker(concurrency=2)
    with long_before_its_end():
        assert (await worker.acquire(1, consumer=1)).accepted()["disposition"] == "empty"
    await lab.client.task()
    await worker.claim(0)
    held = worker.sequences[0]
    cases: dict[str, tuple[int, int, str | None]] = {
        "busy": (0, held + 1, "busy"),
        "leaves one out": (1, 3, "out_of_order"),
        "completed as assigned": (0, held, None),
        "completed as empty": (1, 1, None),
    }
    for name, (consumer, sequence, code) in cases.items():
        with lab.case(name), long_before_its_end():
            answer = await worker.acquire(sequence, consumer, wait_ms=WAIT_MS)
            if code is None:
                answer.accepted()
            else:
                answer.refused(code)


@scenario("waiting/what-becomes-claimable", cites=["DLV-032", "DLV-033"])
async def test_what_becomes_claimable(lab: Lab) -> None:
    """A waiting poll gets what is submitted, and a retry whose delay passes, long before its wait is over."""
    worker = await lab.worker(concurrency=2)
    waiting = asyncio.create_task(worker.acquire(1, consumer=1, wait_ms=WAIT_MS))
    assert (await worker.acquire(1)).accepted()["disposition"] == "empty"
    with long_before_its_end():
        task = await lab.client.task(retry_policy={"max_attempts": 2, "retry_delay_ms": 1_000})
        first = (await waiting).accepted()
    assert task_of(first) == task["task_id"]
    waiting = asyncio.create_task(worker.acquire(2, wait_ms=WAIT_MS))
    replay = (await worker.acquire(1, consumer=1)).accepted()
    assert task_of(replay) == task["task_id"]
    with long_before_its_end():
        await Claim(lab, replay["assignment"]).break_down("io")
        second = (await waiting).accepted()
    assert task_of(second) == task["task_id"]


@scenario("waiting/holds-up-nothing", cites=["DLV-032", "DLV-038"])
async def test_holds_up_nothing(lab: Lab) -> None:
    """While a poll waits, other polls, renewals and settlements of its session are answered."""
    await lab.client.task()
    worker = await lab.worker(concurrency=3)
    claim = await worker.claim(0)
    waiting = asyncio.create_task(worker.acquire(1, consumer=1, wait_ms=WAIT_MS))
    for _ in range(3):  # the poll arrives meanwhile
        await lab.client.task(queue=lab.unique("unserved"))
    with long_before_its_end():
        assert (await worker.acquire(1, consumer=2)).accepted()["disposition"] == "empty"
        await claim.dispatch()
        await claim.succeed("done")
        task = await lab.client.task()
        assert task_of((await waiting).accepted()) == task["task_id"]


@scenario("waiting/identical-polls", cites=["DLV-020", "DLV-024", "DLV-032"])
async def test_identical_polls(lab: Lab) -> None:
    """Two tasks become claimable in one step while one consumer waits twice: it gets one of them, and only one."""
    parent, first = await begun(lab)
    worker = await lab.worker(queue=lab.child_queue)
    polls = [asyncio.create_task(worker.acquire(1, wait_ms=WAIT_MS)) for _ in range(3)]
    assert (await (await lab.worker(queue=lab.child_queue)).acquire(1)).accepted()["disposition"] == "empty"
    await first.suspend("a", "b", commands=[first.command(key) for key in ("a", "b")])
    answers = await asyncio.gather(*polls)
    claims = [answer.accepted() for answer in answers if answer.status == 200]
    for answer in answers:
        if answer.status != 200:
            answer.refused("unavailable")
    assert claims
    owners = [claim["assignment"]["lease"]["owner"] for claim in claims]
    assert all(owner == owners[0] for owner in owners), f"one sequence was assigned {len(claims)} attempts"
    other = await lab.worker(queue=lab.child_queue)
    left = await other.claim()
    assert left.task_id != owners[0]["task_id"]
    await other.nothing()
    await parent.nothing()


@scenario("waiting/begun-late", cites=["DLV-036"], profile=EXPIRY)
async def test_begun_late(lab: Lab) -> None:
    """A poll whose body was long on its way waits for less than it asked, so that its exchange ends as `empty`."""
    worker = await lab.worker()
    body = encode(worker.command(1, wait_ms=WAIT_MS))
    exchange = lab.peer.record("POST", "/v1/acquisitions", lab.peer.standard_headers("POST", body), body)
    connection = await lab.peer.connect()
    await connection.send(lab.peer.bytes_of(exchange).removesuffix(body))
    await asyncio.sleep((bound("EXCHANGE_MS") - WAIT_MS) * 1.2 / 1000)  # what an exchange lasts is real time
    answer = Answer(await lab.peer.run_on(connection, exchange, body))
    connection.close()
    assert answer.accepted()["disposition"] == "empty"
    assert (await worker.acquire(2)).accepted()["disposition"] == "empty"


def task_of(reply: Any) -> str:
    assert reply["disposition"] == "assigned", f"expected an assignment, came {reply['disposition']}"
    return str(reply["assignment"]["lease"]["owner"]["task_id"])
