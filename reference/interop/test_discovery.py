"""The published client's listing over many tasks: pages, filters, cursors, and changes in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ledgence.client import AsyncClient, InputError, ServiceError, TaskHandle, TaskState, TaskStatus
from mutations import HELLO, MIXED

TASKS = 130


async def traversal(client: AsyncClient, *limits: int, **filters: Any) -> list[TaskStatus]:
    """All pages, with the given limits in turn. Fails when a task comes twice."""
    seen: list[TaskStatus] = []
    cursor, page = None, 0
    while True:
        got = await client.tasks.list(limit=limits[page % len(limits)], cursor=cursor, **filters)
        seen += got.items
        cursor, page = got.next_cursor, page + 1
        if cursor is None:
            break
    assert len({task.task_id for task in seen}) == len(seen)
    assert [task.submitted_at for task in seen] == sorted((task.submitted_at for task in seen), reverse=True)
    return seen


async def filled(client: AsyncClient, count: int = TASKS) -> list[TaskHandle]:
    """Tasks in two queues, every third with an empty correlation key, every third with one; every tenth cancelled."""
    keys = {0: {"correlation_key": ""}, 1: {"correlation_key": "c \u00e9"}, 2: {}}

    async def submit(number: int) -> TaskHandle:
        task = await client.tasks.submit(
            **HELLO, queue=f"q{number % 2}", data=number, idempotency_key=str(number), **keys[number % 3]
        )
        if number % 10 == 0:
            await task.cancel()
        return task

    return list(await asyncio.gather(*map(submit, range(count))))


async def test_pages_of_every_size_hold_every_task_once(truth: AsyncClient) -> None:
    """DISC-007..017, CLI-072..075."""
    tasks = {task.id for task in await filled(truth)}
    for limits in ((100,), (50,), (7,), (1, 100, 3)):
        assert {task.task_id for task in await traversal(truth, *limits)} == tasks
    assert len((await truth.tasks.list()).items) == 50
    exact = await truth.tasks.list(limit=TASKS // 10, state="cancelled")
    assert (len(exact.items), exact.next_cursor) == (13, None)


async def test_filters_are_combined(truth: AsyncClient) -> None:
    """DISC-006..010: exact, all together, the window open at its end."""
    await filled(truth)
    everything = await traversal(truth, 100)
    middle = everything[len(everything) // 2].submitted_at
    for filters, fits in (
        ({"state": TaskState.CANCELLED}, lambda task: task.state is TaskState.CANCELLED),
        ({"state": "queued", "queue": "q1"}, lambda task: task.state == "queued" and task.queue == "q1"),
        ({"correlation_key": ""}, lambda task: task.correlation_key == ""),
        (
            {"correlation_key": "c \u00e9", "queue": "q0"},
            lambda task: (task.correlation_key, task.queue) == ("c \u00e9", "q0"),
        ),
        ({"submitted_from": middle}, lambda task: task.submitted_at >= middle),
        ({"submitted_until": middle}, lambda task: task.submitted_at < middle),
        ({"submitted_from": middle, "submitted_until": middle + 1}, lambda task: task.submitted_at == middle),
        ({"submitted_from": 0, "submitted_until": 253402300799999}, lambda task: True),
        ({"submitted_until": 0}, lambda task: False),
        ({"queue": "q"}, lambda task: False),
        ({"state": "succeeded"}, lambda task: False),
    ):
        assert await traversal(truth, 9, **filters) == [task for task in everything if fits(task)], filters


async def test_changes_between_pages(truth: AsyncClient) -> None:
    """DISC-019, DISC-020: nothing newer appears behind a cursor; what leaves the filter is missed, not repeated."""
    tasks = await filled(truth, 40)
    first = await truth.tasks.list(state="queued", limit=10)
    newer = await truth.tasks.submit(**HELLO, queue="q0", data=0, idempotency_key="newer")
    boundary, behind = first.items[-1].task_id, None
    await truth.tasks.handle(boundary).cancel()
    everything = await traversal(truth, 100, state="queued")
    known = {task.task_id for task in first.items}
    behind = next(task.task_id for task in reversed(everything) if task.task_id not in known)
    await truth.tasks.handle(behind).cancel()
    rest = []
    cursor = first.next_cursor
    while cursor is not None:
        page = await truth.tasks.list(state="queued", limit=10, cursor=cursor)
        rest += [task.task_id for task in page.items]
        cursor = page.next_cursor
    queued = {task.id for index, task in enumerate(tasks) if index % 10}
    assert set(rest) == queued - known - {behind}
    assert len(set(rest)) == len(rest)
    assert newer.id not in rest


async def test_cursors_of_others_and_of_nobody(truth: AsyncClient, client: AsyncClient) -> None:
    """DISC-016, DISC-018: bound to scope and filters; anything else is refused, never an empty page."""
    await filled(truth, 8)
    page = await truth.tasks.list(queue="q0", limit=2)
    cursor = page.next_cursor
    assert cursor is not None
    for who, query in (
        (truth, {"queue": "q0", "cursor": "nonsense"}),
        (truth, {"queue": "q0", "cursor": cursor[:-1]}),
        (truth, {"queue": "q0", "cursor": "x" * 8192}),
        (truth, {"queue": "q1", "cursor": cursor}),
        (truth, {"cursor": cursor}),
        (truth, {"queue": "q0", "state": "queued", "cursor": cursor}),
        (truth, {"queue": "q0", "correlation_key": "", "cursor": cursor}),
        (truth, {"queue": "q0", "submitted_from": 0, "cursor": cursor}),
        (client, {"queue": "q0", "cursor": cursor}),
    ):
        with pytest.raises(ServiceError) as raised:
            await who.tasks.list(**query)
        assert raised.value.code == "invalid_input"
    assert (await truth.tasks.list(queue="q0", limit=100, cursor=cursor)).next_cursor is None


async def test_queries_that_are_not_sent(truth: AsyncClient) -> None:
    """CLI-122: states, limits and windows that no service would take."""
    for wrong in (
        {"state": "lost"},
        {"queue": ""},
        {"limit": 0},
        {"limit": 101},
        {"limit": True},
        {"submitted_from": -1},
        {"submitted_until": 253402300800000},
        {"submitted_from": 5, "submitted_until": 5},
        {"cursor": ""},
        {"cursor": "x" * 8193},
    ):
        with pytest.raises(InputError):
            await truth.tasks.list(**wrong)


async def test_tasks_of_workflows_are_listed_with_their_owner(client: AsyncClient, key: str, queue: str) -> None:
    """DISC-023, CLI-037: activations of the workflow and of its branches, each under its own workflow."""
    data = {"values": [1, 2], "queue": queue}
    workflow = await client.workflows.submit(
        **MIXED, queue=queue, data=data, idempotency_key=key, correlation_key=key[-128:]
    )
    await workflow.result(timeout=60)
    started = (await workflow.status()).submitted_at
    listed = await traversal(client, 100, submitted_from=started)
    own = [task for task in listed if task.workflow_id == workflow.id]
    assert len(own) == 2  # start, collect
    assert all(task.workflow_activation_id == task.task_id for task in own)
    owners = {task.workflow_id for task in listed} - {None, workflow.id}
    children = [await client.workflows.handle(owner).status() for owner in owners]
    branches = [child for child in children if child.parent_workflow_id == workflow.id]
    assert [child.root_workflow_id for child in branches] == [workflow.id] * 2
    result = await client.tasks.handle(own[0].task_id).outcome()
    assert result.outcome.kind == "succeeded"
