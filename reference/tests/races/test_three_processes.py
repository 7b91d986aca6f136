"""Three coordinator processes on one database: everything happens once, and the death of any one loses nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protocol3_conformance.roles.claim import Claim
from races.arena import RaceLab, pinned
from races.table.ends import begun

HOUR = 3_600_000
HINTS = (
    "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'protocol3 hints'"
)


async def arrivals(lab: RaceLab, at: int) -> int:
    """How many polls the rule of `rule` has seen at a coordinator."""
    rules = (await lab.each[at].get("/testing/v1/faults", lab.scope)).value
    assert isinstance(rules, dict)
    return sum(rule["hits"] for rule in rules["faults"])  # type: ignore[index,union-attr]  # its own shape


async def test_a_long_poll_is_woken_by_every_other_process(arena):
    """DLV-033, DLV-121: a poll waits at each; whoever accepts a task, it reaches the one that waits."""
    async with arena.lab("polls") as lab:
        await lab.eventually(lambda: lab.store.fetchval(HINTS), lambda listening: listening == len(lab.each))
        worker = await lab.worker()
        await lab.rule("/v1/acquisitions", "delay", times=None)  # it counts what has arrived
        for waits in range(3):
            for tells in range(3):
                seen = await arrivals(lab, waits)
                with pinned(waits):
                    poll = asyncio.create_task(worker.poll(3 * waits + tells, wait_ms=20_000))
                await lab.eventually(lambda at=waits: arrivals(lab, at), lambda hits, before=seen: hits > before)
                assert not poll.done()
                with pinned(tells):
                    task = await lab.client.task()
                reply = await poll
                assert reply["assignment"]["lease"]["owner"]["task_id"] == task["task_id"]
                await Claim(lab, reply["assignment"]).succeed()


async def test_a_timer_fires_once(arena):
    """TMR-014, TMR-015: all processes look for what is due; an advance rings all of them."""
    async with arena.lab("timers") as lab:
        worker = await lab.worker()
        workflows = [(await lab.client.workflow())["workflow_id"] for _ in range(12)]
        for _ in workflows:
            await (await worker.activation()).wait_timer("nap", HOUR)
        for workflow_id in workflows:
            await lab.client.workflow_until(workflow_id, "waiting")
        await asyncio.gather(*(lab.test(at, "clock", advance_ms=HOUR) for at in range(3)))
        woken = [await worker.activation() for _ in workflows]
        assert sorted(each.workflow_id for each in woken) == sorted(workflows)
        assert {each.wake("timer")["key"] for each in woken} == {"nap"}
        await lab.nothing_owed()
        await worker.nothing()
        assert len((await lab.client.list_tasks(limit="100")).accepted()["items"]) == 2 * len(workflows)


async def test_obligations_are_applied_once_whoever_takes_them(arena):
    """RCV-003, RCV-004: each is made ready again and again, so that the processes take it from each other."""
    async with arena.lab("obligations") as lab:
        worker, children = await lab.worker(), await lab.worker(queue=lab.child_queue)
        workflows = [(await lab.client.workflow())["workflow_id"] for _ in range(12)]
        held = [await worker.activation() for _ in workflows]
        over = asyncio.Event()

        async def steal() -> None:
            while not over.is_set():
                await lab.store.execute("update obligation set ready_real = 0")  # whoever takes one raises its version
                await asyncio.sleep(0.01)

        stealing = asyncio.create_task(steal())
        await asyncio.gather(*(each.suspend("c", commands=[each.command("c")]) for each in held))
        for _ in workflows:
            await (await children.running()).succeed(1)
        resumed = [await worker.activation() for _ in workflows]
        over.set()
        await stealing
        assert sorted(each.workflow_id for each in resumed) == sorted(workflows)
        assert {each.frozen["revision"] for each in resumed} == {1}
        await lab.nothing_owed()
        await worker.nothing()
        await children.nothing()
        assert len((await lab.client.list_tasks(limit="100")).accepted()["items"]) == 3 * len(workflows)


@pytest.mark.parametrize(
    ("step", "where", "at"),
    [("decision.apply", "received", 0), ("completion.deliver", "locked", 1), ("wait.fire", "committed", 2)],
)
async def test_the_death_of_any_process_loses_nothing(arena, step, where, at):
    """RCV-001, RCV-002, DLV-121: it kills itself in the middle of a step; the other two go on from there, once."""
    async with arena.lab(f"death-{step}-{at}") as lab:
        worker, first = await begun(lab)
        children = await lab.worker(queue=lab.child_queue)
        await lab.rule(step, "crash", where=where, at=at)
        try:
            await _story(lab, worker, children, first, at)
            await lab.eventually(lambda: asyncio.to_thread(arena.system.ended, arena.names[at]), bool)
        finally:
            await asyncio.to_thread(arena.restart, arena.names[at])
        await worker.nothing()
        await children.nothing()
        assert len((await lab.client.list_tasks()).accepted()["items"]) == 4


async def _story(lab: RaceLab, worker: Any, children: Any, first: Any, at: int) -> None:
    """A child, an event, an end; what sets off the step goes to the process that dies of it, while it lives."""
    with pinned(at):
        await first.suspend("c", commands=[first.command("c")])
        child = await children.running()
        await child.succeed(5)
        second = await worker.activation()
        assert second.output_of("c") == 5
        await second.wait_event("go")
        await lab.client.workflow_until(second.workflow_id, "waiting")
        sent = (await lab.client.send_event(second.workflow_id, "go", event := lab.client.event())).accepted()
        third = await worker.activation()
        assert third.wake("event")["accepted_at"] == sent["accepted_at"]
        again = (await lab.client.send_event(second.workflow_id, "go", event)).accepted()
        assert again["accepted_at"] == sent["accepted_at"]
        await third.complete("all")
        ended = await lab.client.workflow_until(third.workflow_id, "succeeded")
        assert ended["revision"] == 3
