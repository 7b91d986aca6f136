"""Tasks: submission, reads, cancellation (chapter 06)."""

from __future__ import annotations

from typing import TypeAlias

from protocol3.contract.limits import HISTORY_PAGE
from protocol3.contract.models.common import Descriptor
from protocol3.contract.models.tasks import AttemptQuery, HistoryQuery, SubmitCommand, TaskCancel, TaskQuery
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.budget import computed
from protocol3.coordinator.observation import note
from protocol3.coordinator.operations.acceptance import accept
from protocol3.coordinator.services import Services
from protocol3.core import cancellation, submission, task_views
from protocol3.core.verdict import Clock, Fresh, Verdict
from protocol3.store.loads import tasks as loads

_Known: TypeAlias = tuple[submission.Submitted | None, Clock]


async def submit_task(services: Services, command: SubmitCommand) -> bytes:
    """The snapshot of the task, new or as it stands (TASK-100..115, TASK-214)."""
    scope, key = command.input.scope, command.idempotency_key
    scope_id = await services.scopes.require(scope)
    identity = await computed(command.input.identity)

    def submit(loaded: _Known, descriptor: Descriptor, data: bytes, fresh: Fresh) -> Verdict:
        submitted, clock = loaded
        return submission.submit(
            command, identity, data, descriptor, submitted, scope_id=scope_id, clock=clock, fresh=fresh
        )

    task, body = await accept(
        services,
        command.input,
        ("submission", scope_id, key),
        load=loads.submitted(services.transitions.sql, scope_id, key),
        known=lambda loaded: submission.known(identity, loaded[0]),
        submit=submit,
    )
    note(task_id=task.id)
    return task_views.snapshot(scope, task, body)


async def inspect_task(services: Services, query: TaskQuery) -> bytes:
    """The snapshot of a task. All reads are plain ones and recover nothing (TASK-120, TASK-121)."""
    async with services.transitions.reading() as reads:
        found = await loads.snapshot(reads, await _scope_id(services, query), query.task_id)
    if found is None:
        raise Refusal("not_found")
    return task_views.snapshot(query.scope, *found)


async def task_status(services: Services, query: TaskQuery) -> JsonValue:
    async with services.transitions.reading() as reads:
        task = await loads.status(reads, await _scope_id(services, query), query.task_id)
    if task is None:
        raise Refusal("not_found")
    return task_views.status(query.scope, task).to_json()


async def task_result(services: Services, query: TaskQuery) -> bytes:
    """TASK-215, TASK-244."""
    async with services.transitions.reading() as reads:
        found = await loads.result(reads, await _scope_id(services, query), query.task_id)
    if found is None:
        raise Refusal("not_found")
    return task_views.result(query.scope, *found)


async def task_history(services: Services, query: HistoryQuery) -> JsonValue:
    """At most HISTORY_PAGE records after the given sequence (TASK-130..134)."""
    async with services.transitions.reading() as reads:
        scope_id = await _scope_id(services, query)
        records = await loads.history(reads, scope_id, query.task_id, query.after_sequence, HISTORY_PAGE)
    if records is None:
        raise Refusal("not_found")
    return [task_views.history_record(record) for record in records]


async def inspect_attempt(services: Services, query: AttemptQuery) -> bytes:
    async with services.transitions.reading() as reads:
        scope_id = await _scope_id(services, query)
        found = await loads.attempt(reads, scope_id, query.task_id, query.attempt_id)
    if found is None:
        raise Refusal("not_found")
    return task_views.attempt_snapshot(query.scope, found.task, found.attempt, found.body, found.settlement)


async def cancel_task(services: Services, command: TaskCancel) -> JsonValue:
    """The resulting task state (TASK-200..211)."""
    state: str = await services.transitions.run(
        ("task", command.task_id),
        loads.current(services.transitions.sql, await _scope_id(services, command), command.task_id),
        lambda loaded, fresh: cancellation.cancel_task(*loaded, fresh),
    )
    return state


async def _scope_id(services: Services, command: TaskQuery | AttemptQuery | HistoryQuery | TaskCancel) -> int:
    """The scope of a command about something that exists; nothing exists in a scope that was never written to."""
    scope_id = await services.scopes.find(command.scope)
    if scope_id is None:
        raise Refusal("not_found")
    return scope_id
