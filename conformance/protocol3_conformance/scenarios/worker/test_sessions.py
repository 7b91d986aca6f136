"""Session and acquisition (chapter 22)."""

from __future__ import annotations

import asyncio
import copy
from itertools import pairwise
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.coordinator import (
    ACQUISITIONS,
    RENEWALS,
    SCOPE,
    SESSIONS,
    Attempt,
    losing,
    refusing,
    replying,
    sending,
)
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.wire.faults import NotDetermined
from protocol3_conformance.wire.strict_json import JsonValue, same
from protocol3_conformance.worker_lab import QUEUE, WorkerLab


@worker_check("worker-session/opens-one", cites=["WRK-001", "WRK-002", "WRK-004", "WRK-005", "WRK-093"])
async def test_opens_one(lab: WorkerLab) -> None:
    """One session with scope, queue and N; N consumers from 0, each with a sequence that starts at 1."""
    worker = lab.worker(concurrency=3, acquire_wait_ms=17_000)
    await lab.polling(3)
    assert same(lab.coordinator.sent(SESSIONS), [{"scope": SCOPE, "queue": QUEUE, "concurrency": 3}])
    first = lab.coordinator.sent(ACQUISITIONS)[:3]
    assert sorted(one["consumer_id"] for one in first) == [0, 1, 2]
    assert {one["sequence"] for one in first} == {1}
    if lab.target.worker is not None and "acquire_wait_ms" in lab.target.worker.placeholders:
        assert {one["wait_ms"] for one in first} == {17_000}
    delivery = await lab.stopped(worker)
    assert (delivery["session_id"], delivery["finished"]) == ("ws_1", True)
    assert len(lab.coordinator.sent(SESSIONS)) == 1


@worker_check("worker-session/opened-again", cites=["WRK-004", "DLV-003"])
async def test_opened_again(lab: WorkerLab) -> None:
    """A lost reply, or an answer that the service is not there yet, is followed by another opening."""
    lab.coordinator.script(SESSIONS, losing, *refusing("unavailable"))
    worker = lab.worker()
    await lab.polling()
    assert len(set(lab.coordinator.bodies(SESSIONS))) == 1
    assert len(lab.coordinator.sent(SESSIONS)) == 3
    await lab.stopped(worker)


@worker_check("worker-session/another-session", cites=["WRK-004"])
async def test_another_session(lab: WorkerLab) -> None:
    """A reply with another scope, queue or N, or without a proper id, is fatal: nothing is acquired."""
    changes: list[dict[str, Any]] = [
        {"queue": "other"},
        {"concurrency": 2},
        {"scope": {"tenant_id": "x", "namespace": "y"}},
        {"id": ""},
        {"id": "i" * (bound("ID_BYTES") + 1)},
    ]
    for number, change in enumerate(changes):
        with lab.case(repr(change)):

            def changed(command: JsonValue, change: dict[str, Any] = change) -> JsonValue:
                return {"id": "ws_1", "expires_at": 1, **command, **change}

            lab.coordinator.script(SESSIONS, replying(changed))
            assert await lab.worker(cache=number).ended() != 0
            assert lab.coordinator.sent(ACQUISITIONS) == []


@worker_check("worker-acquisition/uncertain", cites=["WRK-007", "DLV-207"])
async def test_uncertain(lab: WorkerLab) -> None:
    """An acquisition whose outcome is unknown, or busy, is repeated byte by byte after the retry delay."""
    answers = [
        losing,
        *refusing("unavailable"),
        *refusing("busy"),
        sending(200, b"<html>"),
        sending(502, b"<html>", "text/html"),
        sending(200, b'{"disposition":"empty","disposition":"empty","sequence":1}'),
    ]
    lab.coordinator.script(ACQUISITIONS, *answers)
    attempt = await lab.task("return 1")
    worker = lab.worker()
    assert await lab.coordinator.settled(attempt) == ("success", 1)
    bodies, times = lab.coordinator.bodies(ACQUISITIONS), lab.coordinator.times(ACQUISITIONS)
    assert len(set(bodies[: len(answers) + 1])) == 1
    pauses = [later - before for before, later in pairwise(times[: len(answers) + 1])]
    assert min(pauses) >= bound("RETRY_DELAY_MS") - 5
    await lab.coordinator.until("the next poll", lambda: len(lab.coordinator.sent(ACQUISITIONS)) > len(answers) + 1)
    assert lab.coordinator.sent(ACQUISITIONS)[-1]["sequence"] == 2
    await lab.stopped(worker)


