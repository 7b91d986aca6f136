"""Tasks with their attempts."""

from __future__ import annotations

from protocol3.core.finalisation import TaskInHand
from protocol3.core.records import Attempt, Task
from protocol3.core.verdict import Clock
from protocol3.store.clock import Sql, clock_of
from protocol3.store.tables import record_of
from protocol3.store.transition import Connection, Load

_CURRENT = """
select {now($2)} as now, t, a from (select) one
left join task t on t.id = $1 and t.scope_id = $2
left join attempt a on a.id = t.current_attempt_id
"""


def current(sql: Sql, scope_id: int, task_id: str) -> Load[tuple[TaskInHand | None, Clock]]:
    """A task of a scope with its current attempt."""

    async def load(connection: Connection) -> tuple[TaskInHand | None, Clock]:
        row = await connection.fetchrow(sql(_CURRENT), task_id, scope_id)
        assert row is not None
        task = record_of(Task, row["t"])
        return None if task is None else TaskInHand(task=task, attempt=record_of(Attempt, row["a"])), clock_of(row)

    return load
