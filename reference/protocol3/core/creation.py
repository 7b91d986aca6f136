"""Creating a task: by submission, as an activation, or as a child of a workflow."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.models.tasks import SubmitInput
from protocol3.contract.strict_json import encode
from protocol3.core.history import append
from protocol3.core.records import Task, TaskBody
from protocol3.core.verdict import Clock, Draft, Fresh, QueueWake


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The workflow a task belongs to, with the lineage of that workflow (ACT-005, ACT-006)."""

    workflow_id: str
    parent_workflow_id: str | None
    root_workflow_id: str | None
    activation: bool


def create_task(
    draft: Draft,
    *,
    clock: Clock,
    fresh: Fresh,
    scope_id: int,
    input: SubmitInput,
    descriptor: bytes,
    origin_trace: bytes | None,
    idempotency_key: str | None = None,
    owner: Ownership | None = None,
    data: bytes | None = None,
) -> Task:
    """A new queued task due now, with its body, first history record and the wake of its queue (TASK-100, ACT-002).

    Without a key it has none that anybody could submit or meet (WF-012).

    `descriptor` and `origin_trace` are compact JSON of the pinned descriptor and the accepted carrier, `data` that of
    the input's data where it is there already.
    """
    task = Task(
        id=fresh("task"),
        scope_id=scope_id,
        queue=input.queue,
        run_id=fresh("run"),
        state="queued",
        submitted_at=clock.now,
        available_at=clock.now,
        terminal_at=None,
        cancel_requested_at=None,
        attempt_count=0,
        current_attempt_id=None,
        latest_attempt_id=None,
        history_length=0,
        max_attempts=input.retry_policy.max_attempts,
        retry_delay_ms=input.retry_policy.retry_delay_ms,
        attempt_timeout_ms=input.attempt_timeout_ms,
        correlation_key=input.correlation_key,
        workflow_id=owner.workflow_id if owner else None,
        activation=owner.activation if owner else False,
        parent_workflow_id=owner.parent_workflow_id if owner else None,
        root_workflow_id=owner.root_workflow_id if owner else None,
    )
    task = append(draft, task, clock.now, None, "submitted")
    body = TaskBody(
        task_id=task.id,
        idempotency_key=idempotency_key,
        data=encode(input.data) if data is None else data,
        descriptor=descriptor,
        origin_trace=origin_trace,
    )
    draft.write(task, body)
    draft.wake(QueueWake(scope_id=scope_id, queue=task.queue))
    return task
