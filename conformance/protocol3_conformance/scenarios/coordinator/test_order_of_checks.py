"""In which order a command is judged: each mistake alone is found, and of two the one that comes first."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import same


@scenario("order/submission", cites=["TASK-214", "TASK-109", "TASK-102", "WF-022"])
async def test_submission(lab: Lab) -> None:
    """Values before the key, the key before the program: a used key conflicts though the program does not exist."""
    unknown = {"id": "no-such-program", "version": "9.9.9"}
    for path in ("/v1/tasks", "/v1/workflows"):
        with lab.case(path):
            command = lab.client.submission()
            first = (await lab.client.post(path, command)).accepted()
            used = {**command, "input": {**command["input"], "program": unknown}}
            (await lab.client.post(path, used)).refused("conflict")
            (await lab.client.post(path, {**used, "idempotency_key": lab.unique("key")})).refused("not_found")
            wrong = {**used, "input": {**used["input"], "attempt_timeout_ms": 1}}
            (await lab.client.post(path, wrong)).refused("invalid_input")
            (await lab.client.post(path, {**used, "origin_trace": {"traceparent": "x"}})).refused("invalid_input")
            assert same((await lab.client.post(path, command)).accepted(), first)


@scenario("order/acquisition", cites=["DLV-314", "DLV-011", "DLV-016", "DLV-018"])
async def test_acquisition(lab: Lab) -> None:
    """Shape, session, its consumer and queue, sequence, previous assignment: the first mistake is the answer."""
    await lab.client.task()
    worker = await lab.worker(concurrency=1)
    claim = await worker.claim()
    absent, held = lab.unique("ws"), worker.sequences[0]
    (await worker.acquire(0, 1, worker_session_id=absent, wait_ms=bound("MAX_WAIT_MS") + 1)).refused("invalid_input")
    (await worker.acquire(0, 1, worker_session_id=absent)).refused("unknown_session")
    (await worker.acquire(0, 1)).refused("invalid_input")
    (await worker.acquire(held + 1, queue=lab.unique("q"))).refused("invalid_input")
    (await worker.acquire(held + 2)).refused("out_of_order")
    (await worker.acquire(held + 1)).refused("busy")
    replay = (await worker.acquire(held)).accepted()
    assert replay["assignment"]["lease"]["owner"] == claim.owner


@scenario("order/renewal", cites=["DLV-329", "DLV-330"])
async def test_renewal(lab: Lab) -> None:
    """Shape, session, cursor, owner, sequence: the first mistake is the answer, and nothing is renewed."""
    await lab.client.task()
    await lab.client.task()
    worker = await lab.worker(concurrency=3)
    claim, other = await worker.claim(0), await worker.claim(1)
    absent = lab.unique("ws")
    (await claim.renew(sequence=9, worker_session_id=absent, lease_id="")).refused("invalid_input")
    (await claim.renew(sequence=9, worker_session_id=absent, task_id=lab.unique("t"))).refused("unknown_session")
    (await claim.renew(sequence=9, task_id=lab.unique("t"))).refused("ownership_lost")
    (await claim.renew(sequence=9, consumer_id=other.owner["consumer_id"])).refused("ownership_lost")
    (await claim.renew(sequence=9, lease_id=other.owner["lease_id"])).refused("ownership_lost")
    (await claim.renew(sequence=9)).refused("out_of_order")
    assert (await claim.inspect())["last_renewal"] is None


def reported(claim: Claim, **report: Any) -> dict[str, Any]:
    """A success whose report has other members."""
    command = claim.success("x")
    return {**command, "report": {"kind": "completed", "report": {**command["report"]["report"], **report}}}


@scenario("order/settlement", cites=["DLV-336", "DLV-071", "DLV-078", "DLV-077"])
async def test_settlement(lab: Lab) -> None:
    """Shape, task and attempt, owner, trace, identity, stored report, liveness: the first mistake is the answer."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    owner, trace = claim.owner, {"traceparent": "00-zz"}
    foreign = reported(claim, digest="sha256:" + "0" * 64)
    lost = {**owner, "lease_id": lab.unique("lease")}
    absent = {**lost, "attempt_id": lab.unique("att")}
    every = {**foreign, "owner": absent, "processing_trace": trace}
    (await claim.settle({**every, "operation_id": ""})).refused("invalid_input")
    (await claim.settle(every)).refused("not_found")
    (await claim.settle({**every, "owner": lost})).refused("ownership_lost")
    (await claim.settle({**every, "owner": owner})).refused("invalid_input")
    (await claim.settle(foreign)).refused("conflict")
    assert (await claim.inspect())["settlement"] is None
    await claim.succeed("x")
    (await claim.settle(foreign)).refused("conflict")
    (await claim.settle(claim.success("y"))).refused("conflict")
    assert (await claim.settle(claim.success("x"))).accepted()["already_accepted"]


