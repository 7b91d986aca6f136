"""What values, keys and outcomes go through, from the published client to a program and back."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from disturbed import SEEN_SECONDS, Faults
from ledgence.client import (
    ApplicationFailure,
    AsyncClient,
    AttemptLost,
    ErrorDetail,
    ExecutionFailure,
    InputError,
    Quiescence,
    RetryPolicy,
    ServiceError,
    TaskCancelled,
    TaskFailed,
    TaskState,
    WorkflowFailed,
    WorkflowState,
    WorkflowSucceeded,
)
from mutations import HELLO, event

from conftest import QUEUES

MIB = 1024 * 1024
ECHO = {"program": "echo", "version": "1.0.0"}
ORDERS = {"program": "locals-and-events", "version": "1.0.0"}


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


VALUES: dict[str, Any] = {
    "null": None,
    "empty": [{}, [], "", {"": {}}],
    "words": [True, False, None, "true", 0, 0.0, -0.0, 1, 1.0],
    "integers": [2**64 - 1, 2**63, -(2**63), 2**53 + 1, -1],
    "floats": [0.1, 1e16, 1e-5, 1e-8, 5e-324, 1.7976931348623157e308, 1e22, 123456789012345680.0, 1.0e15, -2.5e-7],
    "text": ["\u0000\u001f\u007f", "\ufdd0\uffff", "\u2028\u2029", "e\u0301", "\U0001f9d1\u200d\U0001f680", '"\\/\b'],
    "names": {"\u0000": 1, "": 2, "\U0010ffff": 3, "a.b/c": 4, "__proto__": 5, "\u00e9": 6, "e\u0301": 7},
    "deepest": nested(64),
    "wide": list(range(20_000)),
    "largest": "x" * (MIB - 2),
    "largest text of long characters": "\U0001f9d1" * (MIB // 4 - 1),
    "many floats": [1.5e-8] * 100_000,
}
NAMES = ["a", "\u00e9\U0001f9d1 &=+%#?/\\\"'", ".", "..", "x" * 128, "\U0001f9d1" * 32, "\u2028", " ", "-0", "null"]


def spelled(value: Any) -> str:
    """Text in which 1, 1.0, true and -0.0 differ."""
    return json.dumps(value, sort_keys=True)


async def test_values_go_to_a_program_and_come_back(client: AsyncClient, key: str, queue: str) -> None:
    """JSON-040..044, CLI-064, CLI-069: in the submission's reply, in the program, in its outcome: the same."""

    async def judge(name: str, value: Any) -> None:
        task = await client.tasks.submit(**ECHO, queue=queue, data=value, idempotency_key=f"{key}:{name}"[-255:])
        assert spelled(await task.result(timeout=60)) == spelled(value), name
        outcome = (await task.outcome()).outcome
        assert (outcome.quiescence, outcome.execution_may_have_started) == (Quiescence.CONFIRMED, True)

    await asyncio.gather(*(judge(name, value) for name, value in VALUES.items()))


@pytest.mark.parametrize("kind", ["tasks", "workflows"])
async def test_values_beyond_the_bounds_are_not_sent(kind: str, truth: AsyncClient) -> None:
    """CLI-122, TXT-001..005: one byte, one level, one step too far."""
    submit = getattr(truth, kind).submit
    call: dict[str, Any] = {**HELLO, "queue": "q", "data": 1, "idempotency_key": "k"}
    for wrong in (
        {"data": "x" * (MIB - 1)},
        {"data": nested(65)},
        {"data": 2**64},
        {"data": -(2**63) - 1},
        {"data": float("nan")},
        {"data": "\ud800"},
        {"data": {1: 2}},
        {"idempotency_key": "x" * 256},
        {"idempotency_key": ""},
        {"queue": "\u00e9" * 65},
        {"queue": "\ufffe"},
        {"correlation_key": "\u00e9" * 257},
        {"program": "Hello"},
        {"version": ".."},
        {"attempt_timeout_ms": 59_999},
        {"attempt_timeout_ms": 86_400_001},
        {"retry_policy": (1, 2)},
        {"origin_trace": "00-1"},
    ):
        with pytest.raises(InputError):
            await submit(**{**call, **wrong})
    for numbers in ((0, 0), (1001, 0), (1, -1), (1, 86_400_001), (True, 0), (1, 1.0)):
        with pytest.raises(InputError):
            RetryPolicy(*numbers)
    assert (await truth.tasks.list()).items == ()


