"""The table of races, second part: activations, local results and forks against each other and against a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.contest import Contest, Side
from protocol3_conformance.roles.controls import FAIL, HOLD, PASS
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.contests import (
    APPLY,
    FORK,
    ONCE,
    RECORD,
    RETRIED,
    SETTLE,
    begun,
    cancelling,
    races_of,
)

race = races_of(globals())
RENEW = "/v1/renewals"
LEFT_MS = 8_000
"""Of a lease, when two exchanges begin that must not find it over."""


@race("renewal-and-report", cites=["DLV-356", "TASK-240", "DLV-056"], orders=("renewal", "report"))
async def renewal_and_report(lab: Lab) -> Contest:
    """A renewal and the report of its attempt: the end stands, and the renewal came before it or is refused."""
    await lab.client.task()
    claim = await (await lab.worker()).running()

    async def judge(renewed: Any, settled: Any) -> str:
        assert settled["task_state"] == "succeeded"
        ended = await claim.inspect()
        assert (ended["state"], ended["quiescence"]) == ("succeeded", "confirmed")
        assert (await lab.client.status(claim.task_id)).accepted()["state"] == "succeeded"
        (await claim.renew("keep_alive")).refused("ownership_lost")
        if renewed.code is None:
            last = ended["last_renewal"]
            assert (last["sequence"], last["intent"]) == (renewed.value["renew_sequence"], "keep_alive")
            return "renewal"
        renewed.refused("ownership_lost")
        return "report"

    renewal = Side(name="renewal", act=lambda: claim.renew("keep_alive"), path=RENEW)
    return Contest(sides=(renewal, Side(name="report", act=lambda: claim.succeed("x"), path=SETTLE)), judge=judge)


@race("renewal-and-cancel", cites=["DLV-065", "DLV-327", "TASK-202"], orders=("renewal", "cancel"))
async def renewal_and_cancel(lab: Lab) -> Contest:
    """A renewal and the cancel of its task: whichever comes first, the owner is told to stop and its lease is cut."""
    await lab.client.task()
    claim = await (await lab.worker()).running()

    async def judge(renewed: Any, cancelled: Any) -> str:
        assert cancelled.accepted() == "active"
        requested = (await lab.client.status(claim.task_id)).accepted()["cancel_requested_at"]
        assert requested is not None
        authority = (await claim.renew("keep_alive")).accepted()
        assert authority["cancel_requested"]
        assert authority["expires_at"] <= requested + bound("CLEANUP_GRACE_MS")
        assert (await claim.succeed("ignored"))["task_state"] == "cancelled"
        return "cancel" if renewed.accepted()["cancel_requested"] else "renewal"

    cancel = Side(name="cancel", act=lambda: lab.client.cancel_task(claim.task_id), path="/v1/tasks/cancel")
    renewal = Side(name="renewal", act=lambda: claim.renew("keep_alive"), path=RENEW)
    return Contest(sides=(renewal, cancel), judge=judge)


@scenario("contests/report-and-end-of-lease", cites=["DLV-077"], profile="core virtual-time faults", slow=True)
async def test_report_and_end_of_lease(lab: Lab) -> None:
    """A report that waits behind a renewal, which is undone, until the lease is over comes too late."""
    await lab.client.task(retry_policy=ONCE)
    claim = await (await lab.worker()).running()
    end = (await claim.inspect())["lease"]["expires_at"]
    await lab.controls.advance(end - LEFT_MS - (await lab.controls.reading())["now"])
    held = await lab.controls.rule(RENEW, HOLD, "written")
    await lab.controls.rule(RENEW, FAIL, "written")
    renewing = asyncio.ensure_future(claim.renew("keep_alive"))
    await lab.controls.until_held(held)
    came = await lab.controls.rule(SETTLE, PASS)
    settling = asyncio.ensure_future(claim.settle(claim.success("late")))
    await lab.controls.until_hit(came)
    await lab.until("the lease is over", lab.controls.reading, lambda seen: seen["now"] >= end)
    await lab.controls.clear(held)
    (await renewing).refused("unavailable")
    (await settling).refused("ownership_lost")
    assert (await lab.client.task_until(claim.task_id, "failed"))["attempt_count"] == 1


async def resend(lab: Lab, first: Activation, against: Side) -> Contest:
    """The owner's repetition of a record succeeds whatever becomes of its attempt."""

    async def judge(again: Any, _: Any) -> str:
        assert again.accepted()["already_accepted"] is True
        assert (await first.local("fx", 1)).accepted()["already_accepted"] is True
        (await first.local("fx", 2)).refused("conflict")
        (await first.local("late", 1)).refused("ownership_lost")
        return "replayed"

    record = Side(name="resend", act=lambda: first.local("fx", 1), path=RECORD, locks=False)
    return Contest(sides=(record, against), judge=judge)


