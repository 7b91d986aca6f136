"""The two data classes of `ledgence.worker`; loaded when a program first names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._invocation import Invocation


@dataclass(frozen=True)
class TraceContext:
    """A W3C carrier, as the host sent it."""

    __module__ = "ledgence.worker"  # what programs import it from, and what they see of it

    traceparent: str
    tracestate: str | None = None


@dataclass(frozen=True)
class InvocationContext:
    """Who is running: values of the event's envelope, None where the envelope has none (HLP-002, HLP-003)."""

    __module__ = "ledgence.worker"

    event_id: str
    attempt_id: str
    source: str | None = None
    tenant_id: str | None = None
    namespace: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    attempt_no: int | None = None
    processing_context: TraceContext | None = None
    workflow_id: str | None = None
    activation_id: str | None = None
    parent_workflow_id: str | None = None
    root_workflow_id: str | None = None


def describe(invocation: Invocation) -> InvocationContext:
    return InvocationContext(
        event_id=invocation.event_id,
        attempt_id=invocation.attempt_id,
        processing_context=None if invocation.carrier is None else TraceContext(*invocation.carrier),
        **invocation.identity,
    )