@worker_check("worker-acquisition/empty", cites=["WRK-008", "WRK-005"])
async def test_empty(lab: WorkerLab) -> None:
    """After Empty the next sequence follows, and no cycle is shorter than the idle delay."""
    worker = lab.worker(acquire_wait_ms=0)
    await lab.polling(3)
    sequences = [one["sequence"] for one in lab.coordinator.sent(ACQUISITIONS)]
    assert sequences == list(range(1, len(sequences) + 1))
    opened = lab.coordinator.replied(SESSIONS)  # no cycle begins before, and a request may be on its way for long
    for cycles, arrived in enumerate(lab.coordinator.times(ACQUISITIONS)):
        assert arrived - opened >= cycles * bound("IDLE_DELAY_MS") - 5
    await lab.stopped(worker)


@worker_check(
    "worker-acquisition/wrong-assignments",
    cites=["WRK-009", "WRK-010", "DLV-040", "PKG-029", "PKG-030", "PKG-031"],
    slow=True,
)
async def test_wrong_assignments(lab: WorkerLab) -> None:
    """Another sequence, or an assignment that does not fit, is fatal: nothing of it is run, the poll is reconciled."""

    def owner(**changes: Any) -> Any:
        return lambda reply: reply["assignment"]["lease"]["owner"].update(changes)

    def authority(**changes: Any) -> Any:
        return lambda reply: reply["assignment"]["authority"].update(changes)

    def event(**changes: Any) -> Any:
        return lambda reply: reply["assignment"]["event"].update(changes)

    def descriptor(**changes: Any) -> Any:
        return lambda reply: reply["assignment"]["descriptor"].update(changes)

    def both(**changes: Any) -> Any:
        def change(reply: JsonValue) -> None:
            reply["assignment"]["lease"]["owner"].update(changes)
            reply["assignment"]["authority"]["owner"] = reply["assignment"]["lease"]["owner"]

        return change

    cases = {
        "another sequence": lambda reply: reply.update(sequence=9),
        "another session": both(worker_session_id="ws_2"),
        "another consumer": both(consumer_id=7),
        "another namespace": both(scope={"tenant_id": "north", "namespace": "other"}),
        "another task in the event": event(ldgtaskid="task_9"),
        "another attempt in the event": event(ldgattemptid="att_9"),
        "another tenant in the event": event(ldgtenantid="south"),
        "a number that is not the generation": event(ldgattemptno=2),
        "an authority of another owner": authority(owner={**SCOPE_OWNER, "lease_id": "other"}),
        "a marker of another task": lambda reply: reply["assignment"].update(workflow_activation_id="task_9"),
        "no digest": descriptor(digest="sha256:x"),
        "a digest in capitals": descriptor(digest=f"sha256:{'AB' * 32}"),
        "a package of no size": descriptor(size=0),
        "a descriptor with another member": descriptor(extra=1),
    }
    for number, (name, change) in enumerate(cases.items()):
        with lab.case(name):
            mark = lab.mark(str(number))
            attempt = lab.coordinator.prepare(lab.laboratory(), {"code": f"open({str(mark)!r}, 'w')\nreturn 1"})
            before = len(lab.coordinator.sent(ACQUISITIONS))

            def wrong(command: JsonValue, change: Any = change, attempt: Any = attempt) -> JsonValue:
                lab.coordinator.give(command["consumer_id"], 0, attempt)
                reply = {"disposition": "assigned", "sequence": command["sequence"]}
                reply |= {"assignment": _copied(attempt.assignment)}
                change(reply)
                return reply

            lab.coordinator.script(ACQUISITIONS, replying(wrong), *_empty())
            worker = lab.worker(cache=number)
            await lab.ended(worker)
            sent = lab.coordinator.sent(ACQUISITIONS)[before:]
            assert [one["sequence"] for one in sent] == [1, 1]
            assert not mark.exists()


