"""What clients see of a workflow (WF-030 to WF-040)."""

from __future__ import annotations

from protocol3.contract.models.common import ApplicationError, Scope
from protocol3.contract.models.outcomes import Cancelled, WorkflowFailed, WorkflowOutcome, WorkflowSucceeded
from protocol3.contract.models.workflows import WorkflowResult, WorkflowSnapshot
from protocol3.contract.strict_json import decode
from protocol3.contract.vocabulary import workflow_state
from protocol3.core.records import Outcome, Workflow


def snapshot_of(scope: Scope, workflow: Workflow) -> WorkflowSnapshot:
    """The present snapshot; lineage only for an owned workflow (WF-032)."""
    return WorkflowSnapshot(
        workflow_id=workflow.id,
        scope=scope,
        state=workflow_state(workflow.state, "workflow.state"),
        revision=workflow.revision,
        activation_id=workflow.activation_id,
        submitted_at=workflow.submitted_at,
        terminal_at=workflow.terminal_at,
        correlation_key=workflow.correlation_key,
        parent_workflow_id=workflow.parent_id,
        root_workflow_id=workflow.root_id,
    )


def result_of(scope: Scope, workflow: Workflow, outcome: Outcome | None) -> WorkflowResult:
    """Snapshot and outcome; an intended outcome stays hidden until the workflow is terminal (WF-040)."""
    shown = None if workflow.terminal_at is None else shown_outcome(outcome)
    return WorkflowResult(workflow=snapshot_of(scope, workflow), outcome=shown)


def shown_outcome(outcome: Outcome | None) -> WorkflowOutcome:
    """The outcome of a terminal workflow."""
    match outcome:
        case Outcome(kind="succeeded", body=bytes() as body):
            return WorkflowSucceeded(output=decode(body))
        case Outcome(kind="failed", body=bytes() as body):
            return WorkflowFailed(error=ApplicationError.from_json(decode(body), "workflow.error"))
        case Outcome(kind="cancelled"):
            return Cancelled()
        case _:
            raise ValueError("a terminal workflow has no outcome that can be shown")
