"""Cancel, failure and completion against each other and against what a workflow decides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.roles.worker import Worker
from races.arena import RaceLab, pinned
from races.contest import Contest, Side, race

APPLY = "decision.apply"


async def begun(lab: RaceLab, **submission: Any) -> tuple[Worker, Activation]:
    """A worker and the first activation of a workflow."""
    worker = await lab.worker()
    await lab.client.workflow(**submission)
    return worker, await worker.activation()


@race("RACE-05")
async def a_decision_applied_twice(lab: RaceLab) -> Contest:
    """RACE-05, RCV-003, RCV-004: two processes hold the same obligation; whoever is second changes nothing."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    await lab.rule(APPLY, "hold", at=0)
    with pinned(0):
        await first.suspend("c", commands=[first.command("c")])
    await lab.until_held(0)

    async def take_over() -> None:
        async def applied() -> bool:
            # Its holder keeps it from becoming ready for others, so it is made ready again and again.
            await lab.store.execute("update obligation set ready_real = 0 where workflow_id = $1", first.workflow_id)
            return bool((await lab.client.workflow_status(first.workflow_id)).accepted()["revision"])

        await lab.eventually(applied, bool)

    async def judge(*_: Any) -> str:
        await lab.client.workflow_until(first.workflow_id, "waiting", revision=1)
        await lab.nothing_owed()
        await (await children.running()).succeed()
        await children.nothing()
        resumed = await worker.activation()
        assert resumed.child("c")["outcome"]["kind"] == "succeeded"
        await lab.nothing_owed()
        await worker.nothing()
        assert (await lab.client.workflow_until(first.workflow_id, "running"))["revision"] == 1
        return "applied once"

    return Contest(
        sides=(
            Side(name="holder", act=lambda: lab.release(0), locks_second=False),
            Side(name="taker", act=take_over),
        ),
        row=("workflow", first.workflow_id),
        judge=judge,
        outcomes=("applied once", "applied once"),
    )


@race("RACE-06", "RACE-08")
async def cancel_against_a_suspend(lab: RaceLab) -> Contest:
    """RACE-06, RACE-08, WF-050: nothing of the decision exists, or its child does and is drained."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)

    async def judge(cancelled: Any, _: Any) -> str:
        revision = cancelled.accepted()["revision"]
        assert cancelled.value["state"] == "cancelling"
        ended = await lab.client.workflow_until(first.workflow_id, "cancelled")
        assert ended["revision"] == revision
        assert len((await lab.client.list_tasks()).accepted()["items"]) == 1 + revision
        await children.nothing()
        await worker.nothing()
        return "suspend" if revision else "cancel"

    suspend = Side(name="suspend", act=lambda: first.suspend("c", commands=[first.command("c")]), step=APPLY)
    cancel = Side(name="cancel", act=lambda: lab.client.cancel_workflow(first.workflow_id))
    return Contest(sides=(cancel, suspend), row=("workflow", first.workflow_id), judge=judge)


@race("RACE-07")
async def cancel_against_a_confirmation(lab: RaceLab) -> Contest:
    """RACE-07, DRN-009: the activation ends cancelled or succeeded; its decision counts only if it was applied."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    decision = first.checkpoint("suspend", {"commands": [first.command("c")]}, until=["c"])
    await first.succeed(decision, quiescence="unconfirmed")

    async def judge(cancelled: Any, confirmed: Any) -> str:
        cancelled.accepted()
        state = confirmed.accepted()
        ended = await lab.client.workflow_until(first.workflow_id, "cancelled")
        assert state in ("cancelled", "succeeded")
        assert ended["revision"] <= (state == "succeeded")
        assert (await lab.client.status(first.task_id)).accepted()["state"] == state
        await children.nothing()
        await worker.nothing()
        return "confirm" if state == "succeeded" else "cancel"

    return Contest(
        sides=(
            Side(name="cancel", act=lambda: lab.client.cancel_workflow(first.workflow_id), step="drain.pass"),
            Side(name="confirm", act=first.confirm),
        ),
        row=("task", first.task_id),
        judge=judge,
    )


@race("RACE-09")
async def cancel_against_complete(lab: RaceLab) -> Contest:
    """RACE-09, WF-062: one end, and the reply to the cancel fits it."""
    worker, first = await begun(lab)

    async def judge(cancelled: Any, _: Any) -> str:
        snapshot = cancelled.accepted()
        ended = await lab.client.workflow_until(first.workflow_id, "succeeded", "cancelled")
        outcome = (await lab.client.workflow_result(first.workflow_id)).accepted()["outcome"]
        await worker.nothing()
        assert (await lab.client.cancel_workflow(first.workflow_id)).accepted() == ended
        if ended["state"] == "succeeded":
            assert snapshot == ended
            assert outcome == {"kind": "succeeded", "output": "done"}
            return "complete"
        assert (snapshot["state"], ended["revision"], outcome) == ("cancelling", 0, {"kind": "cancelled"})
        return "cancel"

    cancel = Side(name="cancel", act=lambda: lab.client.cancel_workflow(first.workflow_id))
    complete = Side(name="complete", act=lambda: first.complete("done"), step=APPLY)
    return Contest(sides=(cancel, complete), row=("workflow", first.workflow_id), judge=judge)