def _copied(value: JsonValue) -> JsonValue:
    return copy.deepcopy(value)


def _empty() -> list[Any]:
    return [replying(lambda command: {"disposition": "empty", "sequence": command["sequence"]})]


SCOPE_OWNER = {
    "scope": SCOPE,
    "task_id": "task_1",
    "attempt_id": "att_1",
    "lease_id": "lease_1",
    "generation": 1,
    "worker_session_id": "ws_1",
    "consumer_id": 0,
}


@worker_check("worker-acquisition/ownership-lost", cites=["WRK-011", "WRK-093"])
async def test_ownership_lost(lab: WorkerLab) -> None:
    """An acquisition that reports lost ownership counts as a lost attempt; the next sequence follows."""
    lost = {"disposition": "ownership_lost", "sequence": 1, "assignment": {"task_id": "t", "attempt_id": "a"}}
    lab.coordinator.script(ACQUISITIONS, replying(lost))
    attempt = await lab.task("return 1")
    worker = lab.worker()
    await lab.coordinator.settled(attempt)
    assert lab.coordinator.sent(ACQUISITIONS)[1]["sequence"] == 2
    delivery = await lab.stopped(worker)
    assert (delivery["lost_attempts"], delivery["settled_attempts"]) == (1, 1)


@worker_check("worker-acquisition/session-gone", cites=["WRK-012", "WRK-027"])
async def test_session_gone(lab: WorkerLab) -> None:
    """With an unknown or expired session admission ends, owned work is finished, and no session is opened again."""
    for number, code in enumerate(("unknown_session", "session_expired")):
        with lab.case(code):
            before = len(lab.coordinator.sent(SESSIONS))
            attempt = lab.coordinator.prepare(lab.laboratory(), {"code": "return 7"})

            def first(command: JsonValue, attempt: Any = attempt) -> JsonValue:
                lab.coordinator.give(command["consumer_id"], 1, attempt)
                return {"disposition": "assigned", "sequence": 1, "assignment": attempt.assignment}

            lab.coordinator.script(ACQUISITIONS, replying(first), *refusing(code))
            worker = lab.worker(cache=number)
            delivery = await lab.ended(worker)
            assert await lab.coordinator.settled(attempt) == ("success", 7)
            assert delivery["settled_attempts"] == 1
            assert len(lab.coordinator.sent(SESSIONS)) == before + 1


@worker_check("worker-acquisition/refused", cites=["WRK-097"])
async def test_refused(lab: WorkerLab) -> None:
    """`external_dispatch_required` ends admission and is not repeated."""
    lab.coordinator.script(ACQUISITIONS, *refusing("external_dispatch_required"))
    await lab.ended(lab.worker())
    assert len(lab.coordinator.sent(ACQUISITIONS)) == 1


@worker_check("worker-acquisition/one-cache-one-worker", cites=["WRK-003", "PKG-067"])
async def test_one_cache(lab: WorkerLab) -> None:
    """A second worker on the same cache directory does not start."""
    first = lab.worker()
    await lab.polling()
    sessions = len(lab.coordinator.sent(ACQUISITIONS))
    second = lab.worker()
    assert await second.ended() != 0
    assert len(lab.coordinator.sent(ACQUISITIONS)) == sessions
    assert first.alive
    await lab.stopped(first)


