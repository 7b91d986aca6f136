"""Cancellation of tasks (chapter 06, Cancellation)."""

from __future__ import annotations

import asyncio

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario


@scenario("cancellation/queued", cites=["TASK-200", "TASK-204", "TASK-127", "CLI-063", "CLI-071"])
async def test_queued(lab: Lab) -> None:
    """A queued task is cancelled at once and is never handed out."""
    task = await lab.client.task()
    assert (await lab.client.cancel_task(task["task_id"])).accepted() == "cancelled"
    status = (await lab.client.status(task["task_id"])).accepted()
    assert status["cancel_requested_at"] == status["terminal_at"]
    history = (await lab.client.history(task["task_id"])).accepted()
    assert [entry["event"]["reason"] for entry in history] == ["submitted", "cancel_requested", "cancelled"]
    assert {entry["event"]["attempt_id"] for entry in history} == {None}
    assert history[1]["event"]["at"] == history[2]["event"]["at"] == status["terminal_at"]
    assert (await lab.client.result(task["task_id"])).accepted()["outcome"] == {"kind": "cancelled"}
    assert (await lab.client.cancel_task(task["task_id"])).accepted() == "cancelled"
    assert (await lab.client.status(task["task_id"])).accepted() == status
    await (await lab.worker()).nothing()


@scenario("cancellation/queued-retry", cites=["TASK-201", "TASK-200", "TASK-127", "TASK-218", "TASK-232", "TASK-239"])
async def test_queued_retry(lab: Lab) -> None:
    """Cancelling between two attempts leaves the first one's record and names no attempt in the outcome."""
    await lab.client.task(retry_policy={"max_attempts": 3, "retry_delay_ms": 60_000})
    claim = await (await lab.worker()).running()
    await claim.break_down("io")
    before = await claim.inspect()
    assert (await lab.client.cancel_task(claim.task_id)).accepted() == "cancelled"
    assert await claim.inspect() == before
    result = (await lab.client.result(claim.task_id)).accepted()
    assert result["outcome"] == {"kind": "cancelled"}
    assert result["task"]["latest_attempt_id"] == claim.attempt_id
    last = (await lab.client.history(claim.task_id)).accepted()[-2:]
    assert [(entry["event"]["reason"], entry["event"]["attempt_id"]) for entry in last] == [
        ("cancel_requested", None),
        ("cancelled", None),
    ]


@scenario(
    "cancellation/active-then-report", cites=["TASK-202", "TASK-206", "TASK-207", "TASK-208", "TASK-209", "TASK-127"]
)
async def test_active_then_report(lab: Lab) -> None:
    """Cancelled active work ends cancelled whatever its worker reports, and is never retried."""
    worker = await lab.worker()
    for name in ("success", "application failure", "retryable failure"):
        with lab.case(name):
            await lab.client.task(data=name, retry_policy={"max_attempts": 5, "retry_delay_ms": 0})
            claim = await worker.running()
            assert (await lab.client.cancel_task(claim.task_id)).accepted() == "active"
            reports = {
                "success": claim.success("too late"),
                "application failure": claim.failure(),
                "retryable failure": claim.breakdown("io"),
            }
            reply = (await claim.settle(reports[name])).accepted()
            assert (reply["already_accepted"], reply["task_state"]) == (False, "cancelled")
            attempt = await claim.inspect()
            assert (attempt["state"], attempt["quiescence"]) == ("cancelled", "confirmed")
            assert (await lab.client.result(claim.task_id)).accepted()["outcome"] == {"kind": "cancelled"}
            reasons = await lab.client.reasons(claim.task_id)
            assert reasons[-3:] == ["cancel_requested", "report_accepted", "cancelled"]
            await worker.nothing()


