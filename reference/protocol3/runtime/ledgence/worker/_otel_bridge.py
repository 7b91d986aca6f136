"""OpenTelemetry's context API, as the helper uses it; imported by `enable_context` only."""

from __future__ import annotations

from typing import Any

from opentelemetry import context, trace  # type: ignore[import-not-found,unused-ignore]
from opentelemetry.trace.propagation.tracecontext import (  # type: ignore[import-not-found,unused-ignore]
    TraceContextTextMapPropagator,
)


class OpenTelemetryBridge:
    __slots__ = ("_propagator",)

    def __init__(self) -> None:
        self._propagator = TraceContextTextMapPropagator()

    def attach(self, carrier: tuple[str, str | None] | None) -> Any:
        """Make a new context current: the extracted carrier, or an empty one (HLP-021)."""
        fresh = context.Context()
        if carrier is not None:
            parent, state = carrier
            headers = {"traceparent": parent} if state is None else {"traceparent": parent, "tracestate": state}
            fresh = self._propagator.extract(headers, context=fresh)
        return context.attach(fresh)

    def detach(self, token: Any) -> None:
        context.detach(token)

    def active_ids(self) -> tuple[str, str] | None:
        """Trace and span id of the active valid span (HLP-015)."""
        span = trace.get_current_span().get_span_context()
        return (trace.format_trace_id(span.trace_id), trace.format_span_id(span.span_id)) if span.is_valid else None
