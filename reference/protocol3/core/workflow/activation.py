"""Scheduling an activation: the task, its budgets and its frozen context in one step (WF-054, ACT-002, ACT-020)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from protocol3.contract.limits import INPUTS_BYTES
from protocol3.contract.models.tasks import SubmitInput
from protocol3.contract.strict_json import decode
from protocol3.core.creation import Ownership, create_task
from protocol3.core.records import Activation, ActivationContext, Workflow, WorkflowBody
from protocol3.core.verdict import Clock, Draft, Fresh
from protocol3.core.workflow.states import Problem

#: Continuation of a root's and a staged child's first activation (WF-021, CHD-022).
START: Final = "start"
NULL: Final = b"null"
NO_INPUTS: Final = b"{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What an activation starts from, compact JSON but for the continuation; the same for every attempt."""

    continuation: str
    state: bytes = NULL
    inputs: bytes = NO_INPUTS
    wake: bytes | None = None


def submitted(body: WorkflowBody) -> SubmitInput:
    """The workflow's own normalised submission but for its data."""
    return SubmitInput.from_json(decode(body.input), "workflow.input")


def schedule(
    draft: Draft, workflow: Workflow, body: WorkflowBody, frozen: Frozen, *, clock: Clock, fresh: Fresh
) -> Workflow:
    """The workflow running a new activation at its present revision; the workflow itself is not written.

    The activation is this one task, whatever becomes of its attempts (ACT-001, ACT-003, ACT-043), with the workflow's
    origin (TRC-017). A workflow has no other while it is the running one (ACT-009).
    The caller has checked `inputs_fit`. With state, inputs and journal inside their own limits the context always is
    (LIM-022).
    """
    task = create_task(
        draft,
        clock=clock,
        fresh=fresh,
        scope_id=workflow.scope_id,
        input=submitted(body),
        descriptor=body.descriptor,
        origin_trace=body.origin_trace,
        owner=ownership(workflow, activation=True),
        data=body.data,
    )
    draft.write(
        Activation(
            task_id=task.id,
            workflow_id=workflow.id,
            revision=workflow.revision,
            local_count=0,
            local_bytes=0,
            fork_count=0,
            fork_bytes=0,
            new_children=0,
        ),
        ActivationContext(
            task_id=task.id,
            continuation=frozen.continuation,
            state=frozen.state,
            inputs=frozen.inputs,
            wake=frozen.wake,
        ),
    )
    return replace(workflow, state="running", activation_id=task.id)


def ownership(workflow: Workflow, *, activation: bool) -> Ownership:
    """What a task of the workflow says about its owner (ACT-005, ACT-006)."""
    return Ownership(
        workflow_id=workflow.id,
        parent_workflow_id=workflow.parent_id,
        root_workflow_id=workflow.root_id,
        activation=activation,
    )


def inputs_fit(inputs: bytes) -> Problem | None:
    """LIM-013, ACT-023; nothing is ever trimmed (CHD-056).

    Beside a wake the inputs are empty, and an event always fits.
    """
    if len(inputs) <= INPUTS_BYTES:
        return None
    return Problem(message=f"the inputs of the next activation exceed {INPUTS_BYTES} bytes")