@scenario(
    "cancellation/between-report-and-confirmation", cites=["TASK-209", "TASK-207", "TASK-208", "DLV-100", "DLV-104"]
)
async def test_between_report_and_confirmation(lab: Lab) -> None:
    """A cancel before the confirmation wins over an accepted success, whose output stays with the attempt."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    command = claim.success("retained", quiescence="unconfirmed")
    (await claim.settle(command)).accepted()
    assert (await lab.client.cancel_task(claim.task_id)).accepted() == "active"
    assert (await claim.settle(command)).accepted()["task_state"] == "active"
    assert (await claim.confirm()).accepted() == "cancelled"
    attempt = await claim.inspect()
    assert (attempt["state"], attempt["quiescence"]) == ("cancelled", "confirmed")
    assert attempt["settlement"]["command"]["report"]["report"]["outcome"]["output"] == "retained"
    assert (await lab.client.result(claim.task_id)).accepted()["outcome"] == {"kind": "cancelled"}


@scenario("cancellation/terminal", cites=["TASK-205", "TASK-209", "TASK-211", "TASK-240"])
async def test_terminal(lab: Lab) -> None:
    """Cancelling an ended task tells its state and leaves no mark."""
    worker = await lab.worker()
    for state in ("succeeded", "failed"):
        await lab.client.task(data=state)
        claim = await worker.running()
        (await claim.settle(claim.success() if state == "succeeded" else claim.failure())).accepted()
        before = (await lab.client.status(claim.task_id)).accepted()
        for _ in range(2):
            assert (await lab.client.cancel_task(claim.task_id)).accepted() == state
        assert (await lab.client.status(claim.task_id)).accepted() == before
        assert "cancel_requested" not in await lab.client.reasons(claim.task_id)


@scenario("cancellation/authority-cap", cites=["TASK-203", "TASK-204", "TASK-202", "TASK-055", "DLV-051"])
async def test_authority_cap(lab: Lab) -> None:
    """The first cancel caps authority and lease at 30 s; repeating it moves neither the cap nor the time."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    for _ in range(3):
        assert (await lab.client.cancel_task(claim.task_id)).accepted() == "active"
    status = (await lab.client.status(claim.task_id)).accepted()
    requested = status["cancel_requested_at"]
    assert requested is not None
    snapshot = (await lab.client.inspect(claim.task_id)).accepted()
    assert (snapshot["state"], snapshot["terminal_at"], snapshot["cancel_requested_at"]) == ("active", None, requested)
    attempt = await claim.inspect()
    assert attempt["authority_deadline"] == requested + bound("CLEANUP_GRACE_MS")
    assert attempt["lease"]["expires_at"] == attempt["authority_deadline"]
    assert attempt["deadline"] == claim.assignment["attempt_deadline"]
    assert (await lab.client.reasons(claim.task_id)).count("cancel_requested") == 1
    assert not (await claim.renew("keep_alive")).accepted()["dispatch_allowed"]


@scenario("cancellation/unknown", cites=["TASK-121", "JSON-080", "JSON-081"])
async def test_unknown(lab: Lab) -> None:
    """An unknown task is not_found; a command with missing or unknown members is refused."""
    (await lab.client.cancel_task(lab.unique("absent"))).refused("not_found")
    command = {"scope": lab.scope, "task_id": "t"}
    for name, body in {
        "no scope": {"task_id": "t"},
        "no id": {"scope": lab.scope},
        "more": {**command, "why": 1},
    }.items():
        with lab.case(name):
            (await lab.client.post("/v1/tasks/cancel", body)).refused("invalid_input")


@scenario("cancellation/races-the-report", cites=["TASK-209", "TASK-206", "DLV-085"])
async def test_races_the_report(lab: Lab) -> None:
    """Cancel and success sent at once: whichever commits first decides, and every reply fits the one outcome."""
    worker = await lab.worker()
    for _ in range(8):
        await lab.client.task()
        claim = await worker.running()
        cancelled, settled = await asyncio.gather(lab.client.cancel_task(claim.task_id), claim.settle(claim.success()))
        state = (await lab.client.status(claim.task_id)).accepted()["state"]
        assert settled.accepted()["task_state"] == state
        assert (cancelled.accepted(), state) in (("succeeded", "succeeded"), ("active", "cancelled"))
        reasons = await lab.client.reasons(claim.task_id)
        assert reasons[-1] == state
        assert sum(reason in ("succeeded", "failed", "cancelled") for reason in reasons) == 1
