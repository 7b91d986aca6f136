"""What a coordinator finds that another one left, and what two do to each other (chapters 17 and 18)."""

import asyncio

import pytest

from protocol3.coordinator.background import workflow_handlers
from protocol3.core.records import Obligation
from protocol3.programs.errors import ProgramError
from protocol3.store.loads import decisions
from protocol3.store.tables import record_of


async def obligation(flow, workflow_id, kind):
    row = await flow.services.pool.fetchrow(
        "select o from obligation o where workflow_id = $1 and kind = $2", workflow_id, kind
    )
    return record_of(Obligation, row["o"])


async def test_everything_that_was_owed_is_found_after_a_restart(still, restarted, staged):
    """RCV-001, RCV-002, RACE-31: the decision, then the end of a child while nobody ran; one resumption."""
    root = await still.submit()
    await (await still.start()).decide("suspend", commands=[staged("a")], until=["a"])
    assert await still.owed("decision") == 1
    async with restarted() as flow:
        await flow.until(root["workflow_id"], "waiting")
        await flow.settled()
    await (await still.start("rates")).succeed(7)
    assert (await still.status(root["workflow_id"]))["state"] == "waiting"
    async with restarted() as flow:
        resumed = await flow.start()
        assert (await resumed.context())["inputs"]["a"]["outcome"]["output"] == 7
        await flow.settled()
        assert await flow.nothing()
        assert await flow.owed() == 0


async def test_a_decision_is_applied_once_whoever_applies_it(apart):
    """RACE-05, RCV-003, RCV-004, DEC-003: eight times at once, then once more."""
    root = await apart.submit()
    await (await apart.start()).decide("continue")
    held = await obligation(apart, root["workflow_id"], "decision")
    await asyncio.gather(*(workflow_handlers.handle_decision(apart.services, held) for _ in range(8)))
    await workflow_handlers.handle_decision(apart.services, held)
    assert (await apart.status(root["workflow_id"]))["revision"] == 1
    await apart.take()
    assert await apart.nothing()


async def test_a_claimant_that_was_replaced_has_no_effect(apart):
    """RCV-004: the version of the obligation is a guard."""
    root = await apart.submit()
    await (await apart.start()).decide("continue")
    stale = await obligation(apart, root["workflow_id"], "decision")
    await apart.services.pool.execute("update obligation set version = version + 1 where id = $1", stale.id)
    await workflow_handlers.handle_decision(apart.services, stale)
    assert (await apart.status(root["workflow_id"]))["revision"] == 0
    await workflow_handlers.handle_decision(apart.services, await obligation(apart, root["workflow_id"], "decision"))
    assert (await apart.status(root["workflow_id"]))["revision"] == 1


async def test_cancel_before_the_decision_is_applied(still, restarted, staged):
    """RACE-06, WF-050, easily wrong 4: cancel wins; no child, no revision."""
    root = await still.submit()
    await (await still.start()).decide("suspend", commands=[staged("a")], until=["a"])
    await still.cancel(root["workflow_id"])
    async with restarted() as flow:
        ended = await flow.until(root["workflow_id"])
        assert (ended["state"], ended["revision"]) == ("cancelled", 0)
        assert await flow.nothing("rates")
        await flow.settled()
        assert await flow.owed() == 0


