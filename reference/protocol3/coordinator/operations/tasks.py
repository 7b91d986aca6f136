"""Tasks: submission, reads, cancellation (part 10 sections 4, 5, 7)."""

from __future__ import annotations

from protocol3.contract.models.tasks import TaskCancel
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.services import Services
from protocol3.core import cancellation
from protocol3.store.loads import tasks as loads


async def cancel_task(services: Services, command: TaskCancel) -> JsonValue:
    """The resulting task state (TASK-200..211)."""
    scope_id = await services.scopes.find(command.scope)
    if scope_id is None:
        raise Refusal("not_found")
    state: str = await services.transitions.run(
        ("task", command.task_id),
        loads.current(services.transitions.sql, scope_id, command.task_id),
        lambda loaded, fresh: cancellation.cancel_task(*loaded, fresh),
    )
    return state
