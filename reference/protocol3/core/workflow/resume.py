"""Going on: the next activation of a workflow, after a decision or out of a wait (T3, T4)."""

from __future__ import annotations

from protocol3.core.records import Checkpoint, Workflow, WorkflowBody
from protocol3.core.verdict import Clock, Draft, Fresh
from protocol3.core.workflow.activation import Frozen, schedule
from protocol3.core.workflow.inputs import Delivery, mark_delivered
from protocol3.core.workflow.waits import Over, retired, wake


def resume_with_children(
    draft: Draft,
    workflow: Workflow,
    body: WorkflowBody,
    checkpoint: Checkpoint,
    delivery: Delivery,
    *,
    clock: Clock,
    fresh: Fresh,
) -> None:
    """The activation whose inputs are these children; the workflow and the children are written (CHD-050, CHD-052)."""
    frozen = Frozen(continuation=checkpoint.continuation, state=checkpoint.state, inputs=delivery.inputs)
    clock = clock.at_least(delivery.latest_end)
    workflow = schedule(draft, workflow, body, frozen, clock=clock, fresh=fresh)
    assert workflow.activation_id is not None
    mark_delivered(draft, delivery, workflow.activation_id)
    draft.write(workflow)


def resume_with_wake(
    draft: Draft,
    workflow: Workflow,
    body: WorkflowBody,
    checkpoint: Checkpoint,
    over: Over,
    *,
    clock: Clock,
    fresh: Fresh,
) -> None:
    """The activation that an external wait ended with; its inputs are empty, the wait is closed (TMR-015, CHD-055).

    The wake is this activation's alone (TMR-022).
    """
    frozen = Frozen(continuation=checkpoint.continuation, state=checkpoint.state, wake=wake(over))
    draft.write(schedule(draft, retired(workflow, over.event), body, frozen, clock=clock, fresh=fresh))