async def test_cancel_after_the_decision_was_applied(flow, staged):
    """RACE-08: the children exist and are drained."""
    root = await flow.submit()
    await (await flow.start()).decide("suspend", commands=[staged("a")], until=["a"])
    await flow.until(root["workflow_id"], "waiting")
    await flow.cancel(root["workflow_id"])
    ended = await flow.until(root["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("cancelled", 1)
    assert await flow.nothing("rates")


async def test_cancel_after_complete_was_applied(flow):
    """RACE-09."""
    root = await flow.submit()
    await (await flow.start()).decide("complete", output=1)
    ended = await flow.until(root["workflow_id"])
    assert await flow.cancel(root["workflow_id"]) == ended


async def test_cancel_after_an_unconfirmed_success(flow, eventually):
    """RACE-07, DRN-009: the drain reached the task first, so it ends cancelled; the decision is dropped."""
    root = await flow.submit()
    run = await flow.start()
    decision = {"v": 1, "activation_id": run.task_id, "revision": 0, "kind": "complete", "output": 1}
    await run.succeed(decision, quiescence="unconfirmed")
    await flow.cancel(root["workflow_id"])
    await eventually(lambda: flow.task(run.task_id), lambda task: task["cancel_requested_at"] is not None)
    assert await run.confirm() == "cancelled"
    ended = await flow.until(root["workflow_id"])
    assert (ended["state"], ended["revision"]) == ("cancelled", 0)


async def test_cancel_while_a_wake_is_owed(still, restarted, refused):
    """RACE-20: no activation; the receipt still replays."""
    root = await still.submit()
    await (await still.start()).decide("wait", wait={"kind": "event", "key": "k", "timeout_ms": None})
    async with restarted() as flow:
        await flow.until(root["workflow_id"], "waiting")
        await flow.settled()
    sent = await still.send(root["workflow_id"], "k")
    assert await still.owed("wake") == 1
    await still.cancel(root["workflow_id"])
    async with restarted() as flow:
        assert (await flow.until(root["workflow_id"]))["state"] == "cancelled"
        assert await flow.nothing()
        assert await flow.send(root["workflow_id"], "k") == sent | {"already_accepted": True}
        assert await refused(flow.send(root["workflow_id"], "new")) == "obsolete_operation"


async def test_a_timer_that_became_due_while_nobody_ran(still, restarted):
    """RACE-32, TMR-014: with the deadline that was stored."""
    root = await still.submit()
    await (await still.start()).decide("wait", wait={"kind": "timer", "key": "nap", "delay_ms": 3_600_000})
    async with restarted() as flow:
        await flow.until(root["workflow_id"], "waiting")
    pool = still.services.pool
    await pool.execute("update wait set deadline = deadline - 7200000 where workflow_id = $1", root["workflow_id"])
    await pool.execute("update agenda set due = due - 7200000 where ref = $1", root["workflow_id"])
    deadline = await pool.fetchval("select deadline from wait where workflow_id = $1", root["workflow_id"])
    async with restarted() as flow:
        assert (await (await flow.start()).context())["wake"] == {"kind": "timer", "key": "nap", "deadline": deadline}


@pytest.mark.parametrize("load", ["application", "settling"])
async def test_an_end_between_load_and_apply_of_a_suspend(still, apart, load, staged, monkeypatch):
    """RACE-01, CHD-033: the child ends, and its end is processed, after the decision read it as live.

    The decision misses and is made again; were it applied as it stood, the workflow would wait for good.
    """
    still = apart if load == "application" else still
    root = await still.submit()
    await (await still.start()).decide("continue", commands=[staged("a")])
    decision = await obligation(still, root["workflow_id"], "decision")
    await workflow_handlers.handle_decision(still.services, decision)
    child, parent = await still.start("rates"), await still.start()
    inner, loads = getattr(decisions, load), []

    def interrupted(*args):
        load = inner(*args)

        async def _load(connection):
            loaded = await load(connection)
            loads.append(getattr(loaded, "state", loaded))
            if len(loads) == 1:
                await child.succeed(7)
                end = await obligation(still, root["workflow_id"], "child")
                other = workflow_handlers.progress.child_ended(still.services.transitions.sql, end.workflow_id, [end])
                await still.services.transitions.run(
                    "another process", other, lambda s, fresh: workflow_handlers.decide_child_ended(s, [end], fresh)
                )
            return loaded

        return _load

    monkeypatch.setattr(decisions, load, interrupted)
    await parent.decide("suspend", until=["a"])
    if load == "application":
        decision = await obligation(still, root["workflow_id"], "decision")
        await workflow_handlers.handle_decision(still.services, decision)
    assert [state.children["a"].terminal_at is None for state in loads] == [True, False]
    resumed = await still.start()
    assert (await resumed.context())["inputs"]["a"]["outcome"]["output"] == 7
    assert await still.owed() == 0


async def test_a_failed_resumption_leaves_wait_and_event(still, restarted, monkeypatch):
    """RACE-33, TMR-015, RCV-008: nothing happened; a later try resumes once."""
    root = await still.submit()
    await (await still.start()).decide("wait", wait={"kind": "event", "key": "k", "timeout_ms": None})
    await still.send(root["workflow_id"], "k")
    before = await still.status(root["workflow_id"])

    def broken(*_):
        raise ConnectionError("the database went away")

    with monkeypatch.context() as patch:
        patch.setattr(workflow_handlers, "decide_wait", broken)
        with pytest.raises(ConnectionError):
            await workflow_handlers.handle_wake(still.services, await obligation(still, root["workflow_id"], "wake"))
    assert await still.status(root["workflow_id"]) == before
    assert await still.owed("wake") == 1
    async with restarted() as flow:
        assert (await (await flow.start()).context())["wake"]["kind"] == "event"
        await flow.settled()
        assert await flow.nothing()


async def test_two_coordinators_share_the_work(flow, restarted, staged):
    """RCV-004: twelve workflows with three children each; every activation runs once."""
    async with restarted() as other:
        roots = [await flow.submit(f"key-{n}") for n in range(12)]
        for _ in roots:
            run = await other.start()
            await run.decide("suspend", commands=[staged(key) for key in "abc"], until=["a", "b", "c"])
        runs = [await flow.start("rates") for _ in range(36)]
        await asyncio.gather(*(run.succeed(n) for n, run in enumerate(runs)))
        for _ in roots:
            run = await flow.start()
            assert len((await run.context())["inputs"]) == 3
            await run.decide("complete", output=None)
        for root in roots:
            assert (await flow.until(root["workflow_id"]))["revision"] == 2
        assert await flow.nothing()
        assert await flow.nothing("rates")


async def test_a_completion_a_day_old_is_given_up_only_if_it_fails(still, programs, restarted, staged):
    """RCV-020 to RCV-022, RACE-37: both orders."""
    fails, applies = await still.submit("fails"), await still.submit("applies")
    for _ in range(2):
        run = await still.start()
        commands = [staged("a")] if run.workflow_id == fails["workflow_id"] else []
        await run.decide("continue", commands=commands)
    await still.services.pool.execute("update obligation set created_at = created_at - 86400000")
    programs.failure = ProgramError("unavailable", "down")
    async with restarted() as flow:
        assert (await flow.outcome(fails["workflow_id"]))["error"]["kind"] == "workflow_application_timeout"
        assert (await flow.status(fails["workflow_id"]))["revision"] == 0
        assert (await flow.until(applies["workflow_id"], "running"))["revision"] in (0, 1)
        assert (await (await flow.start()).context())["revision"] == 1


async def test_a_decision_that_cannot_be_applied_at_once_is_owed(flow, monkeypatch, caplog):
    """RCV-001, RCV-008: the report is accepted, and the decision applied by whoever meets the obligation."""

    def broken(*_args, **_named):
        raise KeyError("secret")

    monkeypatch.setattr("protocol3.core.workflow.settlement.apply_decision", broken)
    root = await flow.submit()
    run = await flow.start()
    assert (await run.decide("complete", output=5))["task_state"] == "succeeded"
    assert (await flow.outcome(root["workflow_id"]))["output"] == 5
    assert await flow.owed() == 0
    [line] = [one.message for one in caplog.records if one.name == "protocol3.delivery"]
    assert line == f"the decision of {run.task_id} was not applied at once: KeyError"
