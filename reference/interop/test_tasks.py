"""The published client against our coordinator: tasks and discovery."""

from __future__ import annotations

import pytest
from ledgence.client import (
    AsyncClient,
    Conflict,
    InputError,
    NotFound,
    RetryPolicy,
    Succeeded,
    TaskCancelled,
    TaskState,
    WaitTimeout,
)

HELLO = {"program": "hello", "version": "1.0.0"}


async def test_a_task_runs_and_its_output_is_read(client: AsyncClient, key: str, queue: str) -> None:
    """TASK-100, TASK-060..064: submitted, run by our worker, read back with the same numbers."""
    task = await client.tasks.submit(**HELLO, queue=queue, data={"name": "Ada"}, idempotency_key=key)
    result = await task.wait(timeout=60)
    assert isinstance(result.outcome, Succeeded)
    assert await task.result() == result.outcome.output
    status = await task.status()
    assert (status, status.state, status.attempt_count) == (result.task, TaskState.SUCCEEDED, 1)


async def test_the_same_key_finds_the_same_task(client: AsyncClient, key: str, idle_queue: str) -> None:
    """TASK-104..108: replays are the same task whatever their trace; other data conflicts."""
    options = {"retry_policy": RetryPolicy(max_attempts=3, retry_delay_ms=5000)}
    first = await client.tasks.submit(**HELLO, queue=idle_queue, data={"x": 1}, idempotency_key=key)
    again = await client.tasks.submit(**HELLO, queue=idle_queue, data={"x": 1}, idempotency_key=key, **options)
    assert again.id == first.id
    with pytest.raises(Conflict):
        await client.tasks.submit(**HELLO, queue=idle_queue, data={"x": 1.0}, idempotency_key=key)


@pytest.mark.parametrize("data", [None, -0.0, 2**64 - 1, -(2**63), 1e16, 1e-5, "\u0000\uffff", {"a/b": [[], {}]}])
async def test_data_comes_back_as_sent(client: AsyncClient, key: str, idle_queue: str, data: object) -> None:
    """CLI-053: the client itself refuses a reply in which a value changed its class or identity."""
    task = await client.tasks.submit(**HELLO, queue=idle_queue, data=data, idempotency_key=key)
    assert (await task.status()).state is TaskState.QUEUED


async def test_listing_filters_and_pages(client: AsyncClient, key: str, idle_queue: str) -> None:
    """DISC-007..018: newest first, every filter, no task twice over a chain of pages."""
    ids = []
    for number in range(5):
        task = await client.tasks.submit(
            **HELLO, queue=idle_queue, data=number, idempotency_key=f"{key}:{number}", correlation_key=""
        )
        ids.append(task.id)
    seen: list[str] = []
    cursor = None
    while True:
        page = await client.tasks.list(
            queue=idle_queue, state=TaskState.QUEUED, correlation_key="", limit=2, cursor=cursor
        )
        seen += [item.task_id for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sorted(seen) == sorted(ids)
    assert len(seen) == 5
    assert (await client.tasks.list(queue=idle_queue, state="failed")).items == ()


async def test_cancelling_a_queued_task(client: AsyncClient, key: str, idle_queue: str) -> None:
    """TASK-200, TASK-204: cancelled at once, and again."""
    task = await client.tasks.submit(**HELLO, queue=idle_queue, data=1, idempotency_key=key)
    assert await task.cancel() is TaskState.CANCELLED
    assert await task.cancel() is TaskState.CANCELLED
    with pytest.raises(TaskCancelled):
        await task.result(timeout=5)


async def test_errors_are_typed(client: AsyncClient, key: str, queue: str) -> None:
    """TASK-102, TASK-121, CLI-019: unknown task, unknown program, and nothing sent for bad input."""
    ghost = client.tasks.handle("task-unknown")
    for call in (ghost.status, ghost.outcome, ghost.cancel):
        with pytest.raises(NotFound):
            await call()
    with pytest.raises(NotFound):
        await client.tasks.submit(program="nobody", version="1", queue=queue, data=1, idempotency_key=key)
    with pytest.raises(InputError):
        await client.tasks.submit(**HELLO, queue="", data=1, idempotency_key=key)


async def test_observation_time_ends_without_touching_the_task(client: AsyncClient, key: str, idle_queue: str) -> None:
    """CLI-025."""
    task = await client.tasks.submit(**HELLO, queue=idle_queue, data=1, idempotency_key=key)
    with pytest.raises(WaitTimeout):
        await task.wait(timeout=0.3)
    assert (await task.status()).state is TaskState.QUEUED
