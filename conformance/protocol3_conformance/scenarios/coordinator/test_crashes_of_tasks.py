"""Submission, delivery and settlement of tasks, cut off at every crash point of their exchanges."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.roles.disturbance import Command
from protocol3_conformance.roles.worker import Worker
from protocol3_conformance.scenarios.coordinator.contests import RETRIED, SETTLE
from protocol3_conformance.scenarios.coordinator.crashing import crashes_of
from protocol3_conformance.wire.strict_json import JsonValue

crash = crashes_of(globals())


async def begun(lab: Lab, **submission: Any) -> tuple[Worker, Claim]:
    """A worker and the first attempt of a task, dispatched."""
    await lab.client.task(**submission)
    worker = await lab.worker()
    return worker, await worker.running()


async def ended(lab: Lab, task_id: str, state: str, *, attempts: int, last: str | None = None) -> None:
    """The task has ended so, after so many attempts, and its history says each thing once."""
    status = (await lab.client.status(task_id)).accepted()
    assert (status["state"], status["attempt_count"]) == (state, attempts)
    reasons = await lab.client.reasons(task_id)
    assert reasons.count("submitted") == 1
    assert reasons.count("claimed") == attempts
    once = last or state
    assert reasons.count(once) == 1, f"{once} happened {reasons.count(once)} times: {reasons}"


@crash("task-submission", path="/v1/tasks", cites=["TASK-104", "TASK-103"])
async def task_submission(lab: Lab) -> Command:
    """One key is one task, which is delivered once."""

    async def account(task: Any) -> None:
        worker = await lab.worker()
        claim = await worker.running()
        assert claim.task_id == task["task_id"]
        await claim.succeed("done")
        await worker.nothing()
        await ended(lab, claim.task_id, "succeeded", attempts=1)

    def stays(task: Any) -> JsonValue:
        return [task["task_id"], task["run_id"], task["submitted_at"], task["descriptor"]]

    return Command(path="/v1/tasks", body=lab.client.submission(), stays=stays, account=account)


@crash("session-opening", path="/v1/worker-sessions", cites=["DLV-001"])
async def session_opening(lab: Lab) -> Command:
    """A session whose opening was not heard of hinders nobody: the next one works."""
    path, body = "/v1/worker-sessions", {"scope": lab.scope, "queue": lab.queue, "concurrency": 2}

    async def account(session: Any) -> None:
        await lab.client.task()
        worker = Worker(lab, session, idle=[0, 1])
        claim = await worker.running()
        await claim.succeed("done")
        await worker.nothing()
        await ended(lab, claim.task_id, "succeeded", attempts=1)

    def stays(session: Any) -> JsonValue:
        return [session["scope"], session["queue"], session["concurrency"]]

    return Command(path=path, body=body, stays=stays, account=account)


@crash("session-extension", path="/v1/worker-sessions/extend", cites=["DLV-004"])
async def session_extension(lab: Lab) -> Command:
    """An extended session is the session it was, and its cursors are where they were."""
    await lab.client.task()
    worker = await lab.worker(concurrency=2)
    claim = await worker.running(0)
    body = {"worker_session_id": worker.session["id"]}

    async def account(session: Any) -> None:
        assert session["id"] == worker.session["id"]
        assert session["expires_at"] >= worker.session["expires_at"]
        held = (await worker.acquire(worker.sequences[0])).accepted()
        assert held["disposition"] == "assigned", f"the sequence is {held['disposition']} after the extension"
        assert held["assignment"]["lease"]["owner"] == claim.owner
        await claim.succeed("done")
        await ended(lab, claim.task_id, "succeeded", attempts=1)

    def stays(session: Any) -> JsonValue:
        return [session["id"], session["scope"], session["queue"], session["concurrency"]]

    return Command(path="/v1/worker-sessions/extend", body=body, stays=stays, account=account)


@crash("acquisition", path="/v1/acquisitions", within="task.claim", cites=["DLV-013"])
async def acquisition(lab: Lab) -> Command:
    """A sequence that is repeated brings the attempt that it brought, and no second one."""
    task = await lab.client.task()
    worker = await lab.worker()
    body = worker.command(1, wait_ms=lab.target.patience.poll_ms)

    async def account(reply: Any) -> None:
        claim = Claim(lab, reply["assignment"])
        assert (claim.task_id, claim.event["ldgattemptno"]) == (task["task_id"], 1)
        assert (await worker.poll(1))["disposition"] == "empty", "a second attempt was delivered"
        await claim.dispatch()
        await claim.succeed("done")
        await ended(lab, claim.task_id, "succeeded", attempts=1)

    def stays(reply: Any) -> JsonValue:
        assert reply["disposition"] == "assigned", f"the queue holds a task, and the reply is {reply['disposition']}"
        assignment = reply["assignment"]
        return [assignment["event"], assignment["lease"], assignment["descriptor"]]

    return Command(path="/v1/acquisitions", body=body, stays=stays, account=account)


@crash("renewal", path="/v1/renewals", cites=["DLV-332", "DLV-058"])
async def renewal(lab: Lab) -> Command:
    """A renewal that is repeated with its sequence renews once and authorises the same."""
    await lab.client.task()
    worker = await lab.worker()
    claim = await worker.claim()
    body = {"owner": claim.owner, "sequence": 1, "intent": "dispatch"}

    async def account(authority: Any) -> None:
        assert authority["dispatch_allowed"]
        lease = (await claim.inspect())["lease"]
        assert lease["expires_at"] == authority["expires_at"]
        await claim.succeed("done")
        await worker.nothing()
        await ended(lab, claim.task_id, "succeeded", attempts=1)

    def stays(authority: Any) -> JsonValue:
        return [authority[name] for name in ("owner", "expires_at", "renew_sequence", "dispatch_allowed")]

    return Command(path="/v1/renewals", body=body, stays=stays, account=account)


def receipt_of(reply: Any) -> JsonValue:
    """What no repetition of a settlement changes (DLV-074)."""
    receipt: JsonValue = reply["receipt"]
    return receipt


@crash("settlement", path=SETTLE, cites=["DLV-074", "DLV-085"])
async def settlement(lab: Lab) -> Command:
    """A report is accepted once, under one receipt, and its outcome stays."""
    worker, claim = await begun(lab)

    async def account(_: Any) -> None:
        outcome = (await lab.client.result(claim.task_id)).accepted()["outcome"]
        assert outcome["output"] == "done"
        await worker.nothing()
        await ended(lab, claim.task_id, "succeeded", attempts=1)

    return Command(path=SETTLE, body=claim.success("done"), stays=receipt_of, account=account, tells=True)


@crash("retry", path=SETTLE, cites=["DLV-074", "DLV-043"])
async def retry(lab: Lab) -> Command:
    """A report of a failed execution leads to one further attempt, however often it is sent."""
    worker, claim = await begun(lab, retry_policy=RETRIED)

    async def account(_: Any) -> None:
        second = await worker.running()
        assert (second.task_id, second.event["ldgattemptno"]) == (claim.task_id, 2)
        await worker.nothing()
        await second.succeed("done")
        await ended(lab, claim.task_id, "succeeded", attempts=2)

    return Command(path=SETTLE, body=claim.breakdown(), stays=receipt_of, account=account, tells=True)


@crash("confirmation", path="/v1/quiescence-confirmations", cites=["DLV-100", "DLV-101"])
async def confirmation(lab: Lab) -> Command:
    """Quiescence is confirmed once, from the stored report."""
    worker, claim = await begun(lab)
    await claim.succeed("done", quiescence="unconfirmed")

    async def account(state: Any) -> None:
        assert state == "succeeded"
        assert (await claim.inspect())["quiescence"] == "confirmed"
        await worker.nothing()
        await ended(lab, claim.task_id, "succeeded", attempts=1)
        await ended(lab, claim.task_id, "succeeded", attempts=1, last="cleanup_confirmed")

    path = "/v1/quiescence-confirmations"
    return Command(path=path, body=claim.owner, stays=lambda state: state, account=account)


@crash("task-cancel", path="/v1/tasks/cancel", cites=["TASK-204", "TASK-211"])
async def task_cancel(lab: Lab) -> Command:
    """A cancel is recorded once, and the task is never delivered."""
    task_id = (await lab.client.task())["task_id"]

    async def account(state: Any) -> None:
        assert state == "cancelled"
        await (await lab.worker()).nothing()
        await ended(lab, task_id, "cancelled", attempts=0)

    body: JsonValue = {"scope": lab.scope, "task_id": task_id}
    return Command(path="/v1/tasks/cancel", body=body, stays=lambda state: state, account=account)
