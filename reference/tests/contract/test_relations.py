"""Messages whose members contradict each other are refused, in requests and in replies."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract import limits
from protocol3.contract.models.decisions import DecisionInvalid, decode_decision
from protocol3.contract.models.delivery import Assignment, AttemptSnapshot
from protocol3.contract.models.outcomes import task_outcome_from_json, workflow_outcome_from_json
from protocol3.contract.models.tasks import TaskResult, TaskSnapshot, TaskStatus
from protocol3.contract.models.workflows import ActivationContext, WorkflowResult, WorkflowSnapshot
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import same

SAMPLES = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))


def sample(name: str) -> Any:
    return copy.deepcopy(SAMPLES[name]["document"])


def refuse(read: Any, document: Any, place: str) -> None:
    with pytest.raises(Refusal, match=place):
        read(document)


TASK_STATUS: dict[str, Any] = {**SAMPLES["task-status"]["document"]}
STATUS_CONFLICTS = [
    ({"attempt_count": 0}, "latest_attempt_id"),
    ({"latest_attempt_id": None}, "latest_attempt_id"),
    ({"current_attempt_id": "att_9"}, "current_attempt_id"),
    ({"state": "active", "terminal_at": None}, "current_attempt_id"),
    ({"state": "active", "terminal_at": None, "current_attempt_id": "att_8"}, "current_attempt_id"),
    ({"terminal_at": None}, "terminal_at"),
    ({"state": "queued"}, "terminal_at"),
    ({"attempt_count": 0, "latest_attempt_id": None}, "attempt_count"),
    ({"state": "cancelled"}, "cancel_requested_at"),
    ({"cancel_requested_at": 1}, "cancel_requested_at"),
    ({"workflow_activation_id": "task_8"}, "workflow_activation_id"),
]


@pytest.mark.parametrize(("change", "place"), STATUS_CONFLICTS)
def test_task_status_relations(change: dict[str, Any], place: str) -> None:
    """TASK-053…058."""
    refuse(TaskStatus.from_json, TASK_STATUS | change, place)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "queued", "attempt_count": 0, "latest_attempt_id": None, "terminal_at": None},
        {"state": "queued", "terminal_at": None},
        {"state": "active", "terminal_at": None, "current_attempt_id": "att_9", "cancel_requested_at": 1},
        {"state": "cancelled", "cancel_requested_at": 1},
        {"state": "cancelled", "cancel_requested_at": 1, "attempt_count": 0, "latest_attempt_id": None},
        {"terminal_at": 0},
    ],
)
def test_task_status_that_fits(change: dict[str, Any]) -> None:
    """TASK-053…058, CLI-038."""
    TaskStatus.from_json(TASK_STATUS | change)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            {"descriptor": {"program": {"id": "x", "version": "1"}, "digest": "sha256:" + "0" * 64, "size": 1}},
            "program",
        ),
        ({"current_attempt_id": None}, "current_attempt_id"),
        ({"attempt_count": 0}, "attempt_count"),
        ({"root_workflow_id": "wf_9", "parent_workflow_id": "wf_1"}, "parent_workflow_id"),
        ({"workflow_activation_id": "task_8"}, "workflow_activation_id"),
    ],
)
def test_task_snapshot_relations(change: dict[str, Any], place: str) -> None:
    """CLI-056, CLI-058, ACT-007."""
    refuse(TaskSnapshot.from_json, sample("task-snapshot") | change, place)


@pytest.mark.parametrize(
    ("name", "change", "place"),
    [
        ("task-result-succeeded", {"outcome": None}, "outcome"),
        ("task-result-succeeded", {"outcome": {"kind": "cancelled"}}, "kind"),
        ("task-result-failed", {"outcome": SAMPLES["task-result-succeeded"]["document"]["outcome"]}, "kind"),
    ],
)
def test_task_result_relations(name: str, change: dict[str, Any], place: str) -> None:
    """TASK-060…064."""
    refuse(TaskResult.from_json, sample(name) | change, place)


def test_task_result_names_the_latest_attempt() -> None:
    """TASK-061."""
    document = sample("task-result-succeeded")
    document["outcome"]["attempt_id"] = "att_8"
    refuse(TaskResult.from_json, document, "attempt_id")


@pytest.mark.parametrize(
    ("outcome", "place"),
    [
        ({"kind": "cancelled", "output": None}, "unknown member"),
        ({"execution_may_have_started": False}, "execution_may_have_started"),
        ({"kind": "lost"}, "kind"),
        ({"failure": None}, "unknown member"),
    ],
)
def test_task_outcomes(outcome: dict[str, Any], place: str) -> None:
    """CLI-063…068."""
    base = {} if outcome.get("kind") == "cancelled" else sample("task-result-succeeded")["outcome"]
    refuse(lambda document: task_outcome_from_json(document, "outcome"), base | outcome, place)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"failure": {"kind": "attempt_lost"}, "quiescence": "confirmed"}, "quiescence"),
        (
            {
                "failure": {"kind": "application", "error": {"kind": "", "message": ""}},
                "execution_may_have_started": False,
            },
            "execution_may_have_started",
        ),
        ({"failure": {"kind": "attempt_lost", "phase": "cleanup"}}, "unknown member"),
        ({"failure": {"kind": "unknown"}}, "kind"),
    ],
)
def test_failures(change: dict[str, Any], place: str) -> None:
    """TASK-062, TASK-063."""
    base = sample("task-result-failed")["outcome"]
    refuse(lambda document: task_outcome_from_json(document, "outcome"), base | change, place)


def test_failures_that_fit() -> None:
    base = sample("task-result-failed")["outcome"]
    free = {"kind": "application", "error": {"kind": "", "message": "\x00"}}
    for failure in ({"kind": "attempt_lost"}, free):
        task_outcome_from_json(base | {"failure": failure}, "outcome")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"terminal_at": None}, "terminal_at"),
        ({"terminal_at": 1}, "terminal_at"),
        ({"activation_id": "a"}, "activation_id"),
        ({"state": "running", "terminal_at": None}, "activation_id"),
        ({"state": "waiting", "terminal_at": None, "activation_id": "a"}, "activation_id"),
        ({"root_workflow_id": "wf_1"}, "parent_workflow_id"),
    ],
)
def test_workflow_snapshot_relations(change: dict[str, Any], place: str) -> None:
    """WF-030…032."""
    refuse(WorkflowSnapshot.from_json, sample("workflow-snapshot") | change, place)


@pytest.mark.parametrize("activation_id", ["a", None])
def test_draining_workflows_keep_or_lack_an_activation(activation_id: str | None) -> None:
    """WF-031."""
    for state in ("failing", "cancelling"):
        change = {"state": state, "terminal_at": None, "activation_id": activation_id}
        WorkflowSnapshot.from_json(sample("workflow-snapshot") | change)


def test_workflow_result_relations() -> None:
    """WF-040, CLI-088."""
    document = sample("workflow-result-succeeded")
    refuse(WorkflowResult.from_json, document | {"outcome": None}, "outcome")
    refuse(WorkflowResult.from_json, document | {"outcome": {"kind": "cancelled"}}, "kind")
    huge = {"kind": "succeeded", "output": "x" * (limits.WORKFLOW_OUTPUT_BYTES - 1)}
    refuse(lambda value: workflow_outcome_from_json(value, "outcome"), huge, "output")


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("authority", "expires_at"), 1, "authority"),
        (("lease", "owner", "consumer_id"), 1, "authority"),
        (("event", "ldgattemptno"), 2, "ldgattemptno"),
        (("event", "ldgtenantid"), "south", "ldgtenantid"),
        (("workflow_activation_id",), "task_8", "workflow_activation_id"),
    ],
)
def test_assignment_relations(path: tuple[str, ...], value: Any, place: str) -> None:
    """DLV-040, ACT-010."""
    document = sample("assignment")
    holder = document
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    refuse(Assignment.from_json, document, place)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"finished_at": None}, "finished_at"),
        ({"state": "active"}, "finished_at"),
        ({"settlement": None}, "settlement"),
        ({"state": "lost"}, "quiescence"),
    ],
)
def test_attempt_relations(change: dict[str, Any], place: str) -> None:
    """TASK-067…069."""
    refuse(AttemptSnapshot.from_json, sample("attempt") | change, place)


def test_context_relations() -> None:
    """ACT-022, WF-032, CHD-040, CHD-041."""
    context = sample("context")
    refuse(ActivationContext.from_json, context | {"parent_workflow_id": "wf_7"}, "parent_workflow_id")
    refuse(ActivationContext.from_json, context | {"wake": {"kind": "timer", "key": "k", "deadline": 1}}, "inputs")
    refuse(ActivationContext.from_json, context | {"wake": {"kind": "timeout", "key": "k"}}, "deadline")
    task = context["inputs"]["rates:4"]
    refuse(ActivationContext.from_json, context | {"inputs": {"k": task | {"state": "failed"}}}, "outcome.kind")
    refuse(ActivationContext.from_json, context | {"inputs": {"k": task | {"kind": "task"}}}, "kind")
    refuse(ActivationContext.from_json, context | {"inputs": {"": task}}, "inputs key")


@pytest.mark.parametrize("kind", ["timeout", "timer"])
def test_timed_wakes(kind: str) -> None:
    """Chapter 16, Wakes (TMR-024)."""
    document = sample("context") | {"inputs": {}, "wake": {"kind": kind, "key": "k", "deadline": 5}}
    assert same(ActivationContext.from_json(document).to_json(), document)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "stop"},
        {"v": 1.0},
        {"commands": None},
        {"until": ["a", "a"]},
        {"output": 1},
        {"wait": None},
    ],
)
def test_invalid_decisions(change: dict[str, Any]) -> None:
    """DEC-011."""
    with pytest.raises(DecisionInvalid, match="decision"):
        decode_decision(sample("decision-suspend") | change)


@pytest.mark.parametrize(
    "wait",
    [
        {"kind": "event", "key": "k"},
        {"kind": "event", "key": "k", "timeout_ms": -1},
        {"kind": "event", "key": "k", "timeout_ms": 1.0},
        {"kind": "timer", "key": "k", "delay_ms": None},
        {"kind": "timer", "key": "k", "delay_ms": 1, "timeout_ms": 1},
        {"kind": "timer", "delay_ms": 1},
        {"kind": "later", "key": "k"},
    ],
)
def test_invalid_waits(wait: dict[str, Any]) -> None:
    """TMR-001."""
    with pytest.raises(DecisionInvalid, match=r"decision\.wait"):
        decode_decision(sample("decision-wait-event") | {"wait": wait})
