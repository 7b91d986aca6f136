"""The spans of a coordinator: one for each exchange, and one for each attempt that it hands out."""

from __future__ import annotations

from protocol3.contract.models.common import TraceContext
from protocol3.contract.strict_json import decode, encode
from protocol3.coordinator.observation import Exchange
from protocol3.core.claim import Claims, claim_for
from protocol3.core.records import Task, TaskBody
from protocol3.core.verdict import Accepted, Fresh
from protocol3.store.loads.claims import Found
from protocol3.telemetry.tracing import Span, Tracing


def trace_exchange(tracing: Tracing, exchange: Exchange) -> None:
    """A server span, continuing the trace of the transport headers and of nothing in the body (TRC-011, TRC-012)."""
    method, route = exchange.method or "_OTHER", exchange.route
    span = tracing.span(
        method if route is None else f"{method} {route}",
        "server",
        parent=exchange.carrier,
        began_ago_s=exchange.seconds,
        attributes={
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": exchange.status,
            "protocol3.request_id": exchange.request_id,
            "protocol3.code": exchange.code,
        }
        | {f"protocol3.{name}": id for name, id in exchange.subjects.items()},
    )
    span.end(error=exchange.code or str(exchange.status) if exchange.status >= 500 else None)


class Producers:
    """The producer spans of one claim, whose carriers go into the events of its attempts (TRC-014, TRC-015).

    Each is a child of its task's origin, or a root; never of an earlier attempt. A span whose attempt is not committed
    is never ended, so it is never exported.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._spans: dict[str, Span] = {}

    def decide(self, found: Found, fresh: Fresh) -> Accepted:
        """`claim_for` with these carriers; what is decided is the same without them (TRC-020)."""
        self._spans = {task.id: self._begin(task, body) for task, body in found.candidates}
        carriers = {task_id: span.carrier for task_id, span in self._spans.items()}
        traces = {task_id: encode(carrier.to_json()) for task_id, carrier in carriers.items() if carrier is not None}
        return claim_for(found.polls, found.candidates, fresh, traces, ahead_ms=found.ahead_ms)

    def ended(self, claims: Claims | None) -> Claims | None:
        """End the spans of the attempts that were committed."""
        for assigned in () if claims is None else claims.assigned.values():
            attempt = assigned.attempt
            self._spans[attempt.task_id].end(
                attributes={"protocol3.attempt_id": attempt.id, "protocol3.attempt_number": attempt.number}
            )
        return claims

    def _begin(self, task: Task, body: TaskBody) -> Span:
        origin = None if body.origin_trace is None else TraceContext.shaped(decode(body.origin_trace))
        attributes = {"protocol3.task_id": task.id, "protocol3.workflow_id": task.workflow_id}
        return self._tracing.span("assign attempt", "producer", parent=origin, attributes=attributes)
