"""Reports of a scripted worker: they echo the invocation event exactly (chapter 07, Settlement)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.wire.strict_json import JsonValue

ECHOED = {
    "source": "source",
    "event_id": "id",
    "tenant_id": "ldgtenantid",
    "namespace": "ldgnamespace",
    "run_id": "ldgrunid",
    "task_id": "ldgtaskid",
    "attempt_id": "ldgattemptid",
    "attempt_no": "ldgattemptno",
    "traceparent": "traceparent",
    "tracestate": "tracestate",
    "workflow_id": "ldgworkflowid",
    "activation_id": "ldgactivationid",
    "parent_workflow_id": "ldgparentworkflowid",
    "root_workflow_id": "ldgrootworkflowid",
}
"""Report member -> event attribute; optional ones are echoed when the event has them."""


def identity(assignment: Any) -> dict[str, Any]:
    """The identity members of a report about this assignment."""
    event, descriptor = assignment["event"], assignment["descriptor"]
    echoed = {member: event[attribute] for member, attribute in ECHOED.items() if attribute in event}
    return {**echoed, "program": descriptor["program"], "digest": descriptor["digest"]}


def _completed(assignment: Any, outcome: dict[str, Any]) -> Any:
    process = {"process_id": 4242, "reused_process": False, "elapsed_ms": 7}
    return {"kind": "completed", "report": {**identity(assignment), **process, "outcome": outcome}}


def success(assignment: Any, output: JsonValue) -> Any:
    """The program returned `output`."""
    return _completed(assignment, {"status": "success", "output": output})


def application_failure(assignment: Any, kind: str, message: str) -> Any:
    """The program reported a failure of its own."""
    return _completed(assignment, {"status": "failure", "kind": kind, "message": message})


def execution_failure(
    assignment: Any, kind: str, message: str = "scripted", *, phase: str = "execution", **members: JsonValue
) -> Any:
    """The worker could not carry the execution through."""
    report = {
        **identity(assignment),
        "error": {"kind": kind, "message": message},
        "phase": phase,
        "execution_may_have_started": True,
        **members,
    }
    return {"kind": "failed", "report": report}
