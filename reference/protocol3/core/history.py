"""Appending to a task's history: contiguous sequences, one instant per transition (DLV-130, TASK-132)."""

from __future__ import annotations

from dataclasses import replace

from protocol3.contract.vocabulary import HistoryReason
from protocol3.core.records import History, Task
from protocol3.core.verdict import Draft


def append(draft: Draft, task: Task, at: int, attempt_id: str | None, *reasons: HistoryReason) -> Task:
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
