"""Leases and deadlines that run out in real time: only with `--with-expiry` (chapter 07)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.scenario import scenario

EXPIRY = "core expiry"
TWICE = {"max_attempts": 2, "retry_delay_ms": 0}
ONCE = {"max_attempts": 1, "retry_delay_ms": 0}


async def claimed(lab: Lab, **members: Any) -> Claim:
    await lab.client.task(**members)
    return await (await lab.worker()).claim()


async def lost(claim: Claim, authority: dict[str, Any]) -> None:
    """Let the lease of this authority run out and wait until recovery has noticed (DLV-110)."""
    client = claim.lab.client
    await claim.lab.until(
        "the lost attempt is recovered",
        lambda: client.attempt(claim.task_id, claim.attempt_id),
        lambda seen: seen.accepted()["state"] != "active",
        show=lambda seen: seen.value,
        not_before_ms=authority["remaining_ms"],
    )


@scenario(
    "expiry/lost-and-retried",
    cites=[
        "DLV-110",
        "DLV-111",
        "DLV-112",
        "DLV-113",
        "DLV-017",
        "DLV-014",
        "DLV-054",
        "DLV-077",
        "DLV-103",
        "DLV-356",
        "TASK-045",
        "TASK-069",
        "TASK-235",
    ],
    profile=EXPIRY,
)
async def test_lost_and_retried(lab: Lab) -> None:
    """An attempt whose lease runs out is lost once and retried; its owner can neither renew, settle nor confirm."""
    await lab.client.task(retry_policy=TWICE)
    worker = await lab.worker()
    first = await worker.claim(0)
    held = worker.sequences[0]
    authority = await first.dispatch()
    (await worker.acquire(held + 1)).refused("busy")
    await lost(first, authority)
    (await first.renew("keep_alive")).refused("ownership_lost")
    (await first.renew("dispatch", sequence=1)).refused("ownership_lost")
    (await first.settle(first.success("too late"))).refused("ownership_lost")
    (await first.confirm()).refused("ownership_lost")
    assert (await worker.acquire(held)).accepted()["disposition"] == "ownership_lost"
    attempt = await first.inspect()
    assert (attempt["state"], attempt["quiescence"], attempt["settlement"]) == ("lost", "unconfirmed", None)
    assert attempt["finished_at"] >= attempt["lease"]["expires_at"]
    history = [entry["event"] for entry in (await lab.client.history(first.task_id)).accepted()]
    assert [each["attempt_id"] for each in history if each["reason"] == "lease_expired"] == [first.attempt_id]
    second = await worker.claim(0)
    assert (second.task_id, second.event["ldgattemptno"]) == (first.task_id, 2)
    (await first.settle(first.success("even later"))).refused("ownership_lost")
    await second.succeed("second attempt")
    assert await lab.client.reasons(first.task_id) == [
        "submitted",
        "claimed",
        "dispatch_authorized",
        "lease_expired",
        "retry_scheduled",
        "claimed",
        "report_accepted",
        "succeeded",
    ]


@scenario(
    "expiry/attempts-exhausted",
    cites=["DLV-119", "TASK-063", "DLV-116", "CLI-068", "DLV-130", "TASK-217", "TASK-221"],
    profile=EXPIRY,
)
async def test_attempts_exhausted(lab: Lab) -> None:
    """With no attempt left the task fails as attempt_lost, and says whether execution may have started."""
    idle = await claimed(lab, data="idle", retry_policy=ONCE)
    started = await claimed(lab, data="started", retry_policy=ONCE)
    authority = await started.dispatch()
    await lost(idle, authority)
    await lab.client.task_until(started.task_id, "failed")
    for claim, may_have_started in ((idle, False), (started, True)):
        outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
        assert outcome == {
            "kind": "failed",
            "attempt_id": claim.attempt_id,
            "quiescence": "unconfirmed",
            "execution_may_have_started": may_have_started,
            "failure": {"kind": "attempt_lost"},
        }
        assert (await lab.client.reasons(claim.task_id))[-2:] == ["lease_expired", "failed"]


@scenario(
    "expiry/cancelled-and-left",
    cites=["TASK-207", "TASK-208", "TASK-206", "TASK-203", "DLV-130", "DLV-075"],
    profile=EXPIRY,
)
async def test_cancelled_and_left(lab: Lab) -> None:
    """Cancelled work that nobody finishes ends cancelled within the grace period, its attempt lost, report or not."""
    silent = await claimed(lab, data="silent")
    reported = await claimed(lab, data="reported")
    command = reported.success("kept aside", quiescence="unconfirmed")
    (await reported.settle(command)).accepted()
    for claim in (silent, reported):
        assert (await lab.client.cancel_task(claim.task_id)).accepted() == "active"
    capped = (await reported.renew("keep_alive")).accepted()
    assert capped["remaining_ms"] <= bound("CLEANUP_GRACE_MS")
    await lost(silent, capped)
    await lab.client.task_until(reported.task_id, "cancelled")
    for claim in (silent, reported):
        attempt = await claim.inspect()
        assert (attempt["state"], attempt["quiescence"]) == ("lost", "unconfirmed")
        assert (await lab.client.result(claim.task_id)).accepted()["outcome"] == {"kind": "cancelled"}
        assert (await lab.client.reasons(claim.task_id))[-2:] == ["lease_expired", "cancelled"]
    assert (await reported.settle(command)).accepted()["task_state"] == "cancelled"
    (await silent.settle(silent.success())).refused("ownership_lost")


@scenario(
    "expiry/unconfirmed-success",
    cites=["DLV-114", "DLV-103", "DLV-075", "DLV-086", "TASK-065", "DLV-130"],
    profile=EXPIRY,
)
async def test_unconfirmed_success(lab: Lab) -> None:
    """An accepted success whose cleanup is never confirmed ends succeeded, unconfirmed, and is not retried."""
    claim = await claimed(lab, retry_policy=TWICE)
    authority = await claim.dispatch()
    command = claim.success("kept", quiescence="unconfirmed")
    first = (await claim.settle(command)).accepted()
    await lost(claim, authority)
    status = (await lab.client.status(claim.task_id)).accepted()
    assert (status["state"], status["attempt_count"]) == ("succeeded", 1)
    outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
    assert (outcome["kind"], outcome["quiescence"], outcome["output"]) == ("succeeded", "unconfirmed", "kept")
    assert (await claim.inspect())["state"] == "succeeded"
    (await claim.confirm()).refused("ownership_lost")
    replay = (await claim.settle(command)).accepted()
    assert replay == {"receipt": first["receipt"], "already_accepted": True, "task_state": "succeeded"}
    (await claim.settle({**command, "quiescence": "confirmed"})).refused("conflict")
    assert (await lab.client.reasons(claim.task_id))[-3:] == ["report_accepted", "lease_expired", "succeeded"]


@scenario("expiry/unconfirmed-failure", cites=["DLV-115", "DLV-087", "DLV-082", "DLV-130"], profile=EXPIRY)
async def test_unconfirmed_failure(lab: Lab) -> None:
    """An accepted retryable failure is retried when its lease runs out; the attempt is failed, not lost."""
    claim = await claimed(lab, retry_policy=TWICE)
    authority = await claim.dispatch()
    (await claim.settle(claim.breakdown("io", quiescence="unconfirmed"))).accepted()
    await lost(claim, authority)
    attempt = await claim.inspect()
    assert (attempt["state"], attempt["quiescence"]) == ("failed", "unconfirmed")
    status = (await lab.client.status(claim.task_id)).accepted()
    assert (status["state"], status["attempt_count"]) == ("queued", 1)
    reasons = (await lab.client.reasons(claim.task_id))[-3:]
    assert reasons == ["report_accepted", "lease_expired", "retry_scheduled"]


@scenario("expiry/renewed-in-time", cites=["DLV-056", "DLV-057", "DLV-015", "DLV-066", "TASK-134"], profile=EXPIRY)
async def test_renewed_in_time(lab: Lab) -> None:
    """A renewal half-way keeps the attempt alive beyond its first lease; a replayed one does not count twice."""
    claim = await claimed(lab)
    first = claim.assignment["authority"]

    await lab.pass_time(first["remaining_ms"] // 2)
    renewed = (await claim.renew("keep_alive")).accepted()
    assert renewed["expires_at"] > first["expires_at"]
    await lab.pass_time(first["remaining_ms"] // 2 + 3000)
    assert (await claim.inspect())["state"] == "active", "lost although its lease was renewed"
    replay = (await claim.renew("keep_alive", sequence=1)).accepted()
    assert replay["expires_at"] == renewed["expires_at"]
    assert replay["remaining_ms"] < renewed["remaining_ms"]
    assert (await claim.succeed("in time"))["task_state"] == "succeeded"
    assert (await lab.client.reasons(claim.task_id)) == ["submitted", "claimed", "report_accepted", "succeeded"]


@scenario(
    "expiry/execution-deadline",
    cites=["DLV-051", "DLV-064", "DLV-066", "DLV-060", "DLV-050", "DLV-110", "DLV-027", "DLV-327"],
    profile=EXPIRY,
)
async def test_execution_deadline(lab: Lab) -> None:
    """After the deadline renewals go on without running time until the grace is over, and no longer."""
    claim = await claimed(lab, retry_policy=ONCE, attempt_timeout_ms=bound("MIN_ATTEMPT_TIMEOUT_MS"))
    deadline = claim.assignment["attempt_deadline"]
    authority = await claim.dispatch()
    pace_ms = 20_000
    while not authority["cancel_requested"]:
        assert authority["dispatch_allowed"]
        await lab.pass_time(pace_ms)
        authority = await claim.dispatch()
    assert (authority["dispatch_allowed"], authority["execution_remaining_ms"]) == (False, 0)
    attempt = await claim.inspect()
    assert (attempt["state"], attempt["deadline"]) == ("active", deadline)
    assert authority["expires_at"] == attempt["authority_deadline"] == deadline + bound("CLEANUP_GRACE_MS")
    assert (await lab.client.status(claim.task_id)).accepted()["cancel_requested_at"] is None
    await lost(claim, authority)
    assert (await claim.inspect())["finished_at"] >= deadline + bound("CLEANUP_GRACE_MS")
    assert (await lab.client.result(claim.task_id)).accepted()["outcome"]["failure"] == {"kind": "attempt_lost"}


@scenario(
    "expiry/activation",
    cites=["RACE-22", "RACE-24", "LOC-005", "ACT-003", "ACT-020", "ACT-024", "ACT-041", "FRK-013"],
    profile=f"{EXPIRY} forks",
)
async def test_activation(lab: Lab) -> None:
    """A lost activation is tried again with the same context; its old owner can only replay what was acknowledged."""
    workflow = await lab.client.workflow(retry_policy=TWICE)
    worker = await lab.worker()
    old = await worker.activation()
    branches = [old.branch("b", queue=lab.child_queue)]
    (await old.local("kept", 1.0)).accepted()
    (await old.fork("f", branches)).accepted()
    await lost(old, (await old.renew("keep_alive")).accepted())
    snapshot = (await lab.client.workflow_status(workflow["workflow_id"])).accepted()
    assert (snapshot["state"], snapshot["revision"], snapshot["activation_id"]) == ("running", 0, old.task_id)
    new = await worker.activation()
    assert {**new.frozen, "local_steps": []} == old.frozen
    assert [entry["key"] for entry in new.frozen["local_steps"]] == ["kept"]
    assert (await old.local("kept", 1.0)).accepted()["already_accepted"]
    assert (await old.fork("f", branches)).accepted()["already_accepted"]
    (await old.local("more")).refused("ownership_lost")
    (await old.fork("more", [old.branch("c")])).refused("ownership_lost")
    (await old.context()).refused("ownership_lost")
    (await old.settle(old.success(old.decision("complete", output="stale")))).refused("ownership_lost")
    await new.break_down("io")
    outcome = await lab.client.workflow_until(workflow["workflow_id"], "failing", "failed")
    assert outcome["revision"] == 0


@scenario("expiry/longest-wait", cites=["DLV-036", "DLV-032", "HTTP-082"], profile=EXPIRY)
async def test_longest_wait(lab: Lab) -> None:
    """The longest wait ends with a committed empty inside the exchange budget."""
    worker = await lab.worker()
    reply = await worker.poll(0, wait_ms=bound("MAX_WAIT_MS"))
    assert reply["disposition"] == "empty"
    assert (await worker.acquire(1)).accepted()["disposition"] == "empty"
