"""What happens under load: every kind of task and workflow, each a script with one possible end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from chaos.scene import PAST_LEASE_MS, PROGRAM, SPOILT, Scene

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


def _command(key: str, **members: Any) -> dict[str, Any]:
    return {"key": key, "program": PROGRAM, "queue": "children", "data": {"for": key}} | members


async def task(s: Scene) -> None:
    await s.task()
    claim = await s.claim()
    await claim.renew()
    await claim.succeed("done")


async def task_tried_twice(s: Scene) -> None:
    await s.task(attempts=2)
    await (await s.claim()).break_down("retry_scheduled")
    await (await s.claim()).break_down("failed")


async def task_cleaned_up_later(s: Scene) -> None:
    await s.task()
    claim = await s.claim()
    await claim.unconfirmed("done")
    await claim.confirm()


async def tasks_cancelled(s: Scene) -> None:
    """One in its queue, one under way."""
    await s.cancel_task(await s.task(), "cancel_requested", "cancelled")
    await s.task("other")
    claim = await s.claim("other")
    await s.cancel_task(claim.task_id, "cancel_requested")
    await claim.succeed("too late", ends="cancelled")


async def attempts_lost(s: Scene) -> None:
    """The first attempt of one task, the only one of another."""
    task_id, once = await s.task(), await s.task("once", attempts=1)
    await s.claim()
    await s.claim("once")
    await s.advance(PAST_LEASE_MS)
    await s.until_over(once, "lease_expired", "failed")
    await s.until_over(task_id, "lease_expired", "retry_scheduled")
    await (await s.claim()).succeed("done")


async def locals_and_a_lost_attempt(s: Scene) -> None:
    await s.workflow()
    first = await s.claim()
    records = [await first.local("a"), await first.local("b")]
    await s.advance(PAST_LEASE_MS)
    await s.until_over(first.task_id, "lease_expired", "retry_scheduled")
    second = await s.claim()
    s.ledger.expect("local steps", (await second.context())["local_steps"], records)
    records.append(await second.local("c"))
    s.ledger.expect("local steps", (await second.context())["local_steps"], records)
    await second.complete()


async def forks(s: Scene) -> None:
    await s.workflow()
    root = await s.claim()
    await root.fork("left", "right")
    await root.decide("suspend", until=["left", "right"])
    for _ in range(2):
        branch = await s.claim("branches")
        s.ledger.expect("entrypoint", (await branch.context())["continuation"], "branch")
        await branch.complete(branch.event["data"])
    joined = await s.claim()
    inputs = (await joined.context())["inputs"]
    outputs = {key: child["outcome"] for key, child in inputs.items()}
    s.ledger.expect("branches", outputs, {key: {"kind": "succeeded", "output": key} for key in ("left", "right")})
    await joined.complete(inputs)


async def children(s: Scene) -> None:
    """A task, a task that fails and a workflow, one after the other; then again without new ones."""
    await s.workflow()
    root = await s.claim()
    commands = [_command("t"), _command("x", queue="failing"), _command("w", queue="flows", kind="workflow")]
    await root.decide("suspend", commands=commands, until=["t", "x", "w"])
    await (await s.claim("children")).succeed({"one": 1, "float": 1.5})
    await (await s.claim("failing")).refuse()
    await (await s.claim("flows")).complete("child")
    joined = await s.claim()
    inputs = (await joined.context())["inputs"]
    states = {key: child["state"] for key, child in inputs.items()}
    s.ledger.expect("children", states, {"t": "succeeded", "x": "failed", "w": "succeeded"})
    await joined.decide("continue")
    last = await s.claim()
    s.ledger.expect("inputs", (await last.context())["inputs"], {})
    await last.complete()


async def event_first(s: Scene) -> None:
    workflow_id = await s.workflow()
    event = await s.event(workflow_id, "paid", {"amount": 1.0})
    await (await s.claim()).wait_event("paid", HOUR_MS)
    await _woken(s, "event", event)


async def event_later(s: Scene) -> None:
    workflow_id = await s.workflow()
    await (await s.claim()).wait_event("paid")
    await s.until(workflow_id, "waiting")
    await _woken(s, "event", await s.event(workflow_id, "paid", [1]))


async def event_never(s: Scene) -> None:
    workflow_id = await s.workflow()
    await (await s.claim()).wait_event("paid", HOUR_MS)
    await s.until(workflow_id, "waiting")
    await s.advance(HOUR_MS)
    await _woken(s, "timeout", None)


async def sleeping(s: Scene) -> None:
    workflow_id = await s.workflow()
    await (await s.claim()).sleep("nap", HOUR_MS)
    await s.until(workflow_id, "waiting")
    await s.advance(HOUR_MS)
    await _woken(s, "timer", None)


async def _woken(s: Scene, kind: str, event: Any) -> None:
    claim = await s.claim()
    wake = (await claim.context())["wake"]
    s.ledger.expect("wake", (wake["kind"], wake.get("event")), (kind, event))
    await claim.complete()


async def cancelled_while_waiting(s: Scene) -> None:
    """With a task that nobody took, a task under way, and a workflow that sleeps."""
    workflow_id = await s.workflow()
    commands = [_command("q"), _command("t", queue="active"), _command("w", queue="flows", kind="workflow")]
    await (await s.claim()).decide("suspend", commands=commands, until=["t", "q", "w"])
    active = await s.claim("active")
    asleep = await s.claim("flows")
    await asleep.sleep("nap", DAY_MS)
    assert asleep.workflow_id is not None
    await s.until(asleep.workflow_id, "waiting")
    queued = await s.unclaimed("children")
    await s.cancel_workflow(workflow_id)
    await s.until_stopped(active.task_id)
    await active.succeed("too late", ends="cancelled")
    await s.until(workflow_id)
    s.ledger.add(queued, "cancel_requested", "cancelled")
    s.ends(workflow_id, "cancelled")
    s.ends(asleep.workflow_id, "cancelled")


async def cancelled_while_running(s: Scene) -> None:
    workflow_id = await s.workflow()
    claim = await s.claim()
    await claim.context()
    await s.cancel_workflow(workflow_id)
    await s.until_stopped(claim.task_id)
    decision = {"v": 1, "activation_id": claim.task_id, "revision": 0, "kind": "complete", "output": "too late"}
    await claim.succeed(decision, ends="cancelled")
    await s.until(workflow_id)
    s.ends(workflow_id, "cancelled")


async def failing_with_children(s: Scene) -> None:
    """It says that it failed while a task and a branch of its are open."""
    workflow_id = await s.workflow()
    claim = await s.claim()
    await claim.fork("b")
    await claim.decide("continue", commands=[_command("q")])
    claim = await s.claim()
    queued = await s.unclaimed("children")
    branch = await s.claim("branches")
    error = {"kind": "given_up", "message": "enough"}
    await claim.decide("fail", error=error)
    await s.until_stopped(branch.task_id)
    await branch.succeed("too late", ends="cancelled")
    await s.until(workflow_id)
    s.ledger.add(queued, "cancel_requested", "cancelled")
    s.ends(workflow_id, "failed", error=error)
    assert branch.workflow_id is not None
    s.ends(branch.workflow_id, "cancelled")


async def failing_controller(s: Scene) -> None:
    """Its program says no, which nobody tries again."""
    workflow_id = await s.workflow()
    await (await s.claim()).refuse()
    await s.until(workflow_id)
    s.ends(workflow_id, "failed", error={"kind": "declined", "message": "no"})


async def controller_lost(s: Scene) -> None:
    """Its only attempt."""
    workflow_id = await s.workflow(attempts=1)
    claim = await s.claim()
    await s.advance(PAST_LEASE_MS)
    await s.until_over(claim.task_id, "lease_expired", "failed")
    await _fails(s, workflow_id, "workflow_activation_failed")


async def decision_given_up(s: Scene) -> None:
    """It needs a program that cannot be resolved for a day."""
    workflow_id = await s.workflow()
    await (await s.claim()).decide("suspend", commands=[_command("c", program=SPOILT)], until=["c"], applied=False)
    await s.advance(DAY_MS)
    await _fails(s, workflow_id, "workflow_application_timeout")


async def _fails(s: Scene, workflow_id: str, kind: str) -> None:
    """For a reason of the service's own, which it words itself."""
    await s.until(workflow_id)
    outcome = (await s.get("/v1/workflows/result", workflow_id=workflow_id))["outcome"]
    s.ledger.expect("reason", outcome["error"]["kind"], kind)
    s.ends(workflow_id, **outcome)


STORIES: Final[tuple[Callable[[Scene], Awaitable[None]], ...]] = (
    task,
    task_tried_twice,
    task_cleaned_up_later,
    tasks_cancelled,
    attempts_lost,
    locals_and_a_lost_attempt,
    forks,
    children,
    event_first,
    event_later,
    event_never,
    sleeping,
    cancelled_while_waiting,
    cancelled_while_running,
    failing_with_children,
    failing_controller,
    controller_lost,
    decision_given_up,
)
