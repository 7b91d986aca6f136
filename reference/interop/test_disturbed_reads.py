"""The published client's disturbed reads and waits: each says what failed, and the next one finds everything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from disturbed import Coordinator, Faults
from ledgence.client import (
    AsyncClient,
    RequestTimeout,
    TaskCancelled,
    TaskState,
    TransportError,
    Unavailable,
    WaitTimeout,
    WorkflowCancelled,
    WorkflowWaitTimeout,
)
from mutations import HELLO, MIXED

Read = Callable[[AsyncClient, str], Awaitable[Any]]
TASKS: list[tuple[str, Read]] = [
    ("GET /v1/tasks/status", lambda client, task: client.tasks.handle(task).status()),
    ("GET /v1/tasks/result", lambda client, task: client.tasks.handle(task).outcome()),
    ("GET /v1/tasks", lambda client, _: client.tasks.list()),
]
WORKFLOWS: list[tuple[str, Read]] = [
    ("GET /v1/workflows/status", lambda client, workflow: client.workflows.handle(workflow).status()),
    ("GET /v1/workflows/result", lambda client, workflow: client.workflows.handle(workflow).outcome()),
]
READS = pytest.mark.parametrize(("route", "read"), TASKS + WORKFLOWS, ids=[route for route, _ in TASKS + WORKFLOWS])


@pytest.fixture
async def identity(request: pytest.FixtureRequest, truth: AsyncClient, key: str) -> str:
    """A task or workflow to read, as the route of the test has it."""
    route = request.node.callspec.params["route"]
    submit, program = (truth.workflows.submit, MIXED) if "workflows" in route else (truth.tasks.submit, HELLO)
    handle: Any = await submit(**program, queue="idle", data=1, idempotency_key=key)
    return str(handle.id)


@READS
@pytest.mark.parametrize(
    ("where", "act", "error"),
    [
        ("received", "drop", TransportError),
        ("committed", "drop", TransportError),
        ("received", "fail", Unavailable),
        ("committed", "fail", Unavailable),
    ],
)
async def test_a_lost_or_failed_read(
    route: str,
    read: Read,
    where: str,
    act: str,
    error: type[TransportError],
    identity: str,
    shaken: AsyncClient,
    faults: Faults,
) -> None:
    """CLI-005, CLI-013, CLI-019: a read may be sent twice and says what failed; the next one finds everything."""
    await faults.add(route, where, act, times=None)
    with pytest.raises(TransportError) as raised:
        await read(shaken, identity)
    assert type(raised.value) is error
    assert await faults.hits() in ((1,) if act == "fail" else (1, 2))
    await faults.clear()
    assert await read(shaken, identity)


@pytest.mark.parametrize(
    ("where", "act", "details"),
    [("received", "hold", {}), ("committed", "hold", {}), ("committed", "drip", {"bytes": 1, "every_ms": 1000})],
    ids=["hold-received", "hold-committed", "drip"],
)
async def test_reads_that_do_not_end_in_time(
    where: str, act: str, details: dict[str, int], hasty: AsyncClient, faults: Faults, truth: AsyncClient, key: str
) -> None:
    """CLI-021: held, or trickling."""
    task = await truth.tasks.submit(**HELLO, queue="idle", data=1, idempotency_key=key)
    workflow = await truth.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=key)
    calls = [(read, task.id) for _, read in TASKS] + [(read, workflow.id) for _, read in WORKFLOWS]
    for route, _ in TASKS + WORKFLOWS:
        await faults.add(route, where, act, **details)
    ends = await asyncio.gather(*(read(hasty, one) for read, one in calls), return_exceptions=True)
    assert [type(end) for end in ends] == [RequestTimeout] * len(calls)
    assert all(end.dispatched for end in ends)
    await faults.clear()
    for read, one in calls:
        assert await read(hasty, one)


@READS
async def test_a_read_without_time_left(route: str, read: Read, identity: str, truth: AsyncClient) -> None:
    """CLI-021: nothing is sent."""
    scope = {"tenant": truth.scope.tenant_id, "namespace": truth.scope.namespace}
    async with AsyncClient(truth.base_url, **scope, request_timeout=1e-9) as late:
        with pytest.raises(RequestTimeout) as raised:
            await read(late, identity)
    assert not raised.value.dispatched


@READS
async def test_a_trickling_reply_is_a_reply(
    route: str, read: Read, identity: str, shaken: AsyncClient, truth: AsyncClient, faults: Faults
) -> None:
    """CLI-012: piece by piece, the same."""
    await faults.add(route, "committed", "drip", bytes=11, every_ms=1)
    assert await read(shaken, identity) == await read(truth, identity)
    assert await faults.hits() == 1


@READS
async def test_a_client_that_closes_ends_its_reads(
    route: str, read: Read, identity: str, shaken: AsyncClient, faults: Faults
) -> None:
    """A dispatched read ends as a transport failure."""
    await faults.add(route, "received", "hold")
    call = asyncio.create_task(read(shaken, identity))  # type: ignore[arg-type]  # the lambdas return coroutines
    await faults.until_held()
    await shaken.close()
    with pytest.raises(TransportError):
        await call
    await faults.clear()


async def test_a_wait_goes_on_over_failed_reads(shaken: AsyncClient, faults: Faults, key: str) -> None:
    """CLI-007: 503 and lost replies of status and result are passed over within the budget, for both kinds of work."""
    task = await shaken.tasks.submit(**HELLO, queue="idle", data=1, idempotency_key=key)
    workflow = await shaken.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=key)
    await task.cancel()
    await workflow.cancel()
    for kind in ("tasks", "workflows"):
        await faults.add(f"GET /v1/{kind}/status", "received", "fail")
        await faults.add(f"GET /v1/{kind}/result", "committed", "drop", times=2)
    ended, drained = await asyncio.gather(task.wait(timeout=60), workflow.wait(timeout=60))
    assert await faults.hits() >= 4
    assert ended.outcome.kind == drained.outcome.kind == "cancelled"
    assert ended.task == await task.status()
    assert drained.workflow == await workflow.status()


async def test_a_wait_that_only_meets_failures_tells_the_last_one(
    shaken: AsyncClient, faults: Faults, key: str
) -> None:
    """CLI-007, CLI-025: the end of the budget is the end of the observation."""
    task = await shaken.tasks.submit(**HELLO, queue="idle", data=1, idempotency_key=key)
    workflow = await shaken.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=key)
    await faults.add("GET /v1/tasks/status", "received", "fail", times=None)
    await faults.add("GET /v1/workflows/status", "received", "hold", times=None)
    with pytest.raises(WaitTimeout) as failed:
        await task.result(timeout=0.3)
    assert (failed.value.task, failed.value.last_status) == (task, None)
    assert type(failed.value.last_error) is Unavailable
    with pytest.raises(WorkflowWaitTimeout) as held:
        await workflow.result(timeout=0.3)
    assert (held.value.workflow, held.value.last_status) == (workflow, None)
    assert type(held.value.last_error) is RequestTimeout
    await faults.clear()
    assert (await task.status()).state is TaskState.QUEUED


async def test_a_wait_goes_on_while_its_coordinator_is_started_again(
    shaken: AsyncClient, truth: AsyncClient, faults: Faults, coordinator: Coordinator, key: str
) -> None:
    """CLI-007: kill -9 under two waits; work that ends meanwhile is found by the same waits."""
    task = await shaken.tasks.submit(**HELLO, queue="idle", data=1, idempotency_key=key)
    workflow = await shaken.workflows.submit(**MIXED, queue="idle", data=1, idempotency_key=key)
    waits = asyncio.gather(task.result(timeout=60), workflow.result(timeout=60), return_exceptions=True)
    await faults.add("POST /v1/tasks", "received", "crash")
    with pytest.raises(Exception, match="uncertain"):
        await shaken.tasks.submit(**HELLO, queue="idle", data=1, idempotency_key=f"{key}:crash"[-255:])
    await asyncio.to_thread(coordinator.ended)
    try:
        await truth.tasks.handle(task.id).cancel()
        await truth.workflows.handle(workflow.id).cancel()
    finally:
        await asyncio.to_thread(coordinator.start)
    ends = await waits
    assert [type(end) for end in ends] == [TaskCancelled, WorkflowCancelled]


async def test_many_waits_share_the_exchanges_of_one_client(
    shaken: AsyncClient, truth: AsyncClient, faults: Faults, key: str
) -> None:
    """CLI-006: at most eight at a time; a wait that gets no turn ends undispatched, the others get all answers."""
    tasks = [
        await shaken.tasks.submit(**HELLO, queue="idle", data=n, idempotency_key=f"{key}:{n}"[-255:]) for n in range(20)
    ]
    await faults.add("GET /v1/tasks/status", "received", "hold", times=8)
    reads = [asyncio.create_task(task.status()) for task in tasks]
    await faults.until_held(8)
    with pytest.raises(WaitTimeout) as starved:
        await tasks[0].wait(timeout=0.2)
    assert isinstance(starved.value.last_error, RequestTimeout)
    assert not starved.value.last_error.dispatched
    await faults.release()
    assert {status.task_id for status in await asyncio.gather(*reads)} == {task.id for task in tasks}
