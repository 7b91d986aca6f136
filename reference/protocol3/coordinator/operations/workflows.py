"""Workflows as clients see them: submission, reads, cancellation, events (chapters 09 and 15)."""

from __future__ import annotations

from protocol3.contract.models.common import Descriptor, Scope
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.models.workflows import EventCommand, EventReceipt, WorkflowRef, WorkflowSnapshot
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import JsonValue
from protocol3.coordinator.budget import computed
from protocol3.coordinator.observation import note
from protocol3.coordinator.operations.acceptance import accept
from protocol3.coordinator.services import Services
from protocol3.core.verdict import Fresh, Verdict
from protocol3.core.workflow import cancel, events, submission, views
from protocol3.core.workflow.submission import SubmissionState
from protocol3.store.loads import workflows as loads


async def submit_workflow(services: Services, command: SubmitCommand) -> JsonValue:
    """The snapshot of the workflow, new or as it stands (WF-010..022)."""
    key = command.idempotency_key
    scope_id = await services.scopes.require(command.input.scope)
    identity = await computed(command.input.identity)

    def submit(state: SubmissionState, descriptor: Descriptor, data: bytes, fresh: Fresh) -> Verdict:
        return submission.decide_submission(state, command, identity, data, descriptor, fresh)

    snapshot: WorkflowSnapshot = await accept(
        services,
        command.input,
        ("workflow submission", scope_id, key),
        load=loads.submitted(services.transitions.sql, scope_id, key),
        known=lambda state: submission.decide_replay(state, command, identity),
        submit=submit,
    )
    note(workflow_id=snapshot.workflow_id)
    return snapshot.to_json()


async def workflow_status(services: Services, query: WorkflowRef) -> JsonValue:
    """The present snapshot, of a root or of an owned workflow (WF-041 to WF-043)."""
    async with services.transitions.reading() as reads:
        workflow = await loads.status(reads, await _scope_id(services, query.scope), query.workflow_id)
    if workflow is None:
        raise Refusal("not_found")
    return views.snapshot_of(query.scope, workflow).to_json()


async def workflow_result(services: Services, query: WorkflowRef) -> bytes:
    """Snapshot and outcome (WF-040..042)."""
    async with services.transitions.reading() as reads:
        found = await loads.result(reads, await _scope_id(services, query.scope), query.workflow_id)
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
