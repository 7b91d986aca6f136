"""Events, timers and wakes on a running coordinator (chapters 15 and 16)."""

import asyncio

HOUR = 3_600_000


def event_wait(key="signature", timeout_ms=None):
    return {"kind": "event", "key": key, "timeout_ms": timeout_ms}


def timer(key="nap", delay_ms=0):
    return {"kind": "timer", "key": key, "delay_ms": delay_ms}


async def rewind(flow, ms):
    """Let the waits and events of the scope seem older."""
    pool = flow.services.pool
    ids = await pool.fetch(
        "select w.id from workflow w join scope s on s.id = w.scope_id and s.namespace = $1", flow.scope["namespace"]
    )
    workflows = [row["id"] for row in ids]
    await pool.execute("update wait set deadline = deadline - $2 where workflow_id = any($1)", workflows, ms)
    await pool.execute("update inbox set accepted_at = accepted_at - $2 where workflow_id = any($1)", workflows, ms)
    await pool.execute("update agenda set due = due - $2 where kind = 'wait' and ref = any($1)", workflows, ms)
    flow.services.agenda.ring(0)


async def test_an_awaited_event_resumes_its_workflow(flow, refused):
    """T2, T4, EVT-001, EVT-011, EVT-012, TMR-015, TMR-020, TMR-022, RACE-17, ACT-022 (EVT-023)."""
    root = await flow.submit()
    await (await flow.start()).decide("wait", state={"n": 1}, continuation="signed", wait=event_wait())
    assert (await flow.until(root["workflow_id"], "waiting"))["activation_id"] is None
    sent = await flow.send(root["workflow_id"], "signature", data={"x": [1, 1.0, -0.0]}, ldgworkflowid="other", n=5)
    assert sent["already_accepted"] is False
    run = await flow.start()
    context = await run.context()
    assert (context["revision"], context["continuation"], context["state"], context["inputs"]) == (
        1,
        "signed",
        {"n": 1},
        {},
    )
    wake = context["wake"]
    assert (wake["kind"], wake["key"], wake["accepted_at"]) == ("event", "signature", sent["accepted_at"])
    assert wake["event"]["data"] == {"x": [1, 1.0, -0.0]}
    assert (wake["event"]["ldgworkflowid"], wake["event"]["n"]) == ("other", 5)
    await run.settle(error="runtime")
    again = await flow.start()
    assert (await again.context())["wake"] == wake
    replay = await flow.send(root["workflow_id"], "signature", data={"x": [1, 1.0, -0.0]}, ldgworkflowid="other", n=5)
    assert replay == sent | {"already_accepted": True}
    assert await refused(flow.send(root["workflow_id"], "signature", id="later")) == "conflict"
    await again.decide("continue")
    last = await flow.start()
    assert "wake" not in await last.context()
    await last.decide("wait", wait=event_wait())
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "decision_application_failed"
    assert (
        await flow.send(root["workflow_id"], "signature", data={"x": [1, 1.0, -0.0]}, ldgworkflowid="other", n=5)
        == replay
    )
    assert await refused(flow.send(root["workflow_id"], "fresh")) == "obsolete_operation"


async def test_buffered_events_are_used_when_their_wait_comes(flow, refused):
    """EVT-015, EVT-018, TMR-004, TMR-012, RACE-15: before the first activation ran, whatever the order."""
    root = await flow.submit()
    for key in ("one", "two"):
        await flow.send(root["workflow_id"], key)
    run = await flow.start()
    await run.decide("wait", wait=event_wait("two", timeout_ms=0))
    second = await flow.start()
    assert (await second.context())["wake"]["event"]["id"] == "id-two"
    await second.decide("wait", wait=event_wait("one"))
    third = await flow.start()
    assert (await third.context())["wake"]["key"] == "one"
    assert await refused(flow.send(root["workflow_id"], "one", id="new")) == "conflict"
    await third.decide("wait", wait=timer("three", delay_ms=HOUR))
    await flow.until(root["workflow_id"], "waiting")
    assert await refused(flow.send(root["workflow_id"], "three")) == "obsolete_operation"


async def test_a_timer_on_the_key_of_an_event_rejects_the_decision(flow):
    """RACE-16, TMR-004: the receipt stays."""
    root = await flow.submit()
    sent = await flow.send(root["workflow_id"], "nap")
    await (await flow.start()).decide("wait", wait=timer())
    assert (await flow.outcome(root["workflow_id"]))["error"]["kind"] == "decision_application_failed"
    assert await flow.send(root["workflow_id"], "nap") == sent | {"already_accepted": True}


async def test_a_full_inbox_is_busy_until_an_event_is_consumed(flow, refused):
    """EVT-011 step 6, EVT-018, EVT-019, LIM-020."""
    root = await flow.submit()
    run = await flow.start()
    for n in range(128):
        await flow.send(root["workflow_id"], f"k{n}")
    assert await refused(flow.send(root["workflow_id"], "more")) == "busy"
    assert (await flow.send(root["workflow_id"], "k5"))["already_accepted"]
    await run.decide("wait", wait=event_wait("k7"))
    await flow.start()
    assert (await flow.send(root["workflow_id"], "more"))["already_accepted"] is False


