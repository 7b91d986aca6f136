"""Shapes of workflow replies: snapshot, result, activation context, receipts (chapters 09 to 15)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound, words
from protocol3_conformance.wire import text
from protocol3_conformance.wire.shapes import (
    application,
    array,
    boolean,
    identifier,
    mapping,
    nullable,
    only,
    record,
    string,
    tagged,
    vocabulary,
)
from protocol3_conformance.wire.strict_json import JsonValue, compact_size
from protocol3_conformance.wire.tasks import outcome as task_outcome
from protocol3_conformance.wire.values import APPLICATION_ERROR, CORRELATION, FREE, ID, SCOPE, TIME, U64, require

TERMINAL = words("workflow_state", "terminal")


def snapshot_relations(workflow: dict[str, Any], at: str) -> None:
    """WF-030…032, CLI-082, CLI-083."""
    state, terminal = workflow["state"], workflow["terminal_at"]
    require((terminal is not None) == (state in TERMINAL), at, "terminal_at iff terminal", "WF-030", "CLI-082")
    require(terminal is None or terminal >= workflow["submitted_at"], at, "ends before it began", "WF-030", "CLI-082")
    activation = workflow["activation_id"]
    require(activation is not None or state != "running", at, "running without activation", "WF-031", "CLI-082")
    idle = state == "waiting" or state in TERMINAL
    require(activation is None or not idle, at, f"{state} with an activation", "WF-031", "CLI-082")
    require(("parent_workflow_id" in workflow) == ("root_workflow_id" in workflow), at, "half a lineage", "WF-032")
    if "parent_workflow_id" in workflow:
        ancestors = (workflow["parent_workflow_id"], workflow["root_workflow_id"])
        require(workflow["workflow_id"] not in ancestors, at, "is its own ancestor", "WF-032", "CLI-083")


SNAPSHOT = record(
    {
        "workflow_id": ID,
        "scope": SCOPE,
        "state": vocabulary("workflow_state"),
        "revision": U64,
        "activation_id": nullable(ID),
        "submitted_at": TIME,
        "terminal_at": nullable(TIME),
        "correlation_key": nullable(CORRELATION),
    },
    optional={"parent_workflow_id": ID, "root_workflow_id": ID},
    rules=[snapshot_relations],
    closed=["WF-034"],
)


def submitted(value: JsonValue, at: str) -> None:
    """Reply of a submission: the snapshot of a root (WF-020)."""
    SNAPSHOT(value, at)
    require("parent_workflow_id" not in value, at, "a submission returns a root", "WF-020", "CLI-084")


OUTCOME = tagged(
    "kind",
    {
        "succeeded": record({"kind": FREE, "output": application("DATA_DEPTH", "WORKFLOW_OUTPUT_BYTES")}),
        "failed": record({"kind": FREE, "error": APPLICATION_ERROR}),
        "cancelled": record({"kind": FREE}),
    },
    "CLI-088",
)


def result_relations(result: dict[str, Any], at: str) -> None:
    state, ended = result["workflow"]["state"], result["outcome"]
    require((ended is not None) == (state in TERMINAL), at, "outcome iff terminal", "WF-040", "CLI-087")
    require(ended is None or ended["kind"] == state, at, "outcome of another state", "WF-040", "CLI-088")


RESULT = record({"workflow": SNAPSHOT, "outcome": nullable(OUTCOME)}, rules=[result_relations])


def child_relations(child: dict[str, Any], at: str) -> None:
    require(child["outcome"]["kind"] == child["state"], at, "outcome of another state", "CHD-040")


TASK_CHILD = record(
    {
        "task_id": ID,
        "state": vocabulary("task_state"),
        "outcome": task_outcome(application()),
    },
    rules=[child_relations],
    exact=["CHD-060", "CHD-041"],
)
WORKFLOW_CHILD = record(
    {"kind": only("workflow", "CHD-041"), "workflow_id": ID, "state": vocabulary("workflow_state"), "outcome": OUTCOME},
    rules=[child_relations],
    exact=["CHD-060"],
)


def child(value: JsonValue, at: str) -> None:
    """A terminal child as `inputs` holds it (CHD-040, CHD-041)."""
    (WORKFLOW_CHILD if isinstance(value, dict) and "kind" in value else TASK_CHILD)(value, at)


LOCAL_RECORD = record(
    {"key": ID, "callable": identifier("CALLABLE_BYTES"), "input": application(), "output": application()}
)


def journal(value: JsonValue, at: str) -> None:
    """ACT-021: each key once, in byte order."""
    array(LOCAL_RECORD, most=bound("LOCAL_RECORDS"))(value, at)
    keys = [record["key"].encode() for record in value]
    require(keys == sorted(set(keys)), at, "journal is not ordered by distinct keys", "ACT-021")


def external_event(value: JsonValue, at: str) -> None:
    """An external event in a wake; that it is the one sent is for the scenario to say (EVT-001)."""
    named = isinstance(value, dict) and {"specversion", "id", "source", "type", "datacontenttype", "data"} <= set(value)
    require(named, at, "no complete CloudEvent", "EVT-001")
    require(compact_size(value) <= bound("EVENT_BYTES"), at, "event too large", "TXT-026")


WAKE = tagged(
    "kind",
    {
        "event": record({"kind": FREE, "key": ID, "event": external_event, "accepted_at": TIME}),
        "timeout": record({"kind": FREE, "key": ID, "deadline": TIME}),
        "timer": record({"kind": FREE, "key": ID, "deadline": TIME}),
    },
    "TMR-020",
)


def context_relations(context: dict[str, Any], at: str) -> None:
    require("wake" not in context or context["inputs"] == {}, at, "inputs beside a wake", "ACT-022")
    woken = {"inputs": context["inputs"], "wake": context["wake"]} if "wake" in context else context["inputs"]
    require(compact_size(woken) <= bound("INPUTS_BYTES"), at, "inputs too large", "ACT-023", "LIM-013")
    require(compact_size(context) <= bound("CONTEXT_BYTES"), at, "context too large", "ACT-023", "LIM-023")
    require(("parent_workflow_id" in context) == ("root_workflow_id" in context), at, "half a lineage", "WF-032")


CONTEXT = record(
    {
        "v": only(1, "ACT-010"),
        "workflow_id": ID,
        "activation_id": ID,
        "revision": U64,
        "continuation": ID,
        "state": application("DATA_DEPTH", "STATE_BYTES"),
        "inputs": mapping(ID, child, most=bound("INPUTS")),
        "local_steps": journal,
    },
    optional={"wake": WAKE, "parent_workflow_id": ID, "root_workflow_id": ID},
    rules=[context_relations],
)

LOCAL_RECEIPT = record({"key": ID, "already_accepted": boolean})
FORK_RECEIPT = record({"key": ID, "branch_keys": array(ID, most=bound("BRANCHES")), "already_accepted": boolean})
EVENT_RECEIPT = record(
    {
        "scope": SCOPE,
        "workflow_id": ID,
        "key": ID,
        "event_id": ID,
        "event_source": string(lambda value: text.identifier(value, bound("EVENT_SOURCE_BYTES")), "CLI-090"),
        "accepted_at": TIME,
        "already_accepted": boolean,
    }
)