async def recorded(lab: Lab) -> tuple[Any, Activation]:
    worker, first = await begun(lab, retry_policy=RETRIED)
    assert (await first.local("fx", 1)).accepted()["already_accepted"] is False
    return worker, first


@race("resend-and-cancel", cites=["RACE-22", "LOC-005"])
async def resend_and_cancel(lab: Lab) -> Contest:
    """A repeated local result and a cancel: it is replayed, a new one is refused."""
    _, first = await recorded(lab)
    return await resend(lab, first, cancelling(lab, first.workflow_id))


@race("resend-and-complete", cites=["RACE-22", "LOC-005"])
async def resend_and_complete(lab: Lab) -> Contest:
    """A repeated local result and the completion: it is replayed, a new one is refused."""
    _, first = await recorded(lab)
    return await resend(lab, first, Side(name="complete", act=first.complete, path=SETTLE))


@race("resend-and-dispatch", cites=["RACE-23", "LOC-007"], orders=("resend", "dispatch"))
async def resend_and_dispatch(lab: Lab) -> Contest:
    """The record of the former attempt, sent by the next one: refused before its dispatch, replayed after it."""
    worker, first = await recorded(lab)
    await first.break_down()
    claim = await worker.claim()

    async def judge(sent: Any, _: Any) -> str:
        assert (await claim.local("fx", 1)).accepted()["already_accepted"] is True
        if sent.code is None:
            assert sent.value["already_accepted"] is True
            return "dispatch"
        sent.refused("ownership_lost")
        return "resend"

    return Contest(
        sides=(
            Side(name="resend", act=lambda: claim.local("fx", 1), path=RECORD, locks=False),
            Side(name="dispatch", act=claim.dispatch, path="/v1/renewals"),
        ),
        judge=judge,
    )


@race("changed-record-and-next-attempt", cites=["RACE-25", "LOC-003"])
async def changed_record_and_next_attempt(lab: Lab) -> Contest:
    """A known key with another output, and the next attempt: a conflict, never lost ownership."""
    worker, first = await recorded(lab)
    await first.break_down()
    claim = await worker.claim()

    async def judge(sent: Any, _: Any) -> str:
        sent.refused("conflict")
        (await first.local("fx", 2)).refused("conflict")
        assert (await claim.local("fx", 1)).accepted()["already_accepted"] is True
        return "conflict"

    return Contest(
        sides=(
            Side(name="record", act=lambda: first.local("fx", 2), path=RECORD, locks=False),
            Side(name="next attempt", act=claim.dispatch, path="/v1/renewals"),
        ),
        judge=judge,
    )


@race("new-record-and-report", cites=["LOC-004", "RACE-24"], orders=("record", "report"))
async def new_record_and_report(lab: Lab) -> Contest:
    """A new record and the end of its attempt: kept for the next attempt, or refused and free."""
    worker, first = await begun(lab, retry_policy=RETRIED)

    async def judge(sent: Any, _: Any) -> str:
        again = await worker.activation()
        assert (await again.local("fx", 1)).accepted()["already_accepted"] is (sent.code is None)
        (await first.local("other", 1)).refused("ownership_lost")
        if sent.code is None:
            return "record"
        sent.refused("ownership_lost")
        return "report"

    return Contest(
        sides=(
            Side(name="record", act=lambda: first.local("fx", 1), path=RECORD),
            Side(name="report", act=first.break_down, path=SETTLE),
        ),
        judge=judge,
    )


@race("fork-and-report", cites=["RACE-26", "FRK-019"], profile="core forks", orders=("fork", "report"))
async def fork_and_report(lab: Lab) -> Contest:
    """A fork and the end of its attempt: one set of branches, of the old attempt or of the next."""
    worker, first = await begun(lab, retry_policy=RETRIED)
    fork = [first.branch(key, queue=lab.child_queue) for key in "ab"]
    branches = await lab.worker(queue=lab.child_queue)

    async def judge(sent: Any, _: Any) -> str:
        again = await worker.activation()
        assert (await again.fork("f", fork)).accepted()["already_accepted"] is (sent.code is None)
        for _each in fork:
            await (await branches.activation()).complete()
        await branches.nothing()
        await again.suspend("a", "b")
        joined = await worker.activation()
        assert set(joined.frozen["inputs"]) == {"a", "b"}
        await joined.complete()
        if sent.code is None:
            return "fork"
        sent.refused("ownership_lost")
        return "report"

    return Contest(
        sides=(
            Side(name="fork", act=lambda: first.fork("f", fork), path=FORK),
            Side(name="report", act=first.break_down, path=SETTLE),
        ),
        judge=judge,
    )


