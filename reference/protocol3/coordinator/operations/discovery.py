"""The task list (chapter 08)."""

from __future__ import annotations

from protocol3.contract.models.tasks import TaskListQuery, TaskPage
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.services import Services
from protocol3.core import task_list, task_views
from protocol3.store.loads import task_list as loads


async def list_tasks(services: Services, query: TaskListQuery) -> JsonValue:
    """One page, newest first, read from one snapshot (DISC-020), which changes nothing (DISC-021, DISC-026).

    The item beyond the limit tells whether there is more (DISC-011, DISC-013).
    """
    after = None if query.cursor is None else task_list.read_cursor(query, query.cursor)
    scope_id = await services.scopes.find(query.scope)
    if scope_id is None:  # DISC-010
        return TaskPage(items=(), next_cursor=None).to_json()
    async with services.pool.acquire() as connection:
        found = await loads.page(connection, scope_id, query, after, query.limit + 1)
    shown = found[: query.limit]
    more = len(found) > query.limit
    return TaskPage(
        items=tuple(task_views.status(query.scope, task) for task in shown),
        next_cursor=task_list.write_cursor(query, shown[-1]) if more else None,
    ).to_json()
