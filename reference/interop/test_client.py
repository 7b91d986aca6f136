"""The published client itself: opening and closing, frozen commands and handles, tracing, caller cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from disturbed import Faults
from ledgence.client import (
    AsyncClient,
    ClientClosed,
    Conflict,
    InputError,
    RetryPolicy,
    Scope,
    Submission,
    TaskState,
    TraceContext,
    WorkflowEventCommand,
    WorkflowState,
    WorkflowSubmission,
    otel,
)
from mutations import HELLO, event
from opentelemetry import trace

ECHO = {"program": "echo", "version": "1.0.0"}
FIRST = TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01", tracestate="vendor=1, other@system=x")
OTHER = TraceContext(f"00-{'c' * 32}-{'d' * 16}-00")


async def test_a_client_is_entered_once_and_closed_twice(truth: AsyncClient) -> None:
    """Its address, scope and time are what was given, and only one entering is possible."""
    scope = {"tenant": truth.scope.tenant_id, "namespace": truth.scope.namespace}
    client = AsyncClient(base_url=f"{truth.base_url}/", **scope, request_timeout=5)
    assert (client.base_url, client.request_timeout) == (truth.base_url, 5.0)
    assert client.scope == Scope(tenant_id=scope["tenant"], namespace=scope["namespace"])
    async with client:
        with pytest.raises(ClientClosed):
            await client.__aenter__()
        assert (await client.tasks.list()).items == ()
    await client.close()
    with pytest.raises(ClientClosed):
        await client.__aenter__()
    for wrong in ({"base_url": "ftp://x"}, {"tenant": ""}, {"namespace": "\ufffe"}, {"request_timeout": 30.1}):
        with pytest.raises(InputError):
            AsyncClient(**{"base_url": truth.base_url, **scope, **wrong})


@pytest.mark.parametrize("kind", ["tasks", "workflows"])
async def test_a_frozen_submission_outlives_its_client(kind: str, truth: AsyncClient, client: AsyncClient) -> None:
    """TASK-104, WF-013, CLI-002: stored as JSON, prepared again by another client, sent again: the same work."""
    words: dict[str, Any] = {"queue": "q", "data": {"z": -0.0, "a": [1, 1.0]}, "idempotency_key": "k"}
    words |= {"correlation_key": "c", "retry_policy": RetryPolicy(2, 0), "attempt_timeout_ms": 60_000}
    namespace = getattr(truth, kind)
    command = namespace.prepare(**HELLO, **words, origin_trace=None)
    assert command.idempotency_key == "k"
    assert type(command) is (Submission if kind == "tasks" else WorkflowSubmission)
    handle = await namespace.submit(command)
    assert handle.scope == truth.scope
    async with AsyncClient(truth.base_url, tenant=truth.scope.tenant_id, namespace=truth.scope.namespace) as later:
        saved = command.to_dict()
        again = getattr(later, kind).prepare(**HELLO, **{**words, "data": saved["input"]["data"]}, origin_trace=None)
        assert again == command
        assert (await getattr(later, kind).submit(again)).id == handle.id
        assert await getattr(later, kind).handle(handle.id).status() == await handle.status()
    for call in (
        getattr(client, kind).submit(command),
        namespace.submit(command, queue="q"),
        namespace.submit(queue="q"),
        namespace.submit("k"),
    ):
        with pytest.raises(InputError):
            await call
    with pytest.raises(TypeError):
        type(command)()


async def test_a_frozen_event_outlives_its_client(truth: AsyncClient, client: AsyncClient) -> None:
    """EVT-010, EVT-012."""
    words: dict[str, Any] = {**HELLO, "queue": "q", "data": 1, "idempotency_key": "k"}
    workflow = await truth.workflows.submit(**words)
    command = workflow.prepare_event(key="paid", event=event())
    first = await workflow.send_event(command)
    saved = command.to_dict()
    rebuilt = truth.workflows.handle(workflow_id=workflow.id).prepare_event(saved["key"], event=saved["event"])
    assert rebuilt == command
    again = await workflow.send_event(rebuilt)
    assert (again.accepted_at, again.already_accepted) == (first.accepted_at, True)
    for call in (
        client.workflows.handle(workflow.id).send_event(command),
        truth.workflows.handle("another").send_event(command),
        workflow.send_event(command, key="paid"),
        workflow.send_event(key="paid"),
    ):
        with pytest.raises(InputError):
            await call
    with pytest.raises(TypeError):
        WorkflowEventCommand()


async def test_handles_of_nothing_and_waits_of_no_length(truth: AsyncClient) -> None:
    """What is wrong locally is an InputError, from every call that takes something."""
    for handle in (truth.tasks.handle, truth.workflows.handle, truth.completions.handle):
        with pytest.raises(InputError):
            handle("")
    for work in (truth.tasks.handle(task_id="t"), truth.workflows.handle("w")):
        assert work.scope == truth.scope
        for seconds in (0, -1, float("inf"), float("nan"), "1"):
            with pytest.raises(InputError):
                await work.wait(timeout=seconds)
            with pytest.raises(InputError):
                await work.result(timeout=seconds)


def test_states_know_whether_they_are_final() -> None:
    assert [state for state in TaskState if state.terminal] == ["succeeded", "failed", "cancelled"]
    assert [state for state in WorkflowState if state.terminal] == ["succeeded", "failed", "cancelled"]


async def test_a_cancelled_caller_leaves_its_command_to_be_sent_again(shaken: AsyncClient, faults: Faults) -> None:
    """CLI-022: asyncio's cancellation passes through; the prepared command finds what was stored."""
    command = shaken.tasks.prepare(**HELLO, queue="q", data=1, idempotency_key="k")
    await faults.add("POST /v1/tasks", "committed", "hold")
    call = asyncio.create_task(shaken.tasks.submit(command))
    await faults.until_held()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await faults.release()
    task = await shaken.tasks.submit(command)
    assert [one.task_id for one in (await shaken.tasks.list()).items] == [task.id]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[TraceContext]:
    """A span of the application, and the client told to look at it."""
    monkeypatch.setattr(otel, "_api", None)
    otel.enable_context()
    span = trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(span)):
        yield TraceContext(f"00-{0xABC:032x}-{0xDEF:016x}-01")