async def with_running_child(lab: RaceLab, **submission: Any) -> tuple[Activation, Claim]:
    """The second activation of a workflow whose child is in an attempt: what ends it takes as long as the child."""
    worker, first = await begun(lab, **submission)
    children = await lab.worker(queue=lab.child_queue)
    await first.go_on(commands=[first.command("c")])
    return await worker.activation(), await children.running()


@race("RACE-10")
async def cancel_against_the_end_of_failing(lab: RaceLab) -> Contest:
    """RACE-10, WF-061: cancelled if it was still failing, else failed as it was."""
    second, child = await with_running_child(lab)
    await second.fail("no", "no")
    await lab.client.workflow_until(second.workflow_id, "failing")
    await lab.eventually(lambda: lab.client.status(child.task_id), lambda seen: seen.value["cancel_requested_at"])

    async def judge(cancelled: Any, _: Any) -> str:
        snapshot = cancelled.accepted()
        ended = await lab.client.workflow_until(second.workflow_id, "failed", "cancelled")
        kind = (await lab.client.workflow_result(second.workflow_id)).accepted()["outcome"]["kind"]
        assert kind == ended["state"]
        if kind == "failed":
            assert snapshot == ended
            return "end"
        assert snapshot["state"] == "cancelling"
        return "cancel"

    cancel = Side(name="cancel", act=lambda: lab.client.cancel_workflow(second.workflow_id))
    end = Side(name="end", act=child.break_down, step="completion.deliver")
    return Contest(sides=(cancel, end), row=("workflow", second.workflow_id), judge=judge)


async def cancel_against(lab: RaceLab, second: Activation, child: Claim, fail: Callable[[], Awaitable[Any]]) -> Contest:
    """Cancel against what would fail the workflow: cancelled in any order."""

    async def judge(cancelled: Any, _: Any) -> str:
        assert cancelled.accepted()["state"] == "cancelling"
        await lab.nothing_owed()
        assert (await lab.client.workflow_status(second.workflow_id)).accepted()["state"] == "cancelling"
        await child.break_down()
        await lab.client.workflow_until(second.workflow_id, "cancelled")
        outcome = (await lab.client.workflow_result(second.workflow_id)).accepted()["outcome"]
        assert outcome == {"kind": "cancelled"}
        return "cancelled"

    return Contest(
        sides=(
            Side(name="cancel", act=lambda: lab.client.cancel_workflow(second.workflow_id)),
            Side(name="failure", act=fail, step=APPLY),
        ),
        row=("workflow", second.workflow_id),
        judge=judge,
        outcomes=("cancelled", "cancelled"),
    )


@race("RACE-10", "RACE-11")
async def cancel_against_fail(lab: RaceLab) -> Contest:
    """RACE-10, RACE-11: a `fail` that comes second is ignored; one that came first is overtaken."""
    second, child = await with_running_child(lab)
    return await cancel_against(lab, second, child, second.fail)


@race("RACE-11")
async def cancel_against_a_rejection(lab: RaceLab) -> Contest:
    """RACE-11: a decision that would be rejected, its revision being wrong."""
    second, child = await with_running_child(lab)
    return await cancel_against(lab, second, child, lambda: second.decide(second.decision("complete", revision=9)))


@race("RACE-11")
async def cancel_against_exhaustion(lab: RaceLab) -> Contest:
    """RACE-11: the last attempt of the activation is lost."""
    second, child = await with_running_child(lab, retry_policy={"max_attempts": 1, "retry_delay_ms": 0})
    return await cancel_against(lab, second, child, second.break_down)


@race("RACE-20")
async def cancel_against_a_wake(lab: RaceLab) -> Contest:
    """RACE-20, DRN-002: no activation, or one that is drained; the receipt replays, new events are too late."""
    worker, first = await begun(lab)
    await first.wait_event("go")
    await lab.client.workflow_until(first.workflow_id, "waiting")
    event = lab.client.event()

    async def judge(cancelled: Any, sent: Any) -> str:
        assert cancelled.accepted()["state"] == "cancelling"
        await lab.client.workflow_until(first.workflow_id, "cancelled")
        again = await lab.client.send_event(first.workflow_id, "go", event)
        if sent.code is None:
            assert again.accepted() == sent.value | {"already_accepted": True}
        else:
            sent.refused("obsolete_operation")
            again.refused("obsolete_operation")
        (await lab.client.send_event(first.workflow_id, "new", lab.client.event())).refused("obsolete_operation")
        await worker.nothing()
        states = [task["state"] for task in (await lab.client.list_tasks()).accepted()["items"]]
        assert sorted(states) in (["succeeded"], ["cancelled", "succeeded"])
        return "wake" if "cancelled" in states else "cancel"

    cancel = Side(name="cancel", act=lambda: lab.client.cancel_workflow(first.workflow_id))
    wake = Side(name="wake", act=lambda: lab.client.send_event(first.workflow_id, "go", event), step="wait.fire")
    return Contest(sides=(cancel, wake), row=("workflow", first.workflow_id), judge=judge)


