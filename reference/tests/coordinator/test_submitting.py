"""Submission on a real database (chapter 06)."""

from __future__ import annotations

import asyncio

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef, Scope
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.parts import SUBMISSIONS
from protocol3.programs.errors import ProgramError
from protocol3.store.clock import REAL

TRACE = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": None}


async def test_replay_returns_the_current_task(client):
    """TASK-104, TASK-108: same ids, first trace, no further history, in any state."""
    first = await client.submit(trace=TRACE)
    await client.cancel(first["task_id"])
    again = await client.submit()
    assert again == first | {k: again[k] for k in ("state", "terminal_at", "cancel_requested_at")}
    assert again["state"] == "cancelled"
    assert await client.reasons(first["task_id"]) == ["submitted", "cancel_requested", "cancelled"]


async def test_conflict_changes_nothing(client, refused):
    """TASK-105."""
    first = await client.submit(data=1)
    assert await refused(client.submit(data=1.0)) == "conflict"
    assert await client.submit(data=1) == first


async def test_data_may_be_null_but_not_left_out(client):
    """TASK-113."""
    assert (await client.submit(data=None))["input"]["data"] is None
    command = client.submission("other")
    del command["input"]["data"]
    with pytest.raises(Refusal, match="data: is missing"):
        SubmitCommand.from_json(command)


async def test_a_correlation_key_is_only_a_label(client):
    """TASK-114, TASK-115: any number of tasks may share it; no session and no queue has to exist."""
    tasks = [await client.submit(key, correlation_key="order", queue=f"new-{key}") for key in ("a", "b")]
    assert tasks[0]["task_id"] != tasks[1]["task_id"]
    listed = (await client.list(correlation_key="order"))["items"]
    assert {task["task_id"] for task in listed} == {task["task_id"] for task in tasks}


async def test_keys_of_other_scopes_are_independent(client):
    """TASK-103."""
    first = await client.submit()
    other = await client.submit(namespace=client.scope["namespace"] + "2")
    assert other["task_id"] != first["task_id"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("not_found", "not_found"),
        ("invalid_input", "invalid_input"),
        ("incompatible", "invalid_input"),
        ("integrity", "unavailable"),
        ("io", "unavailable"),
        ("unavailable", "unavailable"),
        ("timed_out", "unavailable"),
    ],
)
async def test_failures_of_the_program_store(client, programs, refused, kind, code):
    """TASK-102: and no task is created."""
    programs.failure = ProgramError(kind, "secret details")
    assert await refused(client.submit()) == code
    assert (await client.list())["items"] == []


async def test_a_replay_never_asks_the_program_store(client, programs, refused):
    """TASK-109: neither does a conflict."""
    first = await client.submit()
    programs.failure = ProgramError("io", "gone")
    assert (await client.submit())["task_id"] == first["task_id"]
    assert await refused(client.submit(data="other")) == "conflict"
    assert programs.asked == 1


async def test_values_come_before_the_key_and_the_key_before_the_program(client, programs, refused):
    """TASK-214: a value that is wrong is refused under a taken key; a conflict is found while the store is away."""
    await client.submit()
    programs.failure = ProgramError("io", "gone")
    assert await refused(client.submit(trace={"traceparent": "no", "tracestate": None})) == "invalid_input"
    assert await refused(client.submit(data="other")) == "conflict"
    assert await refused(client.submit("new")) == "unavailable"


async def test_a_competitor_commits_while_resolution_fails(client, programs):
    """TASK-109: its binding is used for the reply."""
    asked, answer = asyncio.Event(), asyncio.Event()
    resolve = programs.resolve

    async def slow(program: ProgramRef) -> Descriptor:
        asked.set()
        await answer.wait()
        raise ProgramError("io", "gone")

    programs.resolve = slow
    loser = asyncio.create_task(client.submit())
    await asked.wait()
    programs.resolve = resolve
    winner = await client.submit()
    answer.set()
    assert await loser == winner


async def test_a_competitor_commits_during_the_resolution(client, programs):
    """TASK-110: the key was looked at before; who accepts by that look finds the key taken, and the winner."""
    asked, answer = asyncio.Event(), asyncio.Event()
    resolve = programs.resolve

    async def slow(program: ProgramRef) -> Descriptor:
        asked.set()
        await answer.wait()
        return await resolve(program)

    programs.resolve = slow
    loser = asyncio.create_task(client.submit())
    await asked.wait()
    programs.resolve = resolve
    winner = await client.submit()
    answer.set()
    assert await loser == winner


@pytest.mark.parametrize("fresh_s", [0, 3_600])
async def test_a_task_is_dated_by_a_fresh_look(client, programs, monkeypatch, fresh_s):
    """TASK-100: a program store that takes its time dates no task back; one that answers at once saves a look."""
    monkeypatch.setattr("protocol3.coordinator.operations.acceptance.FRESH_S", fresh_s)
    resolved_at = 0

    async def slow(program: ProgramRef) -> Descriptor:
        nonlocal resolved_at
        await client.services.pool.execute("select pg_sleep(0.01)")
        resolved_at = await client.services.pool.fetchval(f"select {REAL}")
        return Descriptor(program=program, digest="sha256:" + "a" * 64, size=1)

    programs.resolve = slow
    task = await client.submit()
    assert (task["submitted_at"] >= resolved_at) == (fresh_s == 0)


async def test_concurrent_first_submissions(client):
    """TASK-110: one task; matching callers get it, the others a conflict."""
    calls = [client.submit(data=n % 2) for n in range(12)]
    replies = await asyncio.gather(*calls, return_exceptions=True)
    tasks = {reply["task_id"] for reply in replies if isinstance(reply, dict)}
    codes = [reply.code for reply in replies if isinstance(reply, Refusal)]
    assert len(tasks) == 1
    assert codes == ["conflict"] * 6


async def test_all_attempts_use_the_bound_descriptor(client, report, programs):
    """TASK-101, DLV-041: whatever is published later."""
    task = await client.submit(retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
    session = await client.open()
    first = await client.assignment(session, 1)
    await client.settle(first, report.failed("io"))

    async def republished(program: ProgramRef) -> Descriptor:
        return Descriptor(program=program, digest="sha256:" + "b" * 64, size=1)

    programs.resolve = republished
    second = await client.assignment(session, 2)
    assert second["descriptor"] == first["descriptor"] == task["descriptor"]


async def test_submissions_leave_connections_to_workers(client, pool, services):
    """However many there are: they wait for their turn, and others for nobody."""
    session = await client.open("work")
    await client.submit("work", queue="work")
    blocked = (  # for good: a common call waits for some milliseconds only, then its members go alone
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' "
        "and query not like 'select apply_together%'"
    )
    scope_id = await services.scopes.require(Scope(tenant_id="t", namespace=client.scope["namespace"]))
    async with pool.acquire() as holder:
        others = holder.transaction()
        await others.start()
        for number in range(24):
            row = (scope_id, "task", f"{number}", "never", b"")
            await holder.execute("insert into submission select ($1::submission).*", row)
        submissions = [asyncio.create_task(client.submit(f"{number}")) for number in range(24)]
        async with asyncio.timeout(20):
            while await pool.fetchval(blocked) < SUBMISSIONS or not services.submissions.locked():
                await asyncio.sleep(0.005)
        await client.renew(await client.assignment(session, 1, queue="work"), 1)
        assert await pool.fetchval(blocked) == SUBMISSIONS
        await others.rollback()
    assert len({task["task_id"] for task in await asyncio.gather(*submissions)}) == 24