@scenario("order/unknown-report-members", cites=["DLV-073", "JSON-080", "DLV-091"])
async def test_unknown_report_members(lab: Lab) -> None:
    """Further members of a report are ignored and not stored; `program` and `observations` refuse them."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    plain = claim.success("x")
    program = claim.assignment["descriptor"]["program"]
    (await claim.settle(reported(claim, program={**program, "tag": 1}))).refused("invalid_input")
    extended = reported(claim, more=[1], outcome={"status": "success", "output": "x", "more": {"a": 1}})
    extended["report"]["more"] = True
    first = (await claim.settle(extended)).accepted()
    stored = (await claim.inspect())["settlement"]["command"]
    assert same(stored, {**plain, "processing_trace": None}), "further members were stored"
    assert (await claim.settle(plain)).accepted() == {**first, "already_accepted": True}
    await lab.client.task()
    failing = await (await lab.worker()).running()
    error = {"kind": "protocol", "message": "late"}
    plain = failing.breakdown("protocol", cleanup_error=error)
    extended = failing.breakdown("protocol", cleanup_error={**error, "more": 1}, more=None)
    extended["report"]["report"]["error"]["more"] = {}
    first = (await failing.settle(extended)).accepted()
    assert (await failing.settle(plain)).accepted() == {**first, "already_accepted": True}


@scenario(
    "order/history",
    cites=[
        "TASK-229",
        "TASK-230",
        "TASK-231",
        "TASK-232",
        "TASK-233",
        "TASK-234",
        "TASK-236",
        "TASK-237",
        "TASK-238",
        "TASK-239",
        "DLV-356",
        "DLV-343",
    ],
)
async def test_history(lab: Lab) -> None:
    """Every reason of a history stands with the attempt that it is about, and an attempt that ended stays as it is."""
    worker = await lab.worker()
    task = await lab.client.task(retry_policy={"max_attempts": 3, "retry_delay_ms": 0})
    first = await worker.running()
    await first.break_down("io")
    ended = await first.inspect()
    second = await worker.running()
    await second.succeed("done", quiescence="unconfirmed")
    assert (await second.confirm()).accepted() == "succeeded"
    one, two = first.attempt_id, second.attempt_id
    await expect_history(
        lab,
        task["task_id"],
        ("submitted", None),
        *((reason, one) for reason in ("claimed", "dispatch_authorized", "report_accepted", "retry_scheduled")),
        *((reason, two) for reason in ("claimed", "dispatch_authorized", "report_accepted", "cleanup_confirmed")),
        ("succeeded", two),
    )
    assert same(await first.inspect(), ended)
    failing = await lab.client.task()
    claim = await worker.claim()
    (await claim.settle(claim.failure())).accepted()
    reasons = [(reason, claim.attempt_id) for reason in ("claimed", "report_accepted", "failed")]
    await expect_history(lab, failing["task_id"], ("submitted", None), *reasons)
    cancelled = await lab.client.task()
    claim = await worker.claim()
    await lab.client.cancel_task(claim.task_id)
    await lab.client.cancel_task(claim.task_id)
    await claim.succeed()
    reasons = [(reason, claim.attempt_id) for reason in ("claimed", "cancel_requested", "report_accepted", "cancelled")]
    await expect_history(lab, cancelled["task_id"], ("submitted", None), *reasons)
    queued = await lab.client.task()
    await lab.client.cancel_task(queued["task_id"])
    wanted = [("submitted", None), ("cancel_requested", None), ("cancelled", None)]
    await expect_history(lab, queued["task_id"], *wanted)


async def expect_history(lab: Lab, task_id: str, *wanted: tuple[str, str | None]) -> None:
    history = (await lab.client.history(task_id)).accepted()
    assert [(entry["event"]["reason"], entry["event"]["attempt_id"]) for entry in history] == list(wanted)
