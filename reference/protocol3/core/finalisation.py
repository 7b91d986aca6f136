"""How an attempt ends and what becomes of its task (chapter 07)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from protocol3.contract.vocabulary import RETRYABLE, TERMINAL, AttemptState, TaskState
from protocol3.core.history import append
from protocol3.core.obligations import owe
from protocol3.core.records import Attempt, ReportVerdict, Task
from protocol3.core.verdict import Clock, Draft, Fresh, Guard, QueueWake


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInHand:
    """A task with one of its attempts: the current one, or the one that a command names. None where there is none."""

    task: Task
    attempt: Attempt | None


def changed(task: Task) -> Guard:
    """The guard of a transition that changes the task or what belongs to it."""
    return Guard(kind="task", id=task.id, version=task.version)


def seen(task: Task) -> Guard:
    """The guard of a transition that relies on the task and does not change it."""
    return Guard(kind="task", id=task.id, version=task.version, seen=True)


def latest_instant(task: Task, attempt: Attempt | None) -> int:
    """The newest instant recorded in them: time never runs behind it."""
    known = [task.submitted_at, task.available_at - task.retry_delay_ms, task.cancel_requested_at, task.terminal_at]
    if attempt is not None:
        known += [attempt.claimed_at, attempt.settled_at, attempt.finished_at]
    return max(instant for instant in known if instant is not None)


def classify_failure(error_kind: str) -> ReportVerdict:
    """What a `failed` report means, by its error kind alone (DLV-087, DLV-088)."""
    return "retryable" if error_kind in RETRYABLE else "permanent"


def finalise(draft: Draft, task: Task, attempt: Attempt, *, clock: Clock, fresh: Fresh) -> Task:
    """End the current attempt at `clock.now` and decide about its task; both are written, the task is returned.

    Called after a confirmed settlement, a quiescence confirmation, an expiry, and a cancel of an expired attempt
    (TASK-207). Attempt and task end at the same instant (TASK-129); a retry keeps what was submitted (DLV-117).

    TASK-238, DLV-343, DLV-345, DLV-346, DLV-347.
    """
    attempt_state, task_state = _outcome(task, attempt)
    draft.write(replace(attempt, state=attempt_state, finished_at=clock.now))
    draft.unscheduled.append(("lease", task.id))
    task = replace(task, current_attempt_id=None)
    if task_state != "queued":
        return end_task(draft, task, task_state, attempt.id, clock=clock, fresh=fresh)
    task = replace(task, state="queued", available_at=clock.now + task.retry_delay_ms)
    task = append(draft, task, clock.now, attempt.id, "retry_scheduled")
    draft.write(task)
    draft.wake(QueueWake(scope_id=task.scope_id, queue=task.queue))
    return task


def end_task(draft: Draft, task: Task, state: TaskState, attempt_id: str | None, *, clock: Clock, fresh: Fresh) -> Task:
    """The terminal transition: history, and one obligation if a workflow owns the task (RCV-001).

    TASK-236, TASK-237, TASK-239.
    """
    assert state == "succeeded" or state == "failed" or state == "cancelled"
    task = append(draft, replace(task, state=state, terminal_at=clock.now), clock.now, attempt_id, state)
    draft.write(task)
    if task.workflow_id is not None:
        owe(
            draft,
            "decision" if task.activation else "child",
            workflow_id=task.workflow_id,
            subject=task.id,
            scope_id=task.scope_id,
            clock=clock,
            fresh=fresh,
        )
    return task


def is_terminal(task: Task) -> bool:
    return task.state in TERMINAL


def _outcome(task: Task, attempt: Attempt) -> tuple[AttemptState, TaskState]:
    """States of the attempt and of the task (chapter 07, Finalisation; DLV-114, DLV-115, DLV-119, ACT-041).

    DLV-337 to DLV-341, TASK-240, DLV-356.
    """
    if task.cancel_requested_at is not None:  # TASK-206, TASK-208
        return "cancelled" if attempt.quiescence == "confirmed" else "lost", "cancelled"
    retry: TaskState = "queued" if task.attempt_count < task.max_attempts else "failed"
    match attempt.verdict:
        case None:
            return "lost", retry
        case "success":
            return "succeeded", "succeeded"
        case "retryable":
            return "failed", retry
        case "application" | "permanent":
            return "failed", "failed"
        case other:
            assert_never(other)
