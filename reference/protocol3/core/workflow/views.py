"""What clients see of a workflow (WF-030 to WF-040), and its owner of how it ended (CHD-040, CHD-041)."""

from __future__ import annotations

from protocol3.contract.models.common import Scope
from protocol3.contract.models.workflows import WorkflowSnapshot
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import encode
from protocol3.core.records import Outcome, Workflow
from protocol3.core.task_views import contradiction
from protocol3.core.workflow.compact import compact_object


def snapshot_of(scope: Scope, workflow: Workflow) -> WorkflowSnapshot:
    """The present snapshot; lineage only for an owned workflow (WF-032).

    Raises `unavailable` for a record that breaks the relations of WF-030 to WF-032 (WF-005, HTTP-069).
    """
    view = WorkflowSnapshot(
        workflow_id=workflow.id,
        scope=scope,
        state=workflow.state,
        revision=workflow.revision,
        activation_id=workflow.activation_id,
        submitted_at=workflow.submitted_at,
        terminal_at=workflow.terminal_at,
        correlation_key=workflow.correlation_key,
        parent_workflow_id=workflow.parent_id,
        root_workflow_id=workflow.root_id,
    )
    try:
        view.check()
    except Refusal:
        raise contradiction() from None
    return view


def result_of(scope: Scope, workflow: Workflow, outcome: Outcome | None) -> bytes:
    """The encoded WorkflowResult; an intended outcome stays hidden until the workflow is terminal (WF-040)."""
    shown = b"null" if workflow.terminal_at is None else _ended(workflow, outcome)
    return compact_object({"workflow": encode(snapshot_of(scope, workflow).to_json()), "outcome": shown})


def child_result(workflow: Workflow, outcome: Outcome | None) -> bytes:
    """The encoded ChildResult of a workflow that ended."""
    return compact_object(
        {
            "kind": encode("workflow"),
            "workflow_id": encode(workflow.id),
            "state": encode(workflow.state),
            "outcome": _ended(workflow, outcome),
        }
    )


def _ended(workflow: Workflow, outcome: Outcome | None) -> bytes:
    """The outcome object of a terminal workflow."""
    match outcome:
        case Outcome(kind=kind) if kind != workflow.state:
            raise contradiction()
        case Outcome(kind="succeeded", body=bytes() as output):
            return compact_object({"kind": encode("succeeded"), "output": output})
        case Outcome(kind="failed", body=bytes() as error):
            return compact_object({"kind": encode("failed"), "error": error})
        case Outcome(kind="cancelled", body=None):
            return compact_object({"kind": encode("cancelled")})
        case _:
            raise contradiction()
