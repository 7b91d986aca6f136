"""Workflows as clients see them: submission, reads, cancellation, events (chapters 09 and 15)."""

from __future__ import annotations

from protocol3.contract.models.common import Scope
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.models.workflows import EventCommand, EventReceipt, WorkflowRef, WorkflowSnapshot
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue, encode
from protocol3.coordinator.budget import computed
from protocol3.coordinator.observation import note
from protocol3.coordinator.operations.tasks import resolve
from protocol3.coordinator.services import Services
from protocol3.core.verdict import Fresh, Rejected, Verdict
from protocol3.core.workflow import cancel, events, submission, views
from protocol3.core.workflow.submission import SubmissionState
from protocol3.store.loads import workflows as loads
from protocol3.store.transition import Load


async def submit_workflow(services: Services, command: SubmitCommand) -> JsonValue:
    """The snapshot of the workflow, new or as it stands: replay before resolution before acceptance (WF-022)."""
    scope_id = await services.scopes.require(command.input.scope)
    load = loads.submitted(services.transitions.sql, scope_id, command.idempotency_key)
    identity = await computed(command.input.identity)
    known = await _known(services, load, command, identity)
    snapshot = known or await _accepted(services, load, command, identity, scope_id)
    note(workflow_id=snapshot.workflow_id)
    return snapshot.to_json()


async def _known(
    services: Services, load: Load[SubmissionState], command: SubmitCommand, identity: bytes
) -> WorkflowSnapshot | None:
    """What the key is bound to already; a replay needs no program store (WF-016)."""
    async with services.pool.acquire() as connection:
        verdict = submission.decide_replay(await load(connection), command, identity)
    if isinstance(verdict, Rejected):
        raise Refusal(verdict.code)
    return None if verdict is None else verdict.reply


async def _accepted(
    services: Services, load: Load[SubmissionState], command: SubmitCommand, identity: bytes, scope_id: int
) -> WorkflowSnapshot:
    """Resolve, then accept unless a competitor was faster: then its binding counts, resolved or not (WF-017)."""
    try:
        descriptor = await resolve(services, command.input.program)
    except Refusal:
        competitor = await _known(services, load, command, identity)
        if competitor is None:
            raise
        return competitor

    data = await computed(lambda: encode(command.input.data))

    def decide(state: SubmissionState, fresh: Fresh) -> Verdict:
        return submission.decide_submission(state, command, identity, data, descriptor, fresh)

    snapshot: WorkflowSnapshot = await services.transitions.run(
        ("workflow submission", scope_id, command.idempotency_key), load, decide
    )
    return snapshot


async def workflow_status(services: Services, query: WorkflowRef) -> JsonValue:
    """The present snapshot, of a root or of an owned workflow (WF-041 to WF-043)."""
    async with services.pool.acquire() as connection:
        workflow = await loads.status(connection, await _scope_id(services, query.scope), query.workflow_id)
    if workflow is None:
        raise Refusal("not_found")
    return views.snapshot_of(query.scope, workflow).to_json()


async def workflow_result(services: Services, query: WorkflowRef) -> bytes:
    """Snapshot and outcome (WF-040..042)."""
    async with services.pool.acquire() as connection:
        found = await loads.result(connection, await _scope_id(services, query.scope), query.workflow_id)
    if found is None:
        raise Refusal("not_found")
    return views.result_of(query.scope, *found)


async def cancel_workflow(services: Services, command: WorkflowRef) -> JsonValue:
    """The snapshot after the request (WF-060..064)."""
    scope_id = await _scope_id(services, command.scope)
    snapshot: WorkflowSnapshot = await services.transitions.run(
        ("workflow", command.workflow_id),
        loads.cancelling(services.transitions.sql, command.scope, scope_id, command.workflow_id),
        cancel.decide_cancel,
    )
    return snapshot.to_json()


async def send_event(services: Services, command: EventCommand) -> JsonValue:
    """The receipt of an external event (EVT-010..022)."""
    receipt: EventReceipt = await services.transitions.run(
        ("workflow", command.workflow_id),
        loads.event(services.transitions.sql, await _scope_id(services, command.scope), command),
        lambda state, fresh: events.decide_event(state, command, fresh),
    )
    return receipt.to_json()


async def _scope_id(services: Services, scope: Scope) -> int:
    """The scope of something that exists; nothing exists in a scope that was never written to."""
    scope_id = await services.scopes.find(scope)
    if scope_id is None:
        raise Refusal("not_found")
    return scope_id
