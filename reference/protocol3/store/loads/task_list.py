"""One page of the task list."""

from __future__ import annotations

from typing import Any

from protocol3.contract.models.tasks import TaskListQuery
from protocol3.core.records import Task
from protocol3.core.task_list import Position
from protocol3.store.connections import Reads
from protocol3.store.tables import records_of


async def page(
    reads: Reads, scope_id: int, query: TaskListQuery, after: Position | None, limit: int
) -> tuple[Task, ...]:
    """At most `limit` tasks that match every filter exactly (DISC-007, DISC-008), in the order of DISC-009.

    They come strictly after a position (DISC-014).
    """
    values: list[Any] = [scope_id, limit]
    conditions = ["t.scope_id = $1"]

    def where(condition: str, *given: Any) -> None:
        numbers = range(len(values) + 1, len(values) + 1 + len(given))
        conditions.append(condition.format(*(f"${n}" for n in numbers)))
        values.extend(given)

    if query.state is not None:
        where("t.state = {}", query.state)
    if query.queue is not None:
        where("t.queue = {}", query.queue)
    if query.correlation_key is not None:
        where("t.correlation_key = {}", query.correlation_key)
    if query.submitted_from is not None:
        where("t.submitted_at >= {}", query.submitted_from)
    if query.submitted_until is not None:
        where("t.submitted_at < {}", query.submitted_until)
    if after is not None:
        where("(t.submitted_at, t.id) < ({}, {})", after.submitted_at, after.task_id)
    text = f"select t from task t where {' and '.join(conditions)} order by t.submitted_at desc, t.id desc limit $2"
    return records_of(Task, [row["t"] for row in await reads.fetch(text, *values)])
