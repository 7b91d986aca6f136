"""Creating a workflow: a root by submission, a staged child, a branch of a fork (T1: WF-010, CHD-022, FRK-004)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocol3.contract.models.tasks import SubmitInput
from protocol3.contract.strict_json import encode
from protocol3.core.records import Workflow, WorkflowBody
from protocol3.core.verdict import Clock, Draft, Fresh
from protocol3.core.workflow.activation import START, Frozen, schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The workflow that owns a new one, and the child key it gives it."""

    workflow: Workflow
    key: str


def create_workflow(
    draft: Draft,
    *,
    clock: Clock,
    fresh: Fresh,
    scope_id: int,
    input: SubmitInput,
    descriptor: bytes,
    origin_trace: bytes | None,
    entrypoint: str = START,
    idempotency_key: str | None = None,
    owner: Owner | None = None,
    data: bytes | None = None,
) -> Workflow:
    """A running workflow at revision 0 with its first activation, all written to the draft.

    `descriptor` and `origin_trace` are compact JSON, and so is `data`, that of the input if it is encoded already.
    """
    parent = None if owner is None else owner.workflow
    workflow = Workflow(
        id=fresh("wf"),
        scope_id=scope_id,
        state="running",
        revision=0,
        activation_id=None,
        submitted_at=clock.now,
        terminal_at=None,
        correlation_key=input.correlation_key,
        parent_id=None if parent is None else parent.id,
        root_id=None if parent is None else parent.root_id or parent.id,
        owner_key=None if owner is None else owner.key,
        depth=0 if parent is None else parent.depth + 1,
        wait_key=None,
        inbox_count=0,
        inbox_bytes=0,
    )
    body = WorkflowBody(
        workflow_id=workflow.id,
        idempotency_key=idempotency_key,
        input=encode(replace(input, data=None).to_json()),
        data=encode(input.data) if data is None else data,
        descriptor=descriptor,
        origin_trace=origin_trace,
        entrypoint=entrypoint,
    )
    workflow = schedule(draft, workflow, body, Frozen(continuation=entrypoint), clock=clock, fresh=fresh)
    draft.write(workflow, body)
    return workflow