async def test_the_origin_of_a_submission_reaches_the_program(client: AsyncClient, key: str, queue: str) -> None:
    """TASK-108, CLI-057: the first accepted origin stays, and the program's event belongs to its trace."""
    words: dict[str, Any] = {**ECHO, "queue": queue, "data": {"show": "event"}, "idempotency_key": key}
    task = await client.tasks.submit(**words, origin_trace=FIRST)
    for origin in (OTHER, None, FIRST):
        assert (await client.tasks.submit(**words, origin_trace=origin)).id == task.id
    seen = await task.result(timeout=60)
    assert seen["traceparent"].split("-")[1] == FIRST.traceparent.split("-")[1]
    with pytest.raises(Conflict):
        await client.tasks.submit(**{**words, "data": 1}, origin_trace=FIRST)


async def test_the_span_of_the_application_is_the_origin(
    traced: TraceContext, client: AsyncClient, key: str, queue: str
) -> None:
    """CLI-001, TRC-001: captured by prepare, carried as a header by every request, found in the program's event."""
    words: dict[str, Any] = {**ECHO, "queue": queue, "data": {"show": "event"}, "idempotency_key": key}
    command = client.tasks.prepare(**words)
    assert command.to_dict()["origin_trace"] == traced.to_dict()
    task = await client.tasks.submit(command)
    seen = await task.result(timeout=60)
    assert seen["traceparent"].split("-")[1] == traced.traceparent.split("-")[1]
    workflow = await client.workflows.submit(**{**words, "data": 1})
    assert (await workflow.cancel()).workflow_id == workflow.id


def test_traces_that_are_not_sent() -> None:
    """TRC-002..004, as the client checks them."""
    assert FIRST.to_dict() == {"traceparent": FIRST.traceparent, "tracestate": FIRST.tracestate}
    for wrong in (
        ("00-0",),
        (f"00-{'0' * 32}-{'b' * 16}-01",),
        (FIRST.traceparent, "a"),
        (FIRST.traceparent, "a=1,a=2"),
        (FIRST.traceparent, "x" * 513),
        (FIRST.traceparent, ",".join(["a=1"] + [""] * 32)),
    ):
        with pytest.raises(InputError):
            TraceContext(*wrong)