async def test_timers_and_timeouts_fire_with_their_stored_deadline(flow):
    """TMR-002, TMR-013, TMR-014, TMR-020."""
    root = await flow.submit()
    await (await flow.start()).decide("wait", wait=timer(delay_ms=40))
    run = await flow.start()
    wake = (await run.context())["wake"]
    task = await flow.task(run.task_id)
    assert (wake["kind"], wake["key"]) == ("timer", "nap")
    assert task["submitted_at"] >= wake["deadline"]
    await run.decide("wait", wait=event_wait("signature", timeout_ms=40))
    run = await flow.start()
    wake = (await run.context())["wake"]
    assert (wake["kind"], wake["key"]) == ("timeout", "signature")
    assert (await flow.status(root["workflow_id"]))["revision"] == 2
    assert (
        await flow.services.pool.fetchval(
            "select count(*) from agenda where kind = 'wait' and ref = $1", root["workflow_id"]
        )
        == 0
    )


async def test_a_late_event_finds_the_deadline_passed(flow, still, refused):
    """EVT-011 step 5, RACE-13: even if nobody applied the timeout yet."""
    root = await still.submit()
    await (await still.start()).decide("wait", wait=event_wait(timeout_ms=HOUR))
    await still.services.pool.execute("update obligation set ready_real = 0")
    await flow.until(root["workflow_id"], "waiting")
    await still.services.pool.execute(
        "update wait set deadline = deadline - $2 where workflow_id = $1", root["workflow_id"], HOUR
    )
    assert await refused(still.send(root["workflow_id"], "signature")) == "obsolete_operation"
    await rewind(flow, HOUR)
    assert (await (await flow.start()).context())["wake"]["kind"] == "timeout"


async def test_an_event_in_time_beats_a_coordinator_that_is_late(flow, still, restarted):
    """RACE-12, TMR-010: acceptance decides, not the moment of looking."""
    root = await flow.submit()
    await (await flow.start()).decide("wait", wait=event_wait(timeout_ms=HOUR))
    await flow.until(root["workflow_id"], "waiting")
    held = asyncio.Event()
    inner = flow.services.obligations._handlers
    flow.services.obligations._handlers = {**inner, "wake": lambda *_: held.wait()}
    sent = await still.send(root["workflow_id"], "signature")
    await rewind(flow, 2 * HOUR)
    wake = (await (await flow.start()).context())["wake"]
    assert (wake["kind"], wake["accepted_at"]) == ("event", sent["accepted_at"] - 2 * HOUR)
    held.set()


async def test_children_do_not_wake_a_wait(flow, staged):
    """CHD-055, RACE-21, TMR-005: their results stay for the next continue."""
    root = await flow.submit()
    await (await flow.start()).decide("wait", commands=[staged("a")], wait=event_wait())
    await (await flow.start("rates")).succeed(7)
    await flow.settled()
    assert (await flow.status(root["workflow_id"]))["state"] == "waiting"
    await flow.send(root["workflow_id"], "signature")
    run = await flow.start()
    assert (await run.context())["inputs"] == {}
    await run.decide("continue")
    assert (await (await flow.start()).context())["inputs"]["a"]["outcome"]["output"] == 7


async def test_concurrent_events_have_one_winner(flow, still, refused):
    """EVT-020, RACE-18, RACE-19: identical ones share a receipt, different ones conflict; one activation."""
    root = await flow.submit()
    await (await flow.start()).decide("wait", wait=event_wait())
    await flow.until(root["workflow_id"], "waiting")
    sent = await asyncio.gather(*(source.send(root["workflow_id"], "signature") for source in (flow, still) * 3))
    assert sorted(receipt["already_accepted"] for receipt in sent) == [False] + [True] * 5
    assert len({receipt["accepted_at"] for receipt in sent}) == 1
    await flow.start()
    rival = [flow.send(root["workflow_id"], "next", id=f"e{n}") for n in range(4)]
    outcomes = await asyncio.gather(*rival, return_exceptions=True)
    assert sorted(getattr(outcome, "code", "accepted") for outcome in outcomes) == ["accepted"] + ["conflict"] * 3
    await flow.settled()
    assert await flow.nothing()


async def test_one_source_and_id_per_workflow(flow, refused):
    """EVT-010, EVT-014: moved to another key is a conflict; another workflow is independent."""
    first, second = await flow.submit("a"), await flow.submit("b")
    await flow.send(first["workflow_id"], "one", id="e")
    assert await refused(flow.send(first["workflow_id"], "two", id="e")) == "conflict"
    assert (await flow.send(first["workflow_id"], "two", id="e", source="/other"))["already_accepted"] is False
    assert (await flow.send(second["workflow_id"], "two", id="e"))["already_accepted"] is False
