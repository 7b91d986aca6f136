"""Ends of children against what their parent does."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.claim import Claim
from protocol3_conformance.roles.worker import Worker
from races.arena import RaceLab
from races.contest import Contest, Side, race

END = "completion.deliver"


async def running_child(lab: RaceLab) -> tuple[Worker, Activation, Claim]:
    """A worker, the second activation of a workflow, and its child `c` in an attempt."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    await lab.client.workflow()
    first = await worker.activation()
    await first.go_on(commands=[first.command("c")])
    return worker, await worker.activation(), await children.running()


@race("RACE-01")
async def child_against_the_suspend_that_names_it(lab: RaceLab) -> Contest:
    """RACE-01, CHD-033: the workflow resumes, once, with the result."""
    worker, second, child = await running_child(lab)
    workflow_id = second.workflow_id

    async def judge(*_: Any) -> str:
        third = await worker.activation()
        assert (third.output_of("c"), third.frozen["revision"]) == ("found", 2)
        await lab.nothing_owed()
        await worker.nothing()
        await third.complete()
        await lab.client.workflow_until(workflow_id, "succeeded", revision=3)
        return "resumed"

    return Contest(
        sides=(
            Side(name="child", act=lambda: child.succeed("found"), step=END),
            Side(name="suspend", act=lambda: second.suspend("c"), step="decision.apply"),
        ),
        row=("workflow", workflow_id),
        judge=judge,
        outcomes=("resumed", "resumed"),
    )


@race("RACE-02")
async def two_last_members(lab: RaceLab) -> Contest:
    """RACE-02, CHD-057: exactly one new activation, both results present."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    workflow_id = (await lab.client.workflow())["workflow_id"]
    first = await worker.activation()
    await first.suspend("a", "b", commands=[first.command(key, data=key) for key in "ab"])
    claims = {claim.event["data"]: claim for claim in [await children.running() for _ in "ab"]}
    await lab.client.workflow_until(workflow_id, "waiting")

    async def judge(*_: Any) -> str:
        resumed = await worker.activation()
        assert (resumed.output_of("a"), resumed.output_of("b")) == (1, 2)
        await lab.nothing_owed()
        await worker.nothing()
        await resumed.complete()
        await lab.client.workflow_until(workflow_id, "succeeded", revision=2)
        return "resumed"

    return Contest(
        sides=(
            Side(name="a", act=lambda: claims["a"].succeed(1), step=END),
            Side(name="b", act=lambda: claims["b"].succeed(2), step=END),
        ),
        row=("workflow", workflow_id),
        judge=judge,
        outcomes=("resumed", "resumed"),
    )


@race("RACE-03")
async def child_against_a_read_of_the_inputs(lab: RaceLab) -> Contest:
    """RACE-03, CHD-034: a running activation reads the same whenever it looks; the next one gets the result."""
    worker, second, child = await running_child(lab)
    before = second.frozen

    async def judge(_: Any, read: Any) -> str:
        assert read.accepted() == before == (await second.context()).accepted()
        assert (before["inputs"], before["revision"]) == ({}, 1)
        await lab.nothing_owed()
        assert (await second.context()).accepted() == before
        await second.go_on()
        assert (await worker.activation()).output_of("c") == "done"
        return "unchanged"

    return Contest(
        sides=(
            Side(name="child", act=lambda: child.succeed("done"), step=END),
            Side(name="read", act=second.context, locks=False),
        ),
        row=("workflow", second.workflow_id),
        judge=judge,
        outcomes=("unchanged", "unchanged"),
    )


@race("RACE-04")
async def child_against_a_retry(lab: RaceLab) -> Contest:
    """RACE-04, CHD-058: the retry sees the inputs of the first attempt, and nothing that ended later."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    await lab.client.workflow(retry_policy={"max_attempts": 3, "retry_delay_ms": 0})
    first = await worker.activation()
    await first.suspend("a", commands=[first.command(key, data=key) for key in "ab"])
    claims = {claim.event["data"]: claim for claim in [await children.running() for _ in "ab"]}
    await claims["a"].succeed(1)
    second = await worker.activation()

    async def judge(*_: Any) -> str:
        await lab.nothing_owed()
        again = await worker.activation()
        assert (again.task_id, again.attempt_id != second.attempt_id) == (second.task_id, True)
        assert again.frozen["inputs"] == second.frozen["inputs"]
        assert set(again.frozen["inputs"]) == {"a"}
        await again.suspend("b")
        assert (await worker.activation()).output_of("b") == 2
        return "unchanged"

    return Contest(
        sides=(
            Side(name="child", act=lambda: claims["b"].succeed(2), step=END),
            Side(name="retry", act=second.break_down, locks=False),
        ),
        row=("workflow", second.workflow_id),
        judge=judge,
        outcomes=("unchanged", "unchanged"),
    )


@race("RACE-21")
async def child_against_an_awaited_event(lab: RaceLab) -> Contest:
    """RACE-21, CHD-055: only the event wakes; the next continue delivers the child's result."""
    worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
    workflow_id = (await lab.client.workflow())["workflow_id"]
    first = await worker.activation()
    await first.wait_event("go", commands=[first.command("c")])
    child = await children.running()
    await lab.client.workflow_until(workflow_id, "waiting")
    event = lab.client.event()

    async def judge(_: Any, sent: Any) -> str:
        assert sent.accepted()["already_accepted"] is False
        second = await worker.activation()
        assert second.wake("event")["key"] == "go"
        assert second.frozen["inputs"] == {}
        await lab.nothing_owed()
        await worker.nothing()
        await second.go_on()
        assert (await worker.activation()).output_of("c") == 7
        return "woken by the event"

    return Contest(
        sides=(
            Side(name="child", act=lambda: child.succeed(7), step=END),
            Side(name="event", act=lambda: lab.client.send_event(workflow_id, "go", event), step="wait.fire"),
        ),
        row=("workflow", workflow_id),
        judge=judge,
        outcomes=("woken by the event", "woken by the event"),
    )


@race("RACE-29")
async def live_limit_against_the_end_of_a_branch(lab: RaceLab) -> Contest:
    """RACE-29, CHD-026: a branch that ended is not live, even if its parent was not told yet."""
    worker, branches = await lab.worker(), await lab.worker(queue=lab.child_queue)
    await lab.client.workflow()
    first = await worker.activation()
    full = [first.branch(f"b{n}", queue=lab.child_queue) for n in range(63)]
    (await first.fork("f", full)).accepted()
    await first.go_on()
    second = await worker.activation()
    (await second.fork("g", [second.branch("b63", queue=lab.child_queue)])).accepted()
    branch = await branches.activation()
    await lab.rule(END, "hold")

    async def end() -> None:
        await branch.complete(1)
        await lab.client.workflow_until(branch.workflow_id, "succeeded")

    async def judge(_: Any, forked: Any) -> str:
        if forked.code is not None:
            forked.refused("invalid_input")
        again = (await second.fork("h", [second.branch("one", queue=lab.child_queue)])).accepted()
        assert again["already_accepted"] is (forked.code is None)
        (await second.fork("i", [second.branch("more", queue=lab.child_queue)])).refused("invalid_input")
        await lab.release()
        return "fork" if forked.code else "branch"

    fork = [second.branch("one", queue=lab.child_queue)]
    return Contest(
        sides=(Side(name="branch", act=end), Side(name="fork", act=lambda: second.fork("h", fork))),
        judge=judge,
    )
