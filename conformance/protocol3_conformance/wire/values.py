"""Shapes that several replies share: identifiers, times, scope, program, trace, owner, errors."""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.wire import text
from protocol3_conformance.wire.faults import Violation
from protocol3_conformance.wire.shapes import (
    identifier,
    integer,
    matching,
    nullable,
    record,
    string,
    vocabulary,
)


def require(condition: bool, at: str, why: str, *rules: str) -> None:
    """Raise a Violation unless the condition holds."""
    if not condition:
        raise Violation(at, why, *rules)


ID = identifier()
TIME = integer(0, bound("MAX_TIMESTAMP_MS"))
U32 = integer(0, bound("U32_MAX"))
U64 = integer(0, bound("U64_MAX"))
FREE = string(lambda value: None)
CORRELATION = string(lambda value: text.correlation(value, bound("CORRELATION_KEY_BYTES")), "TXT-004")
PROGRAM_NAME = string(text.program_name, "TXT-005")
DIGEST = matching(text.DIGEST, "digest", "TXT-006")

SCOPE = record({"tenant_id": ID, "namespace": ID})
PROGRAM = record({"id": PROGRAM_NAME, "version": PROGRAM_NAME})
TRACE = record(
    {"traceparent": matching(text.TRACEPARENT, "traceparent", "TRC-001")},
    optional={"tracestate": nullable(string(lambda value: text.free(value, bound("TRACESTATE_BYTES")), "TRC-002"))},
)

DESCRIPTOR = record({"program": PROGRAM, "digest": DIGEST, "size": integer(1, bound("U64_MAX"))})
LEASE_OWNER = record(
    {
        "scope": SCOPE,
        "task_id": ID,
        "attempt_id": ID,
        "lease_id": ID,
        "generation": integer(1, bound("U32_MAX")),
        "worker_session_id": ID,
        "consumer_id": U32,
    }
)
WORKER_ERROR = record({"kind": vocabulary("error_kind"), "message": FREE})
APPLICATION_ERROR = record(
    {"kind": ID, "message": string(lambda value: text.free(value, bound("FREE_TEXT_BYTES")), "TXT-007")}
)