@pytest.mark.parametrize("kind", ["tasks", "workflows"])
async def test_bounds_themselves_are_accepted(kind: str, truth: AsyncClient) -> None:
    """JSON-060, JSON-032, TXT-001..005, TASK-106: every option at both of its ends."""
    submit = getattr(truth, kind).submit
    for number, options in enumerate(
        (
            {"data": "x" * (MIB - 2)},
            {"data": nested(64)},
            {"data": {}, "correlation_key": ""},
            {"data": {}, "correlation_key": "\u00e9" * 256},
            {"data": {}, "correlation_key": "\uffff\ufdd0"},
            {"data": None, "retry_policy": RetryPolicy(max_attempts=1, retry_delay_ms=0), "attempt_timeout_ms": 60_000},
            {
                "data": False,
                "retry_policy": RetryPolicy(max_attempts=1000, retry_delay_ms=86_400_000),
                "attempt_timeout_ms": 86_400_000,
            },
        )
    ):
        handle = await submit(**HELLO, queue="\U0001f9d1" * 32, idempotency_key=f"{number:0>255}", **options)
        assert (await handle.status()).correlation_key == options.get("correlation_key")
    (kept,) = {task.queue for task in (await truth.tasks.list()).items}
    assert kept == "\U0001f9d1" * 32


@pytest.mark.parametrize("name", NAMES)
async def test_scopes_queues_and_keys_of_any_text(name: str, truth: AsyncClient) -> None:
    """CLI-003, TXT-001..004, HTTP-050..055: whatever a name holds, it is the same name in body and query."""
    async with AsyncClient(truth.base_url, tenant=truth.scope.namespace, namespace=name) as client:
        task = await client.tasks.submit(**HELLO, queue=name, data=1, idempotency_key=name, correlation_key=name)
        status = await task.status()
        assert (status.scope.namespace, status.queue, status.correlation_key) == (name, name, name)
        page = await client.tasks.list(queue=name, correlation_key=name)
        assert page.items == (status,)
        workflow = await client.workflows.submit(**HELLO, queue=name, data=1, idempotency_key=name)
        receipt = await workflow.send_event(key=name, event=event(subject=name))
        assert (receipt.key, receipt.scope, receipt.event_source) == (name, client.scope, "/interop")
        assert (await workflow.cancel()).scope == client.scope


async def test_failures_of_programs_keep_their_shape(client: AsyncClient, key: str, queue: str) -> None:
    """CLI-066, CLI-067, TASK-060..064: what a program raised, and a process that died, each after its attempts."""
    options = {"queue": queue, "retry_policy": RetryPolicy(max_attempts=2, retry_delay_ms=0)}
    calls = {"failing": "raise", "crasher": "exit"}
    tasks = [
        await client.tasks.submit(
            program=program, version="1.0.0", data={"how": how}, idempotency_key=f"{key}:{how}"[-255:], **options
        )
        for program, how in calls.items()
    ]
    raised, died = await asyncio.gather(*(task.result(timeout=60) for task in tasks), return_exceptions=True)
    assert isinstance(raised, TaskFailed)
    assert raised.failure == ApplicationFailure(ErrorDetail("business_error", "as requested"))
    assert isinstance(died, TaskFailed)
    assert isinstance(died.failure, ExecutionFailure)
    assert (died.failure.phase, died.failure.cleanup_error) == ("execution", None)
    for failed, attempts in ((raised, 1), (died, 2)):
        assert (failed.result.task.state, failed.result.task.attempt_count) == (TaskState.FAILED, attempts)


async def test_cancelling_work_under_way(client: AsyncClient, key: str) -> None:
    """TASK-202, TASK-206, CLI-071: acknowledged while it runs, then cancelled; under both helpers."""

    async def judge(queue: str) -> None:
        data, words = {"sleep_ms": 600_000}, {"program": "sleeper", "version": "1.0.0"}
        task = await client.tasks.submit(**words, queue=queue, data=data, idempotency_key=f"{key}:{queue}"[-255:])
        async with asyncio.timeout(SEEN_SECONDS):
            while (await task.status()).state is not TaskState.ACTIVE:
                await asyncio.sleep(0.02)
        assert await task.cancel() is TaskState.ACTIVE
        with pytest.raises(TaskCancelled) as cancelled:
            await task.result(timeout=60)
        assert cancelled.value.result.outcome.kind == "cancelled"
        assert cancelled.value.result.task.attempt_count == 1

    await asyncio.gather(*map(judge, QUEUES))