@race("cancel-and-fork", cites=["RACE-27", "FRK-013"], profile="core forks", orders=("cancel", "fork"))
async def cancel_and_fork(lab: Lab) -> Contest:
    """Cancel and a fork: its branches are drained and its replay succeeds, or it never was."""
    _, first = await begun(lab)
    branches = await lab.worker(queue=lab.child_queue)
    fork = [first.branch(key, queue=lab.child_queue) for key in "ab"]

    async def judge(cancelled: Any, forked: Any) -> str:
        assert cancelled.accepted()["state"] == "cancelling"
        (await first.fork("g", [first.branch("c", queue=lab.child_queue)])).refused("ownership_lost")
        await first.break_down()
        await lab.client.workflow_until(first.workflow_id, "cancelled")
        await branches.nothing()
        again = await first.fork("f", fork)
        if forked.code is not None:
            forked.refused("ownership_lost")
            again.refused("ownership_lost")
            return "cancel"
        assert again.accepted() == {**forked.value, "already_accepted": True}
        return "fork"

    forking = Side(name="fork", act=lambda: first.fork("f", fork), path=FORK)
    return Contest(sides=(cancelling(lab, first.workflow_id), forking), judge=judge)


@race("exhaustion-and-branch", cites=["RACE-28", "DRN-004"], profile="core forks", orders=(None, "branch"))
async def exhaustion_and_branch(lab: Lab) -> Contest:
    """The last attempt of a parent fails while a branch ends: the parent failed, the branch ended once.

    A drain that has begun need not hold the branch yet: until it reaches the branch, the branch may still succeed.
    """
    _, first = await begun(lab, retry_policy=ONCE)
    branches = await lab.worker(queue=lab.child_queue)
    (await first.fork("f", [first.branch(key, queue=lab.child_queue) for key in "ab"])).accepted()
    branch = await branches.activation()

    async def judge(*_: Any) -> str:
        failed = await lab.client.outcome_until(first.workflow_id, "failed")
        assert failed["error"]["kind"] == "workflow_activation_failed"
        ended = await lab.client.workflow_until(branch.workflow_id, "succeeded", "cancelled")
        await branches.nothing()
        return "branch" if ended["state"] == "succeeded" else "crash"

    return Contest(
        sides=(
            Side(name="crash", act=first.break_down, path=SETTLE, step="drain.pass"),
            Side(name="branch", act=lambda: branch.complete(1), path=SETTLE, step=APPLY),
        ),
        judge=judge,
    )


@race("cancel-of-activation", cites=["RACE-38", "ACT-041"], orders=("cancel", "decision"))
async def cancel_of_activation(lab: Lab) -> Contest:
    """The activation is cancelled as a task while it decides: the workflow fails, or the decision stands."""
    worker, first = await begun(lab)

    async def judge(cancelled: Any, _: Any) -> str:
        state = cancelled.accepted()
        ended = await lab.client.workflow_until(first.workflow_id, "succeeded", "failed")
        outcome = (await lab.client.workflow_result(first.workflow_id)).accepted()["outcome"]
        await worker.nothing()
        if ended["state"] == "succeeded":
            assert (state, outcome["output"]) == ("succeeded", 1)
            return "decision"
        assert (state, outcome["error"]["kind"]) == ("active", "workflow_activation_cancelled")
        return "cancel"

    return Contest(
        sides=(
            Side(name="cancel", act=lambda: lab.client.cancel_task(first.task_id), path="/v1/tasks/cancel"),
            Side(name="decision", act=lambda: first.complete(1), path=SETTLE),
        ),
        judge=judge,
    )


@race("tree-and-task", cites=["RACE-30", "DRN-006"], profile="core subworkflows")
async def tree_and_task(lab: Lab) -> Contest:
    """A tree is cancelled while a task in it ends: all end cancelled, and no owner before what it owns."""
    _, root = await begun(lab)
    children, grands, tasks = [await lab.worker(queue=lab.unique(name)) for name in ("child", "grand", "task")]
    await root.go_on(commands=[root.command("child", kind="workflow", queue=children.session["queue"])])
    child = await children.activation()
    owned = [
        child.command("grand", kind="workflow", queue=grands.session["queue"]),
        child.command("task", queue=tasks.session["queue"]),
    ]
    await child.go_on(commands=owned)
    grand = await grands.activation()
    await grand.wait_event("never")
    await lab.client.workflow_until(grand.workflow_id, "waiting")
    task = await tasks.running()

    async def judge(cancelled: Any, _: Any) -> str:
        cancelled.accepted()
        ends = [
            (await lab.client.workflow_until(each.workflow_id, "cancelled"))["terminal_at"]
            for each in (root, child, grand)
        ]
        status = (await lab.client.status(task.task_id)).accepted()
        assert ends[0] >= ends[1] >= max(ends[2], status["terminal_at"])
        assert status["state"] in ("cancelled", "succeeded")
        return "ended"

    ending: Callable[[], Awaitable[Any]] = lambda: task.succeed("ignored")  # noqa: E731 - an act of a side
    return Contest(
        sides=(cancelling(lab, root.workflow_id), Side(name="task", act=ending, path=SETTLE)),
        judge=judge,
    )
