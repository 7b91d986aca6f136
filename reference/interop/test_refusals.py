"""Every refusal that the published client can meet with our coordinator, by call: typed and with its code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from ledgence.client import (
    AsyncClient,
    ClientClosed,
    Conflict,
    InputError,
    NotFound,
    RetryPolicy,
    ServiceError,
    TaskState,
    WorkflowState,
)
from mutations import HELLO, MIXED, event

Call = Callable[[AsyncClient], Awaitable[Any]]
SUBMISSION = {"queue": "idle", "data": 1, "idempotency_key": "k"}
# Counted by the client as it writes them (5 bytes), by the service in its own compact form (7 bytes): JSON-054.
LONGER_FOR_THE_SERVICE = 1e-05

CALLS: dict[str, Call] = {
    "Tasks.submit": lambda client: client.tasks.submit(**HELLO, **SUBMISSION),
    "Tasks.list": lambda client: client.tasks.list(),
    "TaskHandle.status": lambda client: client.tasks.handle("ghost").status(),
    "TaskHandle.outcome": lambda client: client.tasks.handle("ghost").outcome(),
    "TaskHandle.wait": lambda client: client.tasks.handle("ghost").wait(timeout=30),
    "TaskHandle.result": lambda client: client.tasks.handle("ghost").result(timeout=30),
    "TaskHandle.cancel": lambda client: client.tasks.handle("ghost").cancel(),
    "Workflows.submit": lambda client: client.workflows.submit(**MIXED, **SUBMISSION),
    "WorkflowHandle.status": lambda client: client.workflows.handle("ghost").status(),
    "WorkflowHandle.outcome": lambda client: client.workflows.handle("ghost").outcome(),
    "WorkflowHandle.wait": lambda client: client.workflows.handle("ghost").wait(timeout=30),
    "WorkflowHandle.result": lambda client: client.workflows.handle("ghost").result(timeout=30),
    "WorkflowHandle.cancel": lambda client: client.workflows.handle("ghost").cancel(),
    "WorkflowHandle.send_event": lambda client: client.workflows.handle("ghost").send_event(key="k", event=event()),
    "WorkflowHandle.approval": lambda client: client.workflows.handle("ghost").approval("k"),
    "WorkflowHandle.approvals": lambda client: client.workflows.handle("ghost").approvals(),
    "CompletionSubscriptionHandle.status": lambda client: client.completions.handle("ghost").status(),
}
OF_NOTHING = [name for name, _ in CALLS.items() if "Handle." in name and "approval" not in name and "Comp" not in name]


@pytest.mark.parametrize("name", OF_NOTHING)
async def test_what_does_not_exist_is_not_found(name: str, truth: AsyncClient) -> None:
    """TASK-121, WF-042, CLI-019: definite, with the id of the request, and no wait goes on."""
    with pytest.raises(NotFound) as raised:
        await CALLS[name](truth)
    assert raised.value.code == "not_found"
    assert raised.value.request_id


@pytest.mark.parametrize("name", ["status", "outcome", "cancel", "wait"])
async def test_another_namespace_has_nothing_of_it(
    name: str, client: AsyncClient, truth: AsyncClient, key: str
) -> None:
    """TASK-103, WF-063: the same id and the same key in another scope are others."""
    task = await truth.tasks.submit(**HELLO, queue="idle", data=1, idempotency_key=key)
    workflow = await truth.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=key)
    for stranger in (client.tasks.handle(task.id), client.workflows.handle(workflow.id)):
        with pytest.raises(NotFound):
            await getattr(stranger, name)()
    other = await client.tasks.submit(**HELLO, queue=f"idle-{key}"[:60], data=2, idempotency_key=key)
    assert other.id != task.id
    with pytest.raises(NotFound):
        await client.workflows.handle(workflow.id).send_event(key="k", event=event())


@pytest.mark.parametrize("name", CALLS)
async def test_a_client_that_is_not_open_sends_nothing(name: str, truth: AsyncClient) -> None:
    """Before it is entered, and after it was closed."""
    unopened = AsyncClient(truth.base_url, tenant=truth.scope.tenant_id, namespace=truth.scope.namespace)
    with pytest.raises(ClientClosed):
        await CALLS[name](unopened)
    await truth.close()
    with pytest.raises(ClientClosed):
        await CALLS[name](truth)


@pytest.mark.parametrize("kind", ["tasks", "workflows"])
async def test_a_key_is_bound_to_every_part_of_its_submission(kind: str, truth: AsyncClient) -> None:
    """TASK-104..108, WF-013, WF-015: each difference conflicts and changes nothing; none is the same work."""
    submit = getattr(truth, kind).submit
    first = {"program": "hello", "version": "1.0.0", "queue": "q", "data": {"a": 1, "b": [1.0, None]}}
    options = {"correlation_key": "c", "retry_policy": RetryPolicy(4, 7), "attempt_timeout_ms": 60_000}
    handle = await submit(**first, **options, idempotency_key="k")
    for other in (
        {"queue": "r"},
        {"data": {"a": 1, "b": [1, None]}},
        {"data": {"a": 1, "b": [1.0, None], "c": None}},
        {"program": "echo"},
        {"correlation_key": ""},
        {"correlation_key": None},
        {"retry_policy": RetryPolicy(4, 8)},
        {"retry_policy": None},
        {"attempt_timeout_ms": 60_001},
        {"attempt_timeout_ms": None},
    ):
        with pytest.raises(Conflict) as raised:
            await submit(**{**first, **options, **other}, idempotency_key="k")
        assert raised.value.code == "conflict"
    reordered = {"data": {"b": [1.0, None], "a": 1}}
    assert (await submit(**{**first, **options, **reordered}, idempotency_key="k")).id == handle.id
    assert len((await truth.tasks.list()).items) == 1


@pytest.mark.parametrize("kind", ["tasks", "workflows"])
async def test_a_submission_that_only_the_service_finds_wrong(kind: str, truth: AsyncClient) -> None:
    """TASK-102, TASK-112, WF-017, JSON-054: an unknown program or version, and data that the service counts longer."""
    submit = getattr(truth, kind).submit
    for program in ({"program": "nobody", "version": "1.0.0"}, {"program": "hello", "version": "9"}):
        with pytest.raises(NotFound):
            await submit(**program, **SUBMISSION)
    with pytest.raises(ServiceError) as raised:
        await submit(**HELLO, **{**SUBMISSION, "data": [LONGER_FOR_THE_SERVICE] * 170_000})
    assert raised.value.code == "invalid_input"
    assert (await truth.tasks.list()).items == ()


async def test_cancelling_what_has_ended_changes_nothing(client: AsyncClient, key: str, queue: str) -> None:
    """TASK-205, WF-062."""
    task = await client.tasks.submit(**HELLO, queue=queue, data={"name": "Ada"}, idempotency_key=key)
    workflow = await client.workflows.submit(**MIXED, queue=queue, data={}, idempotency_key=key)
    ended, failed = await asyncio.gather(task.wait(timeout=60), workflow.wait(timeout=60))
    assert await task.cancel() is TaskState.SUCCEEDED
    assert (await workflow.cancel()).state is WorkflowState.FAILED
    assert await task.outcome() == ended
    assert await workflow.outcome() == failed


async def test_every_refusal_of_an_event(truth: AsyncClient, key: str) -> None:
    """EVT-010..014: the key or the event is taken, the inbox is full, the workflow has ended, the event is long."""
    workflow = await truth.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=key)
    first = event()
    assert not (await workflow.send_event(key="0", event=first)).already_accepted
    for taken, other in (("0", event()), ("1", first), ("0", {**first, "data": 0}), ("0", {**first, "extra": True})):
        with pytest.raises(Conflict):
            await workflow.send_event(key=taken, event=other)
    await asyncio.gather(*(workflow.send_event(key=str(number), event=event()) for number in range(1, 128)))
    with pytest.raises(ServiceError) as full:
        await workflow.send_event(key="128", event=event())
    assert full.value.code == "busy"
    assert (await workflow.send_event(key="0", event=first)).already_accepted
    with pytest.raises(ServiceError) as long:
        await workflow.send_event(key="long", event=event(data=[LONGER_FOR_THE_SERVICE] * 10_500))
    assert long.value.code == "invalid_input"
    await workflow.cancel()
    with pytest.raises(ServiceError) as late:
        await workflow.send_event(key="128", event=event())
    assert late.value.code == "obsolete_operation"


async def test_the_inbox_is_bounded_in_bytes(truth: AsyncClient, key: str) -> None:
    """EVT-011, LIM-012: four events of 64 KiB fill it."""
    workflow = await truth.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=key)
    room = 64 * 1024 - len(workflow.prepare_event("k", event=event(data=""))._body) + 150
    largest = await _largest(workflow, room)
    for number in range(4):
        await workflow.send_event(key=str(number), event=event(data="x" * largest))
    with pytest.raises(ServiceError) as full:
        await workflow.send_event(key="4", event=event(data="x"))
    assert full.value.code == "busy"


async def _largest(workflow: Any, most: int) -> int:
    """Data of an event of just the limit: the longest that the client prepares."""
    for size in range(most, 0, -1):
        try:
            workflow.prepare_event("k", event=event(data="x" * size))
        except InputError:
            continue
        return size
    raise AssertionError("no event can be prepared")
