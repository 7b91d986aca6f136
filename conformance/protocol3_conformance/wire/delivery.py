"""Shapes of the delivery replies: sessions, assignments, authority, settlement (chapters 06 and 07)."""

from __future__ import annotations

import datetime as dt
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.wire import text
from protocol3_conformance.wire.shapes import (
    Check,
    application,
    array,
    boolean,
    integer,
    matching,
    nullable,
    only,
    record,
    string,
    tagged,
    vocabulary,
)
from protocol3_conformance.wire.values import (
    DESCRIPTOR,
    DIGEST,
    FREE,
    ID,
    LEASE_OWNER,
    PROGRAM,
    SCOPE,
    TIME,
    TRACE,
    U32,
    U64,
    WORKER_ERROR,
    require,
)

SESSION = record(
    {"id": ID, "scope": SCOPE, "queue": ID, "concurrency": integer(1, bound("MAX_CONCURRENCY")), "expires_at": TIME}
)


def emitted_instant(value: str) -> int:
    """The millisecond that a time written by the service names (TXT-046)."""
    found = text.EMITTED_TIME.fullmatch(value)
    require(found is not None, "time", f"{value} is no UTC time", "TXT-046", "TXT-041")
    assert found is not None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction = (found[7] or "").ljust(3, "0")
    require(fraction[3:].strip("0") == "", "time", f"{value} is finer than a millisecond", "TXT-046")
    whole = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    return int(whole.timestamp()) * 1000 + int(fraction[:3])


def event_relations(event: dict[str, Any], at: str) -> None:
    """DLV-042 and the table above it."""
    emitted_instant(event["time"])
    require(event["subject"] == f"tasks/{event['ldgtaskid']}", at, f"subject is {event['subject']}", "DLV-042")
    activation, workflow = event.get("ldgactivationid"), event.get("ldgworkflowid")
    if activation is not None:
        paired = activation == event["ldgtaskid"] and workflow is not None
        require(paired, at, "ldgactivationid must equal ldgtaskid beside ldgworkflowid", "DLV-042", "ACT-004")
    parent, root = event.get("ldgparentworkflowid"), event.get("ldgrootworkflowid")
    require((parent is None) == (root is None), at, "parent and root come both or not at all", "ACT-006")
    if parent is not None:
        apart = workflow is not None and workflow not in (parent, root)
        require(apart, at, "parent and root need another ldgworkflowid", "ACT-006", "DLV-042")
    require("tracestate" not in event or "traceparent" in event, at, "tracestate without traceparent", "TXT-027")


INVOCATION_EVENT = record(
    {
        "specversion": only("1.0", "DLV-042"),
        "id": ID,
        "source": only("urn:ledgence:orchestrator", "DLV-042"),
        "type": only("com.ledgence.task.invocation.requested.v1", "DLV-042"),
        "subject": FREE,
        "time": FREE,
        "datacontenttype": only("application/json", "DLV-042"),
        "ldgtenantid": ID,
        "ldgnamespace": ID,
        "ldgrunid": ID,
        "ldgtaskid": ID,
        "ldgattemptid": ID,
        "ldgattemptno": integer(1, bound("MAX_ATTEMPT_NUMBER")),
        "data": application("DATA_DEPTH", "DATA_BYTES"),
    },
    optional={
        "ldgworkflowid": ID,
        "ldgactivationid": ID,
        "ldgparentworkflowid": ID,
        "ldgrootworkflowid": ID,
        "traceparent": matching(text.TRACEPARENT, "traceparent", "TRC-001"),
        "tracestate": string(lambda value: text.free(value, bound("TRACESTATE_BYTES")), "TRC-002"),
    },
    rules=[event_relations],
)


def authority_relations(authority: dict[str, Any], at: str) -> None:
    """Chapter 07, Authority, as far as one authority shows it."""
    allowed, stopped = authority["dispatch_allowed"], authority["cancel_requested"]
    require(not (allowed and stopped), at, "dispatch allowed although stopped", "DLV-060")
    require(not (allowed and authority["renew_sequence"] == 0), at, "dispatch without a renewal", "DLV-028", "DLV-205")
    require(not stopped or authority["execution_remaining_ms"] == 0, at, "stopped with time left", "DLV-050", "DLV-051")
    require(authority["remaining_ms"] <= bound("LEASE_MS"), at, "lease longer than a lease", "DLV-027", "DLV-056")


AUTHORITY = record(
    {
        "owner": LEASE_OWNER,
        "expires_at": TIME,
        "remaining_ms": U64,
        "execution_remaining_ms": U64,
        "renew_sequence": U64,
        "cancel_requested": boolean,
        "dispatch_allowed": boolean,
    },
    rules=[authority_relations],
)


