"""Tasks: submission, reads, cancellation (chapter 06)."""

from __future__ import annotations

from typing import TypeAlias

from protocol3.contract.limits import HISTORY_PAGE
from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.contract.models.tasks import AttemptQuery, HistoryQuery, SubmitCommand, TaskCancel, TaskQuery
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue, encode
from protocol3.coordinator.budget import computed
from protocol3.coordinator.observation import note
from protocol3.coordinator.services import Services
from protocol3.core import cancellation, submission, task_views
from protocol3.core.records import Task, TaskBody
from protocol3.core.verdict import Clock, Fresh, Rejected, Replay, Verdict
from protocol3.programs.errors import ProgramError
from protocol3.store.loads import tasks as loads
from protocol3.store.transition import Load

_Known: TypeAlias = tuple[submission.Submitted | None, Clock]


async def submit_task(services: Services, command: SubmitCommand) -> bytes:
    """The snapshot of the task, new or as it stands (TASK-100..115, TASK-214)."""
    scope = command.input.scope
    scope_id = await services.scopes.require(scope)
    identity = await computed(command.input.identity)
    load = loads.submitted(services.transitions.sql, scope_id, command.idempotency_key)
    task, body = await _known(services, load, identity) or await _accepted(services, load, command, identity, scope_id)
    note(task_id=task.id)
    return task_views.snapshot(scope, task, body)


async def _known(services: Services, load: Load[_Known], identity: bytes) -> tuple[Task, TaskBody] | None:
    """What the key stands for already; a replay needs no program store (TASK-109)."""
    async with services.pool.acquire() as connection:
        submitted, _ = await load(connection)
    verdict = submission.known(identity, submitted)
    match verdict:
        case Replay(reply=reply):
            found: tuple[Task, TaskBody] = reply
            return found
        case Rejected(code=code):
            raise Refusal(code)
        case _:
            return None


async def _accepted(
    services: Services, load: Load[_Known], command: SubmitCommand, identity: bytes, scope_id: int
) -> tuple[Task, TaskBody]:
    """Resolve, then accept unless a competitor was faster: then its binding counts, even if resolution failed."""
    try:
        descriptor = await resolve(services, command.input.program)
    except Refusal:
        competitor = await _known(services, load, identity)
        if competitor is None:
            raise
        return competitor
    data = await computed(lambda: encode(command.input.data))

    def decide(loaded: _Known, fresh: Fresh) -> Verdict:
        submitted, clock = loaded
        return submission.submit(
            command, identity, data, descriptor, submitted, scope_id=scope_id, clock=clock, fresh=fresh
        )

    accepted: tuple[Task, TaskBody] = await services.transitions.run(
        ("submission", scope_id, command.idempotency_key), load, decide
    )
    return accepted


async def resolve(services: Services, program: ProgramRef) -> Descriptor:
    """The published descriptor; Refusal by the kind of the store's failure (TASK-102)."""
    try:
        return await services.programs.resolve(program)
    except ProgramError as error:
        if error.kind == "not_found":
            raise Refusal("not_found") from None
        if error.kind in ("invalid_input", "incompatible"):
            raise Refusal("invalid_input", "body.input.program: the program store refuses it") from None
        raise Refusal("unavailable", "the program store could not answer") from None


async def inspect_task(services: Services, query: TaskQuery) -> bytes:
    """The snapshot of a task. All reads are plain ones and recover nothing (TASK-120, TASK-121)."""
    async with services.pool.acquire() as connection:
        found = await loads.snapshot(connection, await _scope_id(services, query), query.task_id)
    if found is None:
        raise Refusal("not_found")
    return task_views.snapshot(query.scope, *found)


async def task_status(services: Services, query: TaskQuery) -> JsonValue:
    async with services.pool.acquire() as connection:
        task = await loads.status(connection, await _scope_id(services, query), query.task_id)
    if task is None:
        raise Refusal("not_found")
    return task_views.status(query.scope, task).to_json()


async def task_result(services: Services, query: TaskQuery) -> bytes:
    """TASK-215, TASK-244."""
    async with services.pool.acquire() as connection:
        found = await loads.result(connection, await _scope_id(services, query), query.task_id)
    if found is None:
        raise Refusal("not_found")
    return task_views.result(query.scope, *found)


async def task_history(services: Services, query: HistoryQuery) -> JsonValue:
    """At most HISTORY_PAGE records after the given sequence (TASK-130..134)."""
    async with services.pool.acquire() as connection:
        scope_id = await _scope_id(services, query)
        records = await loads.history(connection, scope_id, query.task_id, query.after_sequence, HISTORY_PAGE)
    if records is None:
        raise Refusal("not_found")
    return [task_views.history_record(record) for record in records]


async def inspect_attempt(services: Services, query: AttemptQuery) -> bytes:
    async with services.pool.acquire() as connection:
        scope_id = await _scope_id(services, query)
        found = await loads.attempt(connection, scope_id, query.task_id, query.attempt_id)
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
