"""When traces are made, by what carriers, and that nothing that goes wrong with them is anybody's business."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from protocol3.contract.models.common import TraceContext
from protocol3.telemetry import opentelemetry
from protocol3.telemetry.opentelemetry import OpenTelemetry
from protocol3.telemetry.tracing import NO_SPAN, UNTRACED, asked_for, from_environment

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


def parent(flags: str = "01", state: str | None = None) -> TraceContext:
    return TraceContext(traceparent=f"00-{TRACE}-{SPAN}-{flags}", tracestate=state)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    return lambda **variables: [monkeypatch.setenv(name, value) for name, value in variables.items()]


@pytest.mark.parametrize(
    ("variables", "asked"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (ENDPOINT | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "TRUE"}, False),
    ],
)
def test_traces_are_made_when_the_standard_variables_ask(variables, asked):
    assert asked_for(variables) is asked


async def test_without_the_extra_nothing_changes(environment, monkeypatch, caplog):
    """One line says what is missing."""
    environment(**ENDPOINT)
    monkeypatch.setitem(sys.modules, "protocol3.telemetry.opentelemetry", None)
    assert from_environment("x") is UNTRACED
    assert "protocol3[otel]" in caplog.text
    span = UNTRACED.span("x", "server", parent=None)
    assert span is NO_SPAN
    assert span.carrier is span.child("y").carrier is None
    await UNTRACED.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"},
        {"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
    ],
)
def test_a_configuration_that_cannot_work_leaves_a_process_without_traces(environment, caplog, wrong):
    environment(**(ENDPOINT | wrong))
    assert from_environment("x") is UNTRACED
    assert "configuration" in caplog.text


async def test_the_environment_makes_the_service_and_the_exporter(environment):
    environment(**ENDPOINT, OTEL_SERVICE_NAME="mine")
    tracing = from_environment("x", instance="worker 7")
    assert isinstance(tracing, OpenTelemetry)
    assert tracing._provider.resource.attributes["service.instance.id"] == "worker 7"
    assert tracing._provider.resource.attributes["service.name"] == "mine"
    (processor,) = tracing._provider._active_span_processor._span_processors
    assert type(processor.span_exporter).__name__ == "OTLPSpanExporter"
    await tracing.close()


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
async def test_a_span_below_a_parent_continues_its_trace(flags):
    """Sampled or not; the state goes on, as far as it is a state (TRC-002…004)."""
    tracing = OpenTelemetry("x", InMemorySpanExporter())
    for state, kept in ((None, None), ("a=1,b=2", "a=1,b=2"), ("a=1, ,b=2", "a=1,b=2")):
        carrier = tracing.span("x", "producer", parent=parent(flags, state)).carrier
        carrier.check()
        assert carrier.traceparent[3:35] == TRACE
        assert carrier.traceparent[36:52] != SPAN
        assert carrier.tracestate == kept
    root = tracing.span("x", "producer", parent=None).carrier
    assert root.traceparent[3:35] != TRACE
    await tracing.close()


async def test_children_links_and_errors_are_exported():
    exporter = InMemorySpanExporter()
    tracing = OpenTelemetry("x", exporter)
    span = tracing.span("outer", "consumer", parent=parent(), attributes={"a": 1, "b": None}, began_ago_s=2.0)
    span.child("inner").end(error="busy")
    span.link(TraceContext(traceparent=f"00-{'a' * 32}-{'b' * 16}-01"))
    tracing.span("never ended", "producer", parent=None)
    span.end(attributes={"c": "d"})
    await tracing.close()
    inner, outer = exporter.get_finished_spans()
    assert (inner.name, inner.attributes["error.type"], inner.status.is_ok) == ("inner", "busy", False)
    assert inner.parent.span_id == outer.context.span_id
    assert dict(outer.attributes) == {"a": 1, "c": "d"}
    assert [link.context.trace_id for link in outer.links] == [int("a" * 32, 16)]
    assert outer.end_time - outer.start_time >= 2_000_000_000


class Broken(SpanExporter):
    """Fails, or hangs until the test is over."""

    def __init__(self, hang: threading.Event | None) -> None:
        self.hang = hang

    def export(self, spans: Sequence[Any]) -> SpanExportResult:
        if self.hang is not None:
            self.hang.wait()
        raise RuntimeError("no collector")

    def shutdown(self) -> None: ...


@pytest.mark.parametrize("hangs", [True, False])
async def test_an_exporter_that_fails_or_hangs_holds_nobody_up(monkeypatch, hangs):
    """TRC-020: neither spans nor the end of the process wait for it."""
    monkeypatch.setattr(opentelemetry, "FLUSH_S", 0.05)
    hang = threading.Event() if hangs else None
    tracing = OpenTelemetry("x", Broken(hang))
    for _ in range(3_000):  # more than the queue holds
        tracing.span("x", "server", parent=None).end()
    async with asyncio.timeout(20):
        await tracing.close()
    if hang is not None:
        hang.set()


async def test_a_sampler_that_raises_makes_no_span(monkeypatch):
    tracing = OpenTelemetry("x", InMemorySpanExporter())
    monkeypatch.setattr(tracing._tracer, "sampler", None)
    assert tracing.span("x", "server", parent=parent()) is NO_SPAN
    await tracing.close()
