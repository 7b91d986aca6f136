"""Renewals and authority (chapter 07)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario


@scenario(
    "renewal/sequences",
    cites=[
        "DLV-056",
        "DLV-057",
        "DLV-068",
        "TASK-134",
        "DLV-059",
        "DLV-323",
        "DLV-326",
        "DLV-330",
        "DLV-331",
        "DLV-333",
        "DLV-334",
    ],
)
async def test_sequences(lab: Lab) -> None:
    """Renewals count 1, 2, 3…; the last one replays without extending, another intent under its number conflicts."""
    await lab.client.task()
    claim = await (await lab.worker()).claim()
    (await claim.renew(sequence=0)).refused("out_of_order")
    (await claim.renew(sequence=2)).refused("out_of_order")
    first = (await claim.renew("keep_alive", sequence=1)).accepted()
    assert first["renew_sequence"] == 1
    replay = (await claim.renew("keep_alive", sequence=1)).accepted()
    assert replay["expires_at"] == first["expires_at"]
    assert replay["remaining_ms"] <= first["remaining_ms"]
    (await claim.renew("dispatch", sequence=1)).refused("conflict")
    (await claim.renew("keep_alive", sequence=3)).refused("out_of_order")
    second = (await claim.renew("keep_alive", sequence=2)).accepted()
    assert second["expires_at"] >= first["expires_at"]
    (await claim.renew("keep_alive", sequence=1)).refused("obsolete_operation")
    attempt = await claim.inspect()
    assert attempt["last_renewal"] == {"owner": claim.owner, "sequence": 2, "intent": "keep_alive"}
    assert attempt["lease"]["expires_at"] == second["expires_at"]
    assert await lab.client.reasons(claim.task_id) == ["submitted", "claimed"]


@scenario("renewal/dispatch-once", cites=["DLV-052", "DLV-058", "DLV-059", "DLV-061", "DLV-062", "DLV-328"])
async def test_dispatch_once(lab: Lab) -> None:
    """Dispatch is recorded once and never undone; the permission follows the latest intent."""
    await lab.client.task()
    claim = await (await lab.worker()).claim()
    assert not (await claim.renew("keep_alive")).accepted()["dispatch_allowed"]
    assert not (await claim.inspect())["execution_may_have_started"]
    assert (await claim.renew("dispatch")).accepted()["dispatch_allowed"]
    assert (await claim.inspect())["execution_may_have_started"]
    assert not (await claim.renew("keep_alive")).accepted()["dispatch_allowed"]
    assert (await claim.inspect())["execution_may_have_started"]
    assert (await claim.renew("dispatch")).accepted()["dispatch_allowed"]
    assert await lab.client.reasons(claim.task_id) == ["submitted", "claimed", "dispatch_authorized"]


@scenario("renewal/wrong-owner", cites=["DLV-055", "DLV-011"])
async def test_wrong_owner(lab: Lab) -> None:
    """A renewal must name the owner exactly: another lease, generation, attempt, task, consumer or session loses."""
    for _ in range(2):
        await lab.client.task()
    worker = await lab.worker(concurrency=3)
    claim, other = await worker.claim(0), await worker.claim(1)
    stranger = await lab.worker(concurrency=3)
    changes: dict[str, dict[str, Any]] = {
        "lease": {"lease_id": other.owner["lease_id"]},
        "generation": {"generation": 2},
        "attempt of another task": {"attempt_id": other.attempt_id},
        "task of another consumer": {"task_id": other.task_id},
        "another consumer": {"consumer_id": 1},
        "idle consumer": {"consumer_id": 2},
        "consumer out of range": {"consumer_id": 3},
        "another session": {"worker_session_id": stranger.session["id"]},
    }
    for name, change in changes.items():
        with lab.case(name):
            (await claim.renew("dispatch", sequence=1, **change)).refused("ownership_lost")
    (await claim.renew("dispatch", sequence=1, worker_session_id=lab.unique("ws"))).refused("unknown_session")
    attempt = await claim.inspect()
    assert (attempt["last_renewal"], attempt["execution_may_have_started"]) == (None, False)
    assert (await claim.renew("dispatch", sequence=1)).accepted()["dispatch_allowed"]


@scenario("renewal/invalid-commands", cites=["JSON-080", "JSON-083", "TASK-036", "TASK-040"])
async def test_invalid_commands(lab: Lab) -> None:
    """Unknown intents and members, and numbers that are no integer tokens, are refused before anything is looked up."""
    await lab.client.task()
    claim = await (await lab.worker()).claim()
    command = {"owner": claim.owner, "sequence": 1, "intent": "keep_alive"}
    changes: dict[str, dict[str, Any]] = {
        "unknown intent": {"intent": "Dispatch"},
        "null intent": {"intent": None},
        "float sequence": {"sequence": 1.0},
        "negative sequence": {"sequence": -1},
        "text sequence": {"sequence": "1"},
        "unknown member": {"extend_ms": 5},
        "owner with a stranger": {"owner": {**claim.owner, "host": "x"}},
        "owner without consumer": {"owner": {key: value for key, value in claim.owner.items() if key != "consumer_id"}},
        "empty lease id": {"owner": {**claim.owner, "lease_id": ""}},
    }
    for name, change in changes.items():
        with lab.case(name):
            (await lab.client.post("/v1/renewals", {**command, **change})).refused("invalid_input")
    assert (await claim.inspect())["last_renewal"] is None


@scenario("renewal/around-the-report", cites=["DLV-053", "DLV-063", "DLV-056"])
async def test_around_the_report(lab: Lab) -> None:
    """After an unconfirmed report renewals go on without dispatch; after the end even replays have lost ownership."""
    await lab.client.task()
    claim = await (await lab.worker()).running()
    (await claim.settle(claim.success(quiescence="unconfirmed"))).accepted()
    authority = (await claim.renew("dispatch")).accepted()
    assert not authority["dispatch_allowed"]
    assert not authority["cancel_requested"]
    assert (await claim.confirm()).accepted() == "succeeded"
    (await claim.renew("keep_alive")).refused("ownership_lost")
    (await claim.renew("dispatch", sequence=claim.renewed)).refused("ownership_lost")
    assert (await lab.client.reasons(claim.task_id)).count("dispatch_authorized") == 1


@scenario("renewal/no-start-after-the-report", cites=["DLV-053", "DLV-058", "DLV-063", "DLV-081"])
async def test_no_start_after_the_report(lab: Lab) -> None:
    """An attempt reported as never started is not dispatched any more, whatever its renewals ask for."""
    await lab.client.task(retry_policy={"max_attempts": 1, "retry_delay_ms": 0})
    claim = await (await lab.worker()).claim()
    report = claim.breakdown("capacity", quiescence="unconfirmed", execution_may_have_started=False)
    (await claim.settle(report)).accepted()
    assert not (await claim.renew("dispatch")).accepted()["dispatch_allowed"]
    assert not (await claim.inspect())["execution_may_have_started"]
    assert await lab.client.reasons(claim.task_id) == ["submitted", "claimed", "report_accepted"]
    assert (await claim.confirm()).accepted() == "failed"


@scenario(
    "renewal/under-cancellation", cites=["DLV-060", "DLV-065", "TASK-203", "DLV-066", "DLV-050", "DLV-325", "DLV-327"]
)
async def test_under_cancellation(lab: Lab) -> None:
    """A cancelled attempt may renew, but gets no dispatch, no running time and no lease beyond the grace period."""
    await lab.client.task()
    claim = await (await lab.worker()).claim()
    deadline = claim.assignment["attempt_deadline"]
    assert (await lab.client.cancel_task(claim.task_id)).accepted() == "active"
    cancelled_at = (await lab.client.status(claim.task_id)).accepted()["cancel_requested_at"]
    assert cancelled_at is not None
    cap = cancelled_at + bound("CLEANUP_GRACE_MS")
    for _ in range(2):
        authority = (await claim.renew("dispatch")).accepted()
        assert (authority["cancel_requested"], authority["dispatch_allowed"]) == (True, False)
        assert authority["execution_remaining_ms"] == 0
        assert authority["expires_at"] <= cap
    attempt = await claim.inspect()
    assert attempt["authority_deadline"] == cap
    assert attempt["deadline"] == deadline
    assert not attempt["execution_may_have_started"]
    assert await lab.client.reasons(claim.task_id) == ["submitted", "claimed", "cancel_requested"]
