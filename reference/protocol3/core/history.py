"""Appending to a task's history: contiguous sequences, one instant per transition (DLV-130, TASK-132)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from protocol3.core.records import History, Task
from protocol3.core.verdict import Draft

Reason: TypeAlias = Literal[
    "submitted",
    "claimed",
    "dispatch_authorized",
    "cancel_requested",
    "report_accepted",
    "cleanup_confirmed",
    "lease_expired",
    "succeeded",
    "failed",
    "retry_scheduled",
    "cancelled",
]


def append(draft: Draft, task: Task, at: int, attempt_id: str | None, *reasons: Reason) -> Task:
    """The task with its history grown by `reasons`, which are written to the draft (the task itself is not)."""
    for offset, reason in enumerate(reasons, start=1):
        draft.write(
            History(
                task_id=task.id,
                sequence=task.history_length + offset,
                at=at,
                reason=reason,
                attempt_id=attempt_id,
            )
        )
    return replace(task, history_length=task.history_length + len(reasons))