@race("RACE-27")
async def cancel_against_a_fork(lab: RaceLab) -> Contest:
    """RACE-27, FRK-013: branches of an accepted fork are drained, its exact replay succeeds, a new one does not."""
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
        assert again.accepted() == forked.value | {"already_accepted": True}
        states = [task["state"] for task in (await lab.client.list_tasks()).accepted()["items"]]
        assert states == ["cancelled"] * 3
        return "fork"

    cancel = Side(name="cancel", act=lambda: lab.client.cancel_workflow(first.workflow_id))
    side = Side(name="fork", act=lambda: first.fork("f", fork))
    return Contest(sides=(cancel, side), row=("workflow", first.workflow_id), judge=judge)


@race("RACE-28")
async def exhaustion_against_a_branch(lab: RaceLab) -> Contest:
    """RACE-28, DRN-004: branches end cancelled but for one that was quicker; the parent failed."""
    _, first = await begun(lab, retry_policy={"max_attempts": 1, "retry_delay_ms": 0})
    branches = await lab.worker(queue=lab.child_queue)
    (await first.fork("f", [first.branch(key, queue=lab.child_queue) for key in "ab"])).accepted()
    branch = await branches.activation()

    async def judge(*_: Any) -> str:
        failed = await lab.client.outcome_until(first.workflow_id, "failed")
        assert failed["error"]["kind"] == "workflow_activation_failed"
        ended = await lab.client.workflow_until(branch.workflow_id, "succeeded", "cancelled")
        await branches.nothing()
        states = [task["state"] for task in (await lab.client.list_tasks()).accepted()["items"]]
        assert sorted(states) in (["cancelled", "failed", "succeeded"], ["cancelled", "cancelled", "failed"])
        return "branch" if ended["state"] == "succeeded" else "crash"

    return Contest(
        sides=(
            Side(name="crash", act=first.break_down, step="drain.pass"),
            Side(name="branch", act=lambda: branch.complete(1), step=APPLY),
        ),
        row=("workflow", branch.workflow_id),
        judge=judge,
    )


@race("RACE-30")
async def cancel_of_a_tree_against_a_task_in_it(lab: RaceLab) -> Contest:
    """RACE-30, DRN-006: everything ends cancelled, and no owner before what it owns."""
    _, root = await begun(lab)
    workers = {name: await lab.worker(queue=lab.unique(name)) for name in ("child", "grand", "task")}
    queues = {name: worker.session["queue"] for name, worker in workers.items()}
    await root.go_on(commands=[root.command("child", kind="workflow", queue=queues["child"])])
    child = await workers["child"].activation()
    commands = [
        child.command("grand", kind="workflow", queue=queues["grand"]),
        child.command("task", queue=queues["task"]),
    ]
    await child.go_on(commands=commands)
    grand = await workers["grand"].activation()
    await grand.wait_event("never")
    await lab.client.workflow_until(grand.workflow_id, "waiting")
    task = await workers["task"].running()

    async def judge(cancelled: Any, _: Any) -> str:
        cancelled.accepted()
        ends = [
            (await lab.client.workflow_until(each.workflow_id, "cancelled"))["terminal_at"]
            for each in (root, child, grand)
        ]
        status = (await lab.client.status(task.task_id)).accepted()
        assert ends[0] >= ends[1] >= max(ends[2], status["terminal_at"])
        assert status["state"] in ("cancelled", "succeeded")
        return "task" if status["state"] == "succeeded" else "cancel"

    return Contest(
        sides=(
            Side(name="cancel", act=lambda: lab.client.cancel_workflow(root.workflow_id)),
            Side(name="task", act=lambda: task.succeed("ignored")),
        ),
        row=("task", task.task_id),
        judge=judge,
    )


@race("RACE-38")
async def cancel_of_the_activation_against_its_decision(lab: RaceLab) -> Contest:
    """RACE-38: the workflow fails, it is not cancelled; or the decision stands."""
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
            Side(name="cancel", act=lambda: lab.client.cancel_task(first.task_id)),
            Side(name="decision", act=lambda: first.complete(1)),
        ),
        row=("task", first.task_id),
        judge=judge,
    )
