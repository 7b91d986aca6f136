"""A coordinator with tracing on: what events carry, what is exported, and that nothing else differs."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from protocol3.contract.models.common import TraceContext
from protocol3.contract.refusal import Refusal
from protocol3.coordinator.assembly import assemble, running
from protocol3.coordinator.observation import Exchange
from protocol3.coordinator.traces import trace_exchange
from protocol3.telemetry.opentelemetry import OpenTelemetry
from protocol3.telemetry.tracing import UNTRACED, Tracing

TRACE = "1" * 32
ORIGIN = {"traceparent": f"00-{TRACE}-{'2' * 16}-01", "tracestate": "a=1"}
PROCESSING = {"traceparent": f"00-{'5' * 32}-{'6' * 16}-01"}
Served = Callable[[Tracing], AbstractAsyncContextManager[Any]]


class Ignored:
    def succeeded(self, now: float) -> None: ...

    def unavailable(self) -> None: ...


@pytest.fixture
async def pool(frozen_pool: Any) -> Any:
    """Time stands still, so that replies of two runs can be compared."""
    return frozen_pool


@pytest.fixture
def served(pool: Any, programs: Any, flow: Any) -> Served:
    """`async with served(tracing) as services`."""

    @asynccontextmanager
    async def serve(tracing: Tracing) -> AsyncIterator[Any]:
        services = assemble(pool, programs, recovery=Ignored(), workflow_recovery=Ignored(), tracing=tracing)
        async with running(services) as started:
            yield started

    return serve


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def tracing(spans: InMemorySpanExporter) -> AsyncIterator[OpenTelemetry]:
    tracing = OpenTelemetry("x", spans)
    yield tracing
    await tracing.close()


@pytest.fixture
def on(flow: Any) -> Callable[[Any, str], Any]:
    """`on(services, namespace)`: the scripted client and worker there."""
    return lambda services, namespace: type(flow)(services, namespace)


def carried(event: Any) -> dict[str, str]:
    return {name: event[name] for name in ("traceparent", "tracestate") if name in event}


async def test_an_event_carries_a_child_of_the_origin_for_good(served, tracing, spans, on, namespace):
    """TRC-014, TRC-015, DLV-044, DLV-045: siblings for retries, and the origin is unchanged."""
    async with served(tracing) as services:
        flow = on(services, namespace)
        submitted = await flow.submit_task(
            trace=ORIGIN, queue="flows", retry_policy={"max_attempts": 2, "retry_delay_ms": 0}
        )
        first = await flow.take()
        context = carried(first.event)
        TraceContext.from_json(context)
        assert context["traceparent"][3:35] == TRACE
        assert context["traceparent"] != ORIGIN["traceparent"]
        assert context["tracestate"] == "a=1"
        await first.dispatch()
        await first.settle(error="io")
        second = await flow.take()
        assert carried(second.event)["traceparent"][3:35] == TRACE
        assert carried(second.event) != context
    async with served(UNTRACED) as services:
        flow = second.flow = on(services, namespace)
        snapshot = await flow.task(submitted["task_id"], "inspect_task")
        assert snapshot["origin_trace"] == ORIGIN
        assert (await second.dispatch())["dispatch_allowed"]
        assert (await second.succeed(1))["task_state"] == "succeeded"
        await flow.submit_task("rootless", queue="flows")
        assert carried((await flow.take()).event) == {}
    await tracing.close()
    parents = {span.parent.span_id for span in spans.get_finished_spans() if span.name == "assign attempt"}
    assert parents == {int("2" * 16, 16)}
    assert len(spans.get_finished_spans()) == 2


async def test_without_an_origin_each_attempt_is_a_root(served, tracing, on, namespace):
    """TRC-014."""
    async with served(tracing) as services:
        flow = on(services, namespace)
        await flow.submit_task(queue="flows")
        run = await flow.take()
        TraceContext.from_json(carried(run.event))
        await run.dispatch()
        assert (await run.succeed(1))["task_state"] == "succeeded"


def untraced(value: Any) -> Any:
    """Without the trace attributes of invocation events, and the consumer's number, which the tests count up."""
    if isinstance(value, dict):
        event = "ldgtaskid" in value or "attempt_no" in value
        left_out = ("consumer_id", *(("traceparent", "tracestate") if event else ()))
        return {name: untraced(member) for name, member in value.items() if name not in left_out}
    return [untraced(item) for item in value] if isinstance(value, list | tuple) else value


