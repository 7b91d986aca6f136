"""A worker with tracing on: its processing context, where it goes, and what it changes: nothing (TRC-016, TRC-020)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from protocol3.contract.models.common import TraceContext
from protocol3.telemetry.opentelemetry import OpenTelemetry

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

TRACE = "1" * 32
CARRIED = {"traceparent": f"00-{TRACE}-{'2' * 16}-01", "tracestate": "a=1"}
OF_THE_EVENT = {"traceparent": f"00-{'8' * 32}-{'9' * 16}-01", "tracestate": "b=2"}
PROGRAM = """\
from ledgence.worker import current_invocation
from ledgence.worker.workflow import workflow_context

def seen():
    context = current_invocation().processing_context
    return None if context is None else [context.traceparent, context.tracestate]

def plain(event):
    if event["data"] == "raise":
        raise ValueError("broken")
    return seen()

async def handle(event):
    if "ldgactivationid" not in event:
        return plain(event)
    ctx = workflow_context()
    await ctx.fork("split", branches=[ctx.branch("left", entrypoint="left", queue="main", data=None)])
    return ctx.complete(seen())
"""


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def tracing(spans: InMemorySpanExporter) -> AsyncIterator[OpenTelemetry]:
    tracing = OpenTelemetry("x", spans)
    yield tracing
    await tracing.close()


def output(command: Any) -> Any:
    return command["report"]["report"]["outcome"]["output"]


async def test_one_context_for_program_and_settlement(
    coordinator: Any, start: Start, publish: Publish, tracing: Any, spans: Any, refuse: Any
) -> None:
    """WRK-069, WRK-073, TRC-016, RUN-109: captured once, a child of the event's; the event stays as it came."""
    coordinator.script("/v1/settlements", refuse("unavailable", 503), refuse("busy", 409))
    attempt = coordinator.assign(publish(PROGRAM), event=CARRIED)
    bench = await start(tracing=tracing)
    command = await attempt.end()
    context = command["processing_trace"]
    TraceContext.from_json(context)
    assert context["traceparent"][3:35] == TRACE
    assert context["traceparent"] != CARRIED["traceparent"]
    assert context["tracestate"] == "a=1"
    assert output(command) == [context["traceparent"], "a=1"]
    assert {name: command["report"]["report"][name] for name in CARRIED} == CARRIED
    sent = [exchange for exchange in coordinator.exchanges if exchange.path == "/v1/settlements"]
    assert len(sent) == 3
    assert len({exchange.raw for exchange in sent}) == 1
    carriers = [exchange.carrier for exchange in sent]
    assert len(set(carriers)) == 3  # headers are each exchange's own
    assert {carrier[3:35] for carrier in carriers} == {TRACE}
    assert {exchange.carrier for exchange in coordinator.exchanges if exchange.path == "/v1/acquisitions"} == {None}
    await bench.stop()
    await tracing.close()
    (span,) = [span for span in spans.get_finished_spans() if span.name == "process attempt"]
    assert f"{span.context.span_id:016x}" == context["traceparent"][36:52]
    assert dict(span.attributes) == {
        "protocol3.task_id": "task_1", "protocol3.attempt_id": "att_1", "protocol3.attempt_number": 1,
        "protocol3.resolution": "accepted",
    }  # fmt: skip


async def test_a_failure_is_an_error_of_the_span_without_its_words(
    coordinator: Any, start: Start, publish: Publish, tracing: Any, spans: Any
) -> None:
    attempt = coordinator.assign(publish(PROGRAM), "raise")
    bench = await start(tracing=tracing)
    command = await attempt.end()
    assert command["processing_trace"]["traceparent"][3:35] != TRACE
    await bench.stop()
    await tracing.close()
    (span,) = [span for span in spans.get_finished_spans() if span.name == "process attempt"]
    assert (span.parent, span.status.is_ok, span.attributes["error.type"]) == (None, False, "application")
    assert "broken" not in span.to_json()


@pytest.mark.parametrize("carrier", [OF_THE_EVENT, {}])
async def test_an_event_wake_is_linked(
    coordinator: Any, start: Start, publish: Publish, tracing: Any, spans: Any, carrier: dict[str, str]
) -> None:
    """WRK-082, WRK-088, TRC-018: beside the processing context, which program, fork and settlement get."""
    event = {
        "specversion": "1.0", "id": "e", "source": "/desk", "type": "signed", "datacontenttype": "application/json",
        "data": None, **carrier,
    }  # fmt: skip
    wake = {"kind": "event", "key": "k", "event": event, "accepted_at": 1}
    attempt = coordinator.activate(publish(PROGRAM), wake=wake, revision=1)
    bench = await start(tracing=tracing)
    command = await attempt.end()
    context = command["processing_trace"]
    assert output(command)["output"] == [context["traceparent"], context.get("tracestate")]
    assert [fork["processing_trace"] for fork in coordinator.seen("/v1/workflows/forks")] == [context]
    await bench.stop()
    await tracing.close()
    (span,) = [span for span in spans.get_finished_spans() if span.name == "process attempt"]
    links = [(f"{link.context.trace_id:032x}", dict(link.context.trace_state)) for link in span.links]
    assert links == ([("8" * 32, {"b": "2"})] if carrier else [])
    assert f"{span.context.trace_id:032x}" == context["traceparent"][3:35] != "8" * 32


async def test_without_tracing_nothing_is_added(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-069: no context in frame, fork or settlement, no header in any exchange."""
    attempt = coordinator.activate(publish(PROGRAM))
    attempt.assignment["event"] |= CARRIED
    await start()
    command = await attempt.end()
    assert "processing_trace" not in command
    assert output(command)["output"] is None
    assert [fork.get("processing_trace") for fork in coordinator.seen("/v1/workflows/forks")] == [None]
    assert {exchange.carrier for exchange in coordinator.exchanges} == {None}


async def test_every_command_is_the_same_with_and_without(
    coordinator: Any, start: Start, publish: Publish, tracing: Any
) -> None:
    """TRC-020, TRC-021: but for the processing context itself."""
    program = publish(PROGRAM)
    told = []
    for options in ({}, {"tracing": tracing}):
        begun = len(coordinator.exchanges)
        bench = await start(**options)
        attempt = coordinator.assign(program, "raise", event=CARRIED)
        command = await attempt.end()
        await bench.stop()
        renewals = [e.body["intent"] for e in coordinator.exchanges[begun:] if e.path == "/v1/renewals"]
        told.append((stripped(command), renewals[:1]))
        coordinator._cursors.clear()
    assert told[0] == told[1]


def stripped(command: Any) -> Any:
    """Without the context, and without what counts or measures."""
    report = command["report"]["report"]
    counted = ("event_id", "run_id", "task_id", "attempt_id", "process_id", "elapsed_ms", "observations")
    rest = {name: value for name, value in report.items() if name not in counted}
    return command["report"]["kind"], rest, command["quiescence"], command["operation_id"]
