"""Ordinary tasks, with the mistakes a type checker can see."""

from typing import Any

from ledgence.worker import InvocationContext, TraceContext, current_invocation, get_logger, register_shutdown
from ledgence.worker.otel import enable_context

log = get_logger("app")


def close() -> None:
    log.info("closed")


register_shutdown(close)
register_shutdown(lambda: None)


def handle(event: dict[str, Any]) -> dict[str, Any]:
    running: InvocationContext = current_invocation()
    carrier: TraceContext | None = running.processing_context
    tenant: str | None = running.tenant_id
    number: int | None = running.attempt_no
    log.info("started", extra={"attributes": {"tenant": tenant, "number": number}})
    return {"id": running.event_id, "trace": carrier.traceparent if carrier else None}


def wrong(event: dict[str, Any]) -> int:
    running = current_invocation()
    running.event_id = "other"
    running.nothing
    tenant: str = running.tenant_id
    number: int = running.event_id
    TraceContext()
    TraceContext("a", tracestate=5)
    InvocationContext("e")
    current_invocation("x")
    return tenant + number


def unannotated_there() -> None:
    register_shutdown(5)  # stricter
    get_logger(5)  # stricter
    get_logger("x").nothing()  # stricter
    register_shutdown()
    get_logger()
    enable_context(1)