class Recorded:
    """What one flow was answered, in order, with identifiers by their first appearance."""

    def __init__(self, flow: Any) -> None:
        self.flow = flow
        self.replies: list[Any] = []
        send = flow.call

        async def call(name: str, command: Any) -> Any:
            try:
                reply = await send(name, command)
            except Refusal as refusal:
                self.replies.append((name, refusal.code))
                raise
            if name != "workflow_status":  # looked at until something has happened
                self.replies.append((name, reply))
            return reply

        flow.call = call

    def normal(self) -> Any:
        text = json.dumps(untraced(self.replies))
        known: dict[str, str] = {}
        return re.sub(r"(?<=_)[0-9a-f]{44}", lambda found: known.setdefault(found[0], f"{len(known)}"), text)


async def story(recorded: Recorded, staged: Any, refused: Any) -> None:
    """Tasks and workflows, their replays and conflicts, with everything that carries a trace."""
    flow = recorded.flow
    for key, trace in (("a", ORIGIN), ("b", None), ("a", None)):
        await flow.submit_task(key, trace=trace, queue=key, retry_policy={"max_attempts": 2, "retry_delay_ms": 0})
    assert await refused(flow.submit_task("a", queue="a", data="other")) == "conflict"
    for queue, error in (("a", "io"), ("a", "protocol"), ("b", None)):
        run = await flow.start(queue)
        await (run.succeed({"n": 1.0}, processing_trace=PROCESSING) if error is None else run.settle(error=error))
        assert await refused(run.succeed("other")) == "conflict"
        await flow.task(run.task_id, "task_result")
        await flow.task(run.task_id, "inspect_task")
    workflow = (await flow.submit(trace=ORIGIN))["workflow_id"]
    run = await flow.start()
    await run.local()
    await run.fork("left", trace=PROCESSING)
    await run.decide("suspend", trace=PROCESSING, commands=[staged("rate")], until=["rate"])
    child = await flow.start("rates")
    await child.succeed(1.5)
    run = await flow.start()
    await run.context()
    await run.decide("wait", wait={"kind": "event", "key": "signed", "timeout_ms": None})
    await flow.until(workflow, "waiting")
    await flow.send(workflow, "signed", **PROCESSING)
    run = await flow.start()
    assert (await run.context())["wake"]["event"]["traceparent"] == PROCESSING["traceparent"]
    branch = await flow.start("branches")
    await branch.decide("complete", output=2)
    await flow.until(branch.workflow_id)  # its parent may complete only once it has ended (DEC-043)
    await run.decide("complete", output="done")
    await flow.outcome(workflow)


async def test_every_reply_is_the_same_with_and_without(served, tracing, on, staged, refused, namespace):
    """TRC-020, TRC-021: outcomes, identities, retries and error codes; only the trace attributes of events differ."""
    told = []
    for each in (UNTRACED, tracing):
        async with served(each) as services:
            recorded = Recorded(on(services, f"{namespace[:60]}-{len(told)}"))
            await story(recorded, staged, refused)
            told.append(recorded)
    first, second = (re.sub(r"with_and_without-\d", "", each.normal()) for each in told)
    assert len(told[0].replies) > 40
    assert json.loads(first) == json.loads(second)
    assert json.dumps(told[0].replies) != json.dumps(told[1].replies)


async def test_an_exchange_is_a_server_span(tracing, spans):
    """TRC-011, TRC-012: below the transport headers; a server's fault is an error, a refusal is none."""
    carrier = TraceContext(traceparent=ORIGIN["traceparent"])
    known = {"request_id": "r", "method": "POST", "route": "/v1/tasks", "seconds": 0.5}
    trace_exchange(tracing, Exchange(**known, status=200, subjects={"task_id": "task_1"}, carrier=carrier))
    trace_exchange(tracing, Exchange(**known, status=409, code="conflict"))
    trace_exchange(tracing, Exchange(**known, status=503, code="unavailable"))
    trace_exchange(tracing, Exchange(request_id=None, method=None, route=None, status=400))
    await tracing.close()
    done, conflict, fault, bytes_only = spans.get_finished_spans()
    assert (done.name, done.parent.span_id) == ("POST /v1/tasks", int("2" * 16, 16))
    assert done.attributes["protocol3.task_id"] == "task_1"
    assert conflict.parent is None
    assert conflict.status.status_code.name == "UNSET"
    assert (fault.status.status_code.name, fault.attributes["error.type"]) == ("ERROR", "unavailable")
    assert bytes_only.name == "_OTHER"