def assignment_relations(assignment: dict[str, Any], at: str) -> None:
    """DLV-040 and ACT-010."""
    event, lease, authority = assignment["event"], assignment["lease"], assignment["authority"]
    owner = lease["owner"]
    require(authority["owner"] == owner, at, "authority and lease name different owners", "DLV-040")
    require(authority["expires_at"] == lease["expires_at"], at, "authority and lease end apart", "DLV-040")
    named = (owner["scope"]["tenant_id"], owner["scope"]["namespace"], owner["task_id"], owner["attempt_id"])
    invoked = (event["ldgtenantid"], event["ldgnamespace"], event["ldgtaskid"], event["ldgattemptid"])
    require(named == invoked, at, f"owner {named} and event {invoked} differ", "DLV-040")
    require(owner["generation"] == event["ldgattemptno"], at, "generation is not the attempt number", "DLV-040")
    activation = assignment.get("workflow_activation_id")
    invoked = event.get("ldgactivationid")
    require(activation == invoked, at, "activation ids of assignment and event differ", "ACT-010", "TRC-022")


ASSIGNMENT = record(
    {
        "descriptor": DESCRIPTOR,
        "event": INVOCATION_EVENT,
        "lease": record({"owner": LEASE_OWNER, "expires_at": TIME}),
        "authority": AUTHORITY,
        "attempt_deadline": TIME,
    },
    optional={"workflow_activation_id": ID},
    rules=[assignment_relations],
)
ACQUIRED = tagged(
    "disposition",
    {
        "empty": record({"disposition": FREE, "sequence": U64}),
        "assigned": record({"disposition": FREE, "sequence": U64, "assignment": ASSIGNMENT}),
        "ownership_lost": record(
            {"disposition": FREE, "sequence": U64, "assignment": record({"task_id": ID, "attempt_id": ID})}
        ),
    },
)

RENEWAL = record(
    {"owner": LEASE_OWNER, "sequence": integer(1, bound("U64_MAX")), "intent": vocabulary("renewal_intent")}
)

RECEIPT = record({"operation_id": ID, "task_id": ID, "attempt_id": ID, "accepted_at": TIME})
SETTLED = record({"receipt": RECEIPT, "already_accepted": boolean, "task_state": vocabulary("task_state")})

REPORT_IDENTITY = {
    "source": FREE,
    "event_id": ID,
    "tenant_id": ID,
    "namespace": ID,
    "run_id": ID,
    "task_id": ID,
    "attempt_id": ID,
    "attempt_no": integer(1, bound("MAX_ATTEMPT_NUMBER")),
    "program": PROGRAM,
    "digest": DIGEST,
}
REPORT_OPTIONAL = {
    "traceparent": FREE,
    "tracestate": FREE,
    "workflow_id": ID,
    "activation_id": ID,
    "parent_workflow_id": ID,
    "root_workflow_id": ID,
}


def uncontrolled(limit: str) -> Check:
    """Not empty and without control characters, but no identifier: noncharacters may stand in it (DLV-091)."""
    return string(lambda value: text.correlation(value, bound(limit)) if value else "is empty", "DLV-091")


OBSERVED_STEP = record(
    {
        "key": uncontrolled("ID_BYTES"),
        "callable": uncontrolled("CALLABLE_BYTES"),
        "started_at_ms": TIME,
        "elapsed_us": U64,
        "state": vocabulary("step_state"),
    }
)
OBSERVATIONS = record(
    {
        "runtime_started_at_ms": TIME,
        "runtime_elapsed_us": U64,
        "process_cpu_user_us": nullable(U64),
        "process_cpu_system_us": nullable(U64),
        "process_lifetime_peak_rss_bytes": nullable(U64),
        "local_steps": array(OBSERVED_STEP, most=bound("OBSERVED_STEPS")),
        "local_steps_truncated": boolean,
    }
)
COMPLETED = record(
    {
        **REPORT_IDENTITY,
        "process_id": U32,
        "reused_process": boolean,
        "elapsed_ms": U64,
        "outcome": tagged(
            "status",
            {
                "success": record({"status": FREE, "output": application("CONTROLLER_OUTPUT_DEPTH")}),
                "failure": record({"status": FREE, "kind": FREE, "message": FREE}),
            },
        ),
    },
    optional={**REPORT_OPTIONAL, "observations": OBSERVATIONS},
)
FAILED = record(
    {
        **REPORT_IDENTITY,
        "error": WORKER_ERROR,
        "phase": vocabulary("phase"),
        "execution_may_have_started": boolean,
    },
    optional={**REPORT_OPTIONAL, "cleanup_error": WORKER_ERROR, "observations": OBSERVATIONS},
)


SETTLE_COMMAND = record(
    {
        "owner": LEASE_OWNER,
        "operation_id": ID,
        "report": tagged(
            "kind",
            {
                "completed": record({"kind": FREE, "report": COMPLETED}),
                "failed": record({"kind": FREE, "report": FAILED}),
            },
        ),
        "quiescence": vocabulary("quiescence"),
        "processing_trace": nullable(TRACE),
    }
)


def settlement_relations(settlement: dict[str, Any], at: str) -> None:
    command, receipt = settlement["command"], settlement["receipt"]
    owner = command["owner"]
    stored = (command["operation_id"], owner["task_id"], owner["attempt_id"])
    named = (receipt["operation_id"], receipt["task_id"], receipt["attempt_id"])
    require(stored == named, at, f"receipt {named} of another command {stored}", "DLV-083")


SETTLEMENT = record({"command": SETTLE_COMMAND, "receipt": RECEIPT}, rules=[settlement_relations])
"""The settlement as attempt inspection shows it: absent optionals omitted, `processing_trace` always there (3.7)."""
