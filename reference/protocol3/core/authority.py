"""Who may act: liveness of an attempt and the authority shown to its owner (DLV-015, chapter 07, Authority)."""

from __future__ import annotations

from protocol3.contract.models.common import LeaseOwner, Scope
from protocol3.contract.models.delivery import Authority
from protocol3.core.records import Attempt, Task


def owner_of(scope: Scope, attempt: Attempt) -> LeaseOwner:
    """The lease owner identity of an attempt (DLV-040)."""
    return LeaseOwner(
        scope=scope,
        task_id=attempt.task_id,
        attempt_id=attempt.id,
        lease_id=attempt.lease_id,
        generation=attempt.number,
        worker_session_id=attempt.session_id,
        consumer_id=attempt.consumer_id,
    )


def live_until(attempt: Attempt) -> int:
    """First instant at which the attempt is no longer live (TASK-045: at the instant it has expired)."""
    return min(attempt.lease_expires_at, attempt.authority_deadline)


def is_live(task: Task, attempt: Attempt, now: int) -> bool:
    """DLV-015: the task is active, this is its current active attempt, and its lease still runs."""
    return (
        task.state == "active"
        and task.current_attempt_id == attempt.id
        and attempt.state == "active"
        and now < live_until(attempt)
    )


def is_stopped(task: Task, attempt: Attempt, now: int) -> bool:
    """DLV-051: cancellation was requested, or the execution deadline passed."""
    return task.cancel_requested_at is not None or now >= attempt.deadline


def authority(scope: Scope, task: Task, attempt: Attempt, now: int) -> Authority:
    """The authority at `now`, never a cached one (DLV-050..053, DLV-323 to DLV-328)."""
    live = is_live(task, attempt, now)
    stopped = is_stopped(task, attempt, now)
    return Authority(
        owner=owner_of(scope, attempt),
        expires_at=attempt.lease_expires_at,
        remaining_ms=attempt.lease_expires_at - now if live else 0,
        execution_remaining_ms=attempt.deadline - now if live and not stopped else 0,
        renew_sequence=attempt.renew_sequence,
        cancel_requested=stopped,
        dispatch_allowed=live and not stopped and attempt.settled_at is None and attempt.renew_intent == "dispatch",
    )
