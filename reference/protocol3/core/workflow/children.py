"""Registering owned tasks and workflows, by a decision's commands or as branches (chapter 13)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.limits import LIVE_SUBWORKFLOWS, NEW_CHILDREN, WORKFLOW_DEPTH
from protocol3.contract.models.tasks import SubmitInput
from protocol3.core.creation import create_task
from protocol3.core.records import Activation, Child, Workflow
from protocol3.core.verdict import Clock, Draft, Fresh
from protocol3.core.workflow.activation import START, ownership
from protocol3.core.workflow.creation import Owner, create_workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChild:
    """A child to register under `key`; `descriptor` and `origin_trace` are compact JSON (CHD-003, FRK-004)."""

    kind: str
    key: str
    input: SubmitInput
    descriptor: bytes
    origin_trace: bytes | None
    entrypoint: str = START
    fork_key: str | None = None


def register(draft: Draft, parent: Workflow, new: NewChild, *, clock: Clock, fresh: Fresh) -> Child:
    """The child with its ownership link, its first task and that task's dispatch obligation, in this step (CHD-021).

    It needs no worker and nothing to wait for (CHD-028).
    """
    if new.kind == "workflow":
        child_id = create_workflow(
            draft,
            clock=clock,
            fresh=fresh,
            scope_id=parent.scope_id,
            input=new.input,
            descriptor=new.descriptor,
            origin_trace=new.origin_trace,
            entrypoint=new.entrypoint,
            owner=Owner(workflow=parent, key=new.key),
        ).id
    else:
        child_id = create_task(
            draft,
            clock=clock,
            fresh=fresh,
            scope_id=parent.scope_id,
            input=new.input,
            descriptor=new.descriptor,
            origin_trace=new.origin_trace,
            owner=ownership(parent, activation=False),
        ).id
    child = Child(
        workflow_id=parent.id,
        key=new.key,
        kind=new.kind,
        child_id=child_id,
        fork_key=new.fork_key,
        identity=new.input.identity(),
        delivered_in=None,
    )
    draft.write(child)
    return child


def over_budget(activation: Activation, new: int) -> str | None:
    """CHD-024: children registered by any attempt of the activation, forks and commands together."""
    if activation.new_children + new <= NEW_CHILDREN:
        return None
    return f"an activation registers at most {NEW_CHILDREN} children"


def too_deep(parent: Workflow) -> str | None:
    """CHD-025: a workflow of the greatest depth owns no workflows."""
    return None if parent.depth < WORKFLOW_DEPTH else f"workflows nest at most {WORKFLOW_DEPTH} levels"


def too_many_live(live: int, new: int) -> str | None:
    """CHD-026: nonterminal workflow children, staged ones and branches together; ended ones do not count (CHD-027)."""
    return None if live + new <= LIVE_SUBWORKFLOWS else f"a workflow owns at most {LIVE_SUBWORKFLOWS} live workflows"