async def test_work_of_a_worker_that_is_never_heard_of_again(shaken: AsyncClient, faults: Faults) -> None:
    """CLI-068, CLI-081, DLV-110: the attempt is lost with its lease; a workflow of such a controller fails."""
    words: dict[str, Any] = {"data": 1, "retry_policy": RetryPolicy(1, 0), "idempotency_key": "k"}
    task = await shaken.tasks.submit(**HELLO, queue="tasks", **words)
    workflow = await shaken.workflows.submit(**HELLO, queue="controllers", **words)
    for queue in ("tasks", "controllers"):
        await faults.claim(queue)
    assert (await task.status()).state is TaskState.ACTIVE
    assert (await task.outcome()).outcome is None
    await faults.add("drain.pass", "received", "hold")
    await faults.advance(3_600_000)
    with pytest.raises(TaskFailed) as failed:
        await task.result(timeout=60)
    assert failed.value.failure == AttemptLost()
    assert failed.value.result.outcome.quiescence is Quiescence.UNCONFIRMED
    await faults.until_held()
    assert (await workflow.status()).state is WorkflowState.FAILING
    assert (await workflow.outcome()).outcome is None
    await faults.release()
    with pytest.raises(WorkflowFailed):
        await workflow.result(timeout=60)


async def test_an_event_wakes_a_workflow_with_its_data(client: AsyncClient, key: str, queue: str) -> None:
    """EVT-012, EVT-015, WF-040: sent before the workflow waits; its data arrive, and the receipt stays."""
    data = {"order": "book", "timeout_ms": None}
    workflow = await client.workflows.submit(**ORDERS, queue=queue, data=data, idempotency_key=key)
    payment = [1, 1.0, -0.0, {"\u0000": "\uffff"}, nested(60)]
    command = workflow.prepare_event("payment:0", event=event(data=payment, subject="s", extension=7))
    first = await workflow.send_event(command)
    result = await workflow.wait(timeout=60)
    assert isinstance(result.outcome, WorkflowSucceeded)
    assert spelled(result.outcome.output["payment"]) == spelled(payment)
    again = await workflow.send_event(command)
    assert (again.already_accepted, again.accepted_at) == (True, first.accepted_at)


async def test_a_waiting_workflow_is_woken_by_its_event_or_its_timeout(
    client: AsyncClient, key: str, queue: str
) -> None:
    """CLI-082, EVT-013, WF-040: waiting has no activation; after the timeout the key of the wait is closed."""
    workflows = [
        await client.workflows.submit(
            **ORDERS, queue=queue, data={"order": "o", "timeout_ms": timeout}, idempotency_key=f"{key}:{timeout}"[-255:]
        )
        for timeout in (None, 1)
    ]
    patient, hurried = workflows
    async with asyncio.timeout(SEEN_SECONDS):
        while (status := await patient.status()).state is not WorkflowState.WAITING:
            await asyncio.sleep(0.02)
    assert (status.activation_id, status.revision) == (None, 1)
    await patient.send_event(key="payment:0", event=event(data="paid"))
    woken, timed_out = await asyncio.gather(*(workflow.result(timeout=60) for workflow in workflows))
    assert (woken["wake"], woken["payment"]) == ("event", "paid")
    assert (timed_out["wake"], timed_out["payment"]) == ("timeout", None)
    with pytest.raises(ServiceError) as late:
        await hurried.send_event(key="payment:0", event=event())
    assert late.value.code == "obsolete_operation"


async def test_events_at_and_beyond_their_bounds(truth: AsyncClient, key: str) -> None:
    """TXT-020..026, JSON-063: accepted by client and service alike, or not sent."""
    workflow = await truth.workflows.submit(**HELLO, queue="q", data=1, idempotency_key=key)
    for number, members in enumerate(
        (
            {"id": "\u00e9" * 64, "source": "urn:x:" + "y" * 2042},
            {"data": nested(64)},
            {"data": None, "time": "2016-12-31T23:59:60Z", "dataschema": "https://x.example/a?b"},
            {"flag": True, "least": -(2**31), "greatest": 2**31 - 1, "text": "\u2028"},
            {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "a=1, b@c=2,"},
            {"source": "relative/reference?q#f", "subject": "\U0001f9d1"},
        )
    ):
        receipt = await workflow.send_event(key=f"{number:0>128}", event=event(**members))
        assert receipt.event_id == members.get("id", receipt.event_id)
    for wrong in (
        {"id": "\u00e9" * 65},
        {"source": "urn:x:" + "y" * 2043},
        {"source": "\u00e9"},
        {"data": nested(65)},
        {"data": "x" * 65_536},
        {"time": "2016-12-30T23:59:60Z"},
        {"dataschema": "x:#"},
        {"greatest": 2**31},
        {"Upper": 1},
        {"traceparent": "00-0"},
        {"tracestate": "a=1"},
        {"datacontenttype": "text/plain"},
    ):
        with pytest.raises(InputError):
            workflow.prepare_event("k", event=event(**wrong))
    with pytest.raises(InputError):
        workflow.prepare_event("x" * 129, event=event())
