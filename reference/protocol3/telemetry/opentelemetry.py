"""Spans by OpenTelemetry's SDK: sampled, batched and exported as its environment variables say.

Spans are handed to a thread of the SDK's own; a collector that fails or hangs fills a queue that then drops, and
nobody waits for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from protocol3 import __version__
from protocol3.contract.models.common import TraceContext
from protocol3.contract.trace import is_traceparent, is_tracestate
from protocol3.telemetry.tracing import NO_SPAN, NONE, Attributes, Kind, Span

#: How long a process that ends waits for its last spans to leave.
FLUSH_S: Final = 3.0

_KINDS: Final = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
}
_EXPORTERS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class OpenTelemetry:
    """A tracer of a provider of our own: nothing global is set, so an application in the same process is not met."""

    def __init__(self, service: str, exporter: SpanExporter, *, instance: str | None = None) -> None:
        given = OTELResourceDetector().detect().attributes
        ours = _present({"service.name": service, "service.version": __version__, "service.instance.id": instance})
        resource = Resource.create({name: value for name, value in ours.items() if name not in given})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("protocol3", __version__)

    @classmethod
    def from_environment(cls, service: str, instance: str | None = None) -> OpenTelemetry:
        """With the OTLP exporter of the protocol that OTEL_EXPORTER_OTLP_PROTOCOL names. Raises for what it is not."""
        if os.environ.get("OTEL_TRACES_EXPORTER", "").strip() not in ("", "otlp"):
            raise ValueError("OTEL_TRACES_EXPORTER: otlp or none")
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        (found,) = entry_points(group="opentelemetry_traces_exporter", name=_EXPORTERS[protocol or "http/protobuf"])
        return cls(service, found.load()(), instance=instance)

    def span(
        self,
        name: str,
        kind: Kind,
        *,
        parent: TraceContext | None,
        attributes: Attributes = NONE,
        began_ago_s: float = 0.0,
    ) -> Span:
        """A span below `parent`, or the root of a new trace."""
        with suppress(Exception):  # a sampler of somebody else may raise
            started = self._tracer.start_span(
                name,
                context=_extracted(parent),
                kind=_KINDS[kind],
                attributes=_present(attributes),
                start_time=time.time_ns() - round(began_ago_s * 1e9),
            )
            return _Recorded(self, started)
        return NO_SPAN

    async def close(self) -> None:
        """Export what is left, for FLUSH_S at most; a thread that hangs dies with the process."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()

        def flush() -> None:
            with suppress(Exception):  # the loop may be closed by now, too
                self._provider.shutdown()
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=flush, name="last-spans", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await ended.wait()


class _Recorded:
    """A span of the SDK. `carrier` is fixed at its start."""

    def __init__(self, tracing: OpenTelemetry, span: trace.Span) -> None:
        self._tracing = tracing
        self._span = span
        self.carrier = _carrier(span.get_span_context())

    def child(self, name: str) -> Span:
        return self._tracing.span(name, "client", parent=self.carrier)

    def link(self, carrier: TraceContext) -> None:
        with suppress(Exception):  # as for the rest: whatever becomes of a span, the work goes on
            self._span.add_link(trace.get_current_span(_extracted(carrier)).get_span_context())

    def end(self, *, error: str | None = None, attributes: Attributes = NONE) -> None:
        with suppress(Exception):
            self._span.set_attributes(_present(attributes))
            if error is not None:
                self._span.set_attribute("error.type", error)
                self._span.set_status(StatusCode.ERROR)
            self._span.end()


def _extracted(carrier: TraceContext | None) -> Context:
    """The context of a carrier, empty without one: never that of whoever runs here."""
    if carrier is None:
        return Context()
    headers = {"traceparent": carrier.traceparent}
    if carrier.tracestate is not None:
        headers["tracestate"] = carrier.tracestate
    return _PROPAGATOR.extract(headers, context=Context())


def _carrier(context: trace.SpanContext) -> TraceContext | None:
    """The carrier of a span, by the contract's rules and not the SDK's (TRC-001…004)."""
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    state = context.trace_state.to_header()
    if not is_traceparent(parent):
        return None
    return TraceContext(traceparent=parent, tracestate=state if state and is_tracestate(state) else None)


def _present(attributes: Attributes) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