@worker_check("worker-session/after-a-crash", cites=["WRK-077", "WRK-005", "WRK-003"])
async def test_after_a_crash(lab: WorkerLab) -> None:
    """A worker in the place of a killed one opens a session of its own and counts from 1; nothing is reported twice."""
    first = lab.worker()
    attempt = await lab.task(lab.sleeping("running"))
    await lab.reached(first, "running")
    first.kill()
    before = len(lab.coordinator.sent(ACQUISITIONS))
    second = lab.worker()
    await lab.polling(before + 1)
    assert len(lab.coordinator.sent(SESSIONS)) == 2
    assert lab.coordinator.sent(ACQUISITIONS)[before]["sequence"] == 1
    delivery = await lab.stopped(second)
    assert (delivery["settled_attempts"], attempt.settlements) == (0, [])


@worker_check("worker-session/settings-out-of-range", cites=["WRK-098"])
async def test_settings_out_of_range(lab: WorkerLab) -> None:
    """Concurrency and acquire wait outside their ranges are refused before anything is asked; their ends are taken."""
    wait = bound("MAX_WAIT_MS")
    assert lab.target.worker is not None
    if missing := sorted({"concurrency", "acquire_wait_ms"} - lab.target.worker.placeholders):
        raise NotDetermined(f"the command has no {', '.join(missing)}")
    for concurrency, acquire_wait_ms in ((0, wait), (1025, wait), (1, -1), (1, wait + 1)):
        with lab.case(f"concurrency {concurrency}, acquire wait {acquire_wait_ms}"):
            worker = lab.worker(concurrency=concurrency, acquire_wait_ms=acquire_wait_ms)
            assert await worker.ended() != 0
            assert lab.coordinator.sent(SESSIONS) == []
    worker = lab.worker(concurrency=1024, acquire_wait_ms=wait)
    await lab.coordinator.until("a session", lambda: lab.coordinator.sent(SESSIONS))
    assert lab.coordinator.sent(SESSIONS)[0]["concurrency"] == 1024
    worker.kill()


@worker_check("worker-acquisition/owned-already", cites=["WRK-055", "WRK-023"])
async def test_owned_already(lab: WorkerLab) -> None:
    """An attempt that another consumer of the worker owns is refused in admission; the one that runs goes on."""
    worker = lab.worker(concurrency=2)
    attempt = await lab.task(lab.sleeping("running"))
    await lab.reached(worker, "running")
    twin = Attempt(assignment=copy.deepcopy(attempt.assignment))
    twin.owner["lease_id"] = "other"
    name = attempt.owner["attempt_id"]
    lab.coordinator.attempts[name] = twin
    await lab.coordinator.offer(twin)
    assert await lab.coordinator.settled(twin) == ("invalid_input", "admission", False)
    lab.coordinator.attempts[name] = attempt
    await lab.stopped(worker)
    assert attempt.told() == ("cancelled", "execution", True)


@worker_check("worker-acquisition/silent-exchange", cites=["WRK-007", "HTTP-080"], slow=True)
async def test_silent_exchange(lab: WorkerLab) -> None:
    """An exchange without a reply within 30 s has an unknown outcome, and is repeated byte by byte."""
    gate = asyncio.Event()

    async def silent(command: JsonValue) -> Any:
        await gate.wait()

    lab.coordinator.script(ACQUISITIONS, silent)
    worker = lab.worker(acquire_wait_ms=0)
    seconds = 1.2 * bound("EXCHANGE_MS") / 1000 + 10
    await lab.coordinator.until("the repetition", lambda: len(lab.coordinator.sent(ACQUISITIONS)) >= 2, seconds)
    assert len(set(lab.coordinator.bodies(ACQUISITIONS)[:2])) == 1
    assert lab.coordinator.sent(RENEWALS) == []
    worker.kill()
