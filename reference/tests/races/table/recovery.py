"""Restarts, failing parts and two answers of a program store, against what goes on meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from races.arena import PINNED, TWIN, RaceLab, digest_at
from races.contest import Contest, Side, race
from races.table.ends import begun

HOUR = 3_600_000
DAY = 24 * HOUR


def restart(lab: RaceLab, at: int = 0) -> Any:
    """kill -9 of a coordinator, and the same command again."""
    return asyncio.to_thread(lab.arena.restart, lab.arena.names[at])


@race("RACE-31", restarts=True)
async def restart_against_the_end_of_a_child(lab: RaceLab) -> Contest:
    """RACE-31, RCV-001: one resumption, whoever had to deliver the end."""
    worker, first = await begun(lab)
    children = await lab.worker(queue=lab.child_queue)
    await first.suspend("c", commands=[first.command("c")])
    child = await children.running()
    await lab.client.workflow_until(first.workflow_id, "waiting")

    async def judge(*_: Any) -> str:
        second = await worker.activation()
        assert (second.output_of("c"), second.frozen["revision"]) == ("done", 1)
        await lab.nothing_owed()
        await worker.nothing()
        return "resumed"

    return Contest(
        sides=(Side(name="child", act=lambda: child.succeed("done")), Side(name="restart", act=lambda: restart(lab))),
        judge=judge,
        outcomes=("resumed", "resumed"),
    )


@race("RACE-32", restarts=True)
async def restart_against_a_timer(lab: RaceLab) -> Contest:
    """RACE-32, TMR-014: fired once, with the deadline that was stored."""
    worker, first = await begun(lab)
    await first.wait_timer("nap", HOUR)
    await lab.client.workflow_until(first.workflow_id, "waiting")
    deadline = await lab.store.fetchval("select deadline from wait where workflow_id = $1", first.workflow_id)

    async def judge(*_: Any) -> str:
        second = await worker.activation()
        assert second.frozen["wake"] == {"kind": "timer", "key": "nap", "deadline": deadline}
        await worker.nothing()
        assert (await lab.client.workflow_status(first.workflow_id)).accepted()["revision"] == 1
        return "fired"

    async def due() -> Any:
        return await lab.test(1, "clock", advance_ms=2 * HOUR)

    return Contest(
        sides=(Side(name="timer", act=due), Side(name="restart", act=lambda: restart(lab))),
        judge=judge,
        outcomes=("fired", "fired"),
    )


@race("RACE-34")
async def two_submissions_with_different_digests(lab: RaceLab) -> Contest:
    """RACE-34, WF-018: one workflow, and the winner's program for all its activations."""
    command = lab.client.submission(program={"id": TWIN[0], "version": TWIN[1]})
    names: dict[str, str] = {}

    async def submit(name: str) -> Any:
        at = PINNED.get()
        assert at is not None
        names[digest_at(at)] = name
        return await lab.client.post("/v1/workflows", command)

    async def judge(*sent: Any) -> str:
        one, other = (each.accepted() for each in sent)
        assert one["workflow_id"] == other["workflow_id"]
        worker = await lab.worker()
        first = await worker.activation()
        digest = first.assignment["descriptor"]["digest"]
        await first.go_on()
        assert (await worker.activation()).assignment["descriptor"]["digest"] == digest
        await worker.nothing()
        return names[digest]

    return Contest(
        sides=(
            Side(name="one", act=lambda: submit("one"), step="program.resolve"),
            Side(name="other", act=lambda: submit("other"), step="program.resolve"),
        ),
        judge=judge,
    )


@race("RACE-37")
async def repair_against_a_day_of_failures(lab: RaceLab) -> Contest:
    """RACE-37, RCV-020 to RCV-022: applied whatever its age, or given up once it is a day old and fails again."""
    _, first = await begun(lab)
    await lab.rule("program.resolve", "fail", times=None)
    await first.suspend("c", commands=[first.command("c")])

    async def repair() -> None:
        await lab.clear()
        await lab.nothing_owed()

    async def judge(*_: Any) -> str:
        ended = await lab.client.workflow_until(first.workflow_id, "waiting", "failed")
        count = len((await lab.client.list_tasks()).accepted()["items"])
        if ended["state"] == "waiting":
            assert (ended["revision"], count) == (1, 2)
            return "repair"
        outcome = (await lab.client.workflow_result(first.workflow_id)).accepted()["outcome"]
        assert (outcome["error"]["kind"], count) == ("workflow_application_timeout", 1)
        return "age"

    async def age() -> None:
        await lab.advance(DAY)
        await lab.client.workflow_until(first.workflow_id, "failed", "waiting")  # it was decided, one way or the other

    return Contest(sides=(Side(name="repair", act=repair), Side(name="age", act=age)), judge=judge)
