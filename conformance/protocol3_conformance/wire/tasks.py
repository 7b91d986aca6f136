"""Shapes of task replies: snapshot, status, result, list, history, attempt (chapters 06 and 24)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from protocol3_conformance.bounds import bound, words
from protocol3_conformance.wire import text
from protocol3_conformance.wire.delivery import INVOCATION_EVENT, RENEWAL, SETTLEMENT
from protocol3_conformance.wire.shapes import (
    Check,
    application,
    array,
    boolean,
    identifier,
    integer,
    nullable,
    only,
    record,
    string,
    tagged,
    vocabulary,
)
from protocol3_conformance.wire.strict_json import JsonValue, compact_size, depth
from protocol3_conformance.wire.values import (
    CORRELATION,
    DESCRIPTOR,
    FREE,
    ID,
    LEASE_OWNER,
    PROGRAM,
    SCOPE,
    TIME,
    TRACE,
    WORKER_ERROR,
    require,
)

TERMINAL = words("task_state", "terminal")
ATTEMPTS = integer(0, bound("MAX_ATTEMPTS"))


def state_relations(task: dict[str, Any], at: str) -> None:
    """What snapshot and status have in common (CLI-033…036, CLI-058)."""
    state, count = task["state"], task["attempt_count"]
    active, terminal = state == "active", state in TERMINAL
    require((task["current_attempt_id"] is not None) == active, at, "current attempt iff active", "TASK-054", "CLI-033")
    require((task["terminal_at"] is not None) == terminal, at, "terminal_at iff terminal", "TASK-055", "CLI-034")
    require(count >= 1 or state in ("queued", "cancelled"), at, f"{state} without an attempt", "TASK-057", "CLI-035")
    requested = task["cancel_requested_at"] is not None
    require(requested or state != "cancelled", at, "cancelled without cancel_requested_at", "TASK-056", "CLI-036")
    require(not requested or state in ("active", "cancelled"), at, f"cancel request on {state}", "TASK-056", "CLI-036")


def status_relations(task: dict[str, Any], at: str) -> None:
    """CLI-032…037 where the latest attempt plays a part."""
    state_relations(task, at)
    latest = task["latest_attempt_id"]
    require((latest is None) == (task["attempt_count"] == 0), at, "latest attempt iff attempts", "TASK-053", "CLI-032")
    if task["state"] == "active":
        require(task["current_attempt_id"] == latest, at, "current attempt is not the latest", "TASK-054", "CLI-033")
    activation = task.get("workflow_activation_id")
    if "workflow_activation_id" in task:
        linked = "workflow_id" in task and activation == task["task_id"]
        require(linked, at, "workflow_activation_id must equal task_id beside a workflow_id", "TASK-058", "CLI-037")


RETRY_POLICY = record(
    {"max_attempts": integer(1, bound("MAX_ATTEMPTS")), "retry_delay_ms": integer(0, bound("MAX_RETRY_DELAY_MS"))}
)
SUBMITTED_INPUT = record(
    {
        "tenant_id": ID,
        "namespace": ID,
        "queue": ID,
        "program": PROGRAM,
        "data": application("DATA_DEPTH", "DATA_BYTES"),
        "retry_policy": RETRY_POLICY,
        "attempt_timeout_ms": integer(bound("MIN_ATTEMPT_TIMEOUT_MS"), bound("MAX_ATTEMPT_TIMEOUT_MS")),
    },
    optional={"correlation_key": CORRELATION},
)


def descriptor_fits(task: dict[str, Any], at: str) -> None:
    require(task["descriptor"]["program"] == task["input"]["program"], at, "descriptor of another program", "CLI-056")


SNAPSHOT_MEMBERS: dict[str, Check] = {
    "task_id": ID,
    "run_id": ID,
    "idempotency_key": identifier("IDEMPOTENCY_KEY_BYTES"),
    "input": SUBMITTED_INPUT,
    "descriptor": DESCRIPTOR,
    "origin_trace": nullable(TRACE),
    "state": vocabulary("task_state"),
    "submitted_at": TIME,
    "available_at": TIME,
    "terminal_at": nullable(TIME),
    "current_attempt_id": nullable(ID),
    "attempt_count": ATTEMPTS,
    "cancel_requested_at": nullable(TIME),
}
LINEAGE: dict[str, Check] = {
    "workflow_id": ID,
    "workflow_activation_id": ID,
    "parent_workflow_id": ID,
    "root_workflow_id": ID,
}
SUBMITTED = record(SNAPSHOT_MEMBERS, rules=[state_relations, descriptor_fits])
"""Reply of a submission: exactly thirteen members (TASK-051, CLI-050)."""
SNAPSHOT = record(SNAPSHOT_MEMBERS, optional=LINEAGE, rules=[state_relations, descriptor_fits])

STATUS = record(
    {
        "scope": SCOPE,
        "task_id": ID,
        "run_id": ID,
        "queue": ID,
        "correlation_key": nullable(CORRELATION),
        "state": vocabulary("task_state"),
        "attempt_count": ATTEMPTS,
        "current_attempt_id": nullable(ID),
        "latest_attempt_id": nullable(ID),
        "submitted_at": TIME,
        "available_at": TIME,
        "terminal_at": nullable(TIME),
        "cancel_requested_at": nullable(TIME),
    },
    optional={"workflow_id": ID, "workflow_activation_id": ID},
    rules=[status_relations],
)

FAILURE = tagged(
    "kind",
    {
        "application": record({"kind": FREE, "error": record({"kind": FREE, "message": FREE})}),
        "execution": record(
            {"kind": FREE, "error": WORKER_ERROR, "phase": vocabulary("phase"), "cleanup_error": nullable(WORKER_ERROR)}
        ),
        "attempt_lost": record({"kind": FREE}),
    },
    "CLI-066",
    "CLI-067",
    "CLI-068",
)
ENDED: dict[str, Check] = {
    "kind": FREE,
    "attempt_id": ID,
    "quiescence": vocabulary("quiescence"),
    "execution_may_have_started": boolean,
}


def failed_relations(outcome: dict[str, Any], at: str) -> None:
    kind = outcome["failure"]["kind"]
    started = outcome["execution_may_have_started"]
    require(kind != "application" or started, at, "application failure without a start", "TASK-062", "CLI-066")
    lost_is_unconfirmed = kind != "attempt_lost" or outcome["quiescence"] == "unconfirmed"
    require(lost_is_unconfirmed, at, "lost attempt with confirmed quiescence", "TASK-063", "CLI-068")


def outcome(output: Check) -> Check:
    """The terminal outcome of a task, as result and child input carry it (CLI-063…068, chapter 13, Results)."""
    return tagged(
        "kind",
        {
            "succeeded": record({**ENDED, "execution_may_have_started": only(True, "TASK-062"), "output": output}),
            "failed": record({**ENDED, "failure": FAILURE}, rules=[failed_relations]),
            "cancelled": record({"kind": FREE}),
        },
        "CLI-062",
    )


def result_relations(result: dict[str, Any], at: str) -> None:
    task, ended = result["task"], result["outcome"]
    require((ended is not None) == (task["state"] in TERMINAL), at, "outcome iff terminal", "CLI-061")
    if ended is None:
        return
    require(ended["kind"] == task["state"], at, f"outcome {ended['kind']} of a {task['state']} task", "TASK-060")
    if "attempt_id" in ended:
        same_attempt = ended["attempt_id"] == task["latest_attempt_id"]
        require(same_attempt, at, "outcome of an attempt that is not the latest", "TASK-061", "CLI-064")
    require(compact_size(ended) <= bound("OUTCOME_BYTES"), at, "outcome too large", "TASK-066", "CLI-062")
    controller = "workflow_activation_id" in task
    deepest = bound("CONTROLLER_OUTPUT_DEPTH" if controller else "DATA_DEPTH")
    require(depth(ended.get("output")) <= deepest, at, "output too deep", "CLI-064", "JSON-032")


RESULT = record(
    {"task": STATUS, "outcome": nullable(outcome(application("CONTROLLER_OUTPUT_DEPTH")))}, rules=[result_relations]
)


def page_relations(page: dict[str, Any], at: str) -> None:
    keys = [(item["submitted_at"], item["task_id"].encode()) for item in page["items"]]
    descending = all(one > other for one, other in pairwise(keys))
    require(descending, at, "items are not strictly descending by (submitted_at, task_id)", "DISC-009", "CLI-073")


CURSOR = string(lambda value: text.identifier(value, bound("CURSOR_BYTES")), "DISC-024", "CLI-075")
PAGE = record(
    {"items": array(STATUS, most=bound("TASK_PAGE")), "next_cursor": nullable(CURSOR)},
    rules=[page_relations],
    exact=["DISC-027"],
)

HISTORY_RECORD = record(
    {
        "sequence": integer(1, bound("U64_MAX")),
        "event": record(
            {"task_id": ID, "attempt_id": nullable(ID), "at": TIME, "reason": vocabulary("history_reason")}
        ),
    }
)


HISTORY_PAGE = array(HISTORY_RECORD, most=bound("HISTORY_PAGE"))


def history(value: JsonValue, at: str) -> None:
    """An array of records without gaps (TASK-131, TASK-132)."""
    HISTORY_PAGE(value, at)
    sequences = [entry["sequence"] for entry in value]
    gapless = sequences == [sequences[0] + step for step in range(len(sequences))] if sequences else True
    require(gapless, at, f"sequences have gaps: {sequences}", "TASK-132")


def attempt_relations(attempt: dict[str, Any], at: str) -> None:
    state, quiescence = attempt["state"], attempt["quiescence"]
    require((attempt["finished_at"] is None) == (state == "active"), at, "finished_at iff finished", "TASK-067")
    settled = attempt["settlement"] is not None
    require(settled or quiescence == "unconfirmed", at, "confirmed without a settlement", "TASK-068")
    require(state != "lost" or quiescence == "unconfirmed", at, "lost but confirmed", "TASK-069")
    grace = attempt["deadline"] + bound("CLEANUP_GRACE_MS")
    require(attempt["authority_deadline"] <= grace, at, "authority beyond deadline and grace", "DLV-027")
    within = attempt["lease"]["expires_at"] <= attempt["authority_deadline"]
    require(within, at, "lease beyond the authority deadline", "DLV-027", "DLV-056", "TASK-203")


ATTEMPT = record(
    {
        "event": INVOCATION_EVENT,
        "descriptor": DESCRIPTOR,
        "lease": record({"owner": LEASE_OWNER, "expires_at": TIME}),
        "deadline": TIME,
        "authority_deadline": TIME,
        "state": vocabulary("attempt_state"),
        "execution_may_have_started": boolean,
        "last_renewal": nullable(RENEWAL),
        "quiescence": vocabulary("quiescence"),
        "settlement": nullable(SETTLEMENT),
        "finished_at": nullable(TIME),
    },
    rules=[attempt_relations],
)
TASK_STATE = vocabulary("task_state")
