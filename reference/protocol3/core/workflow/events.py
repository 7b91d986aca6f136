"""External events: receipts for good, the inbox of pending ones (chapter 15)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocol3.contract.limits import INBOX_BYTES, INBOX_EVENTS
from protocol3.contract.models.workflows import EventCommand, EventReceipt
from protocol3.contract.strict_json import encode
from protocol3.core.obligations import owe
from protocol3.core.records import Inbox, InboxBody, Wait, Workflow
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict
from protocol3.core.workflow.states import OPEN, changed, seen


@dataclass(frozen=True, slots=True, kw_only=True)
class EventState:
    """`receipts` are the accepted events with the command's key or its (source, id); `wait` the wait with its key."""

    workflow: Workflow | None
    receipts: tuple[Inbox, ...]
    wait: Wait | None
    clock: Clock


def decide_event(state: EventState, command: EventCommand, fresh: Fresh) -> Verdict:
    """Replies with an EventReceipt; the order of the checks is EVT-011's from step 2 on (EVT-013).

    It says that the event is stored, not that anybody saw it (EVT-017). At once means one after the other: the guard
    lets a loser find the winner's receipt (EVT-020).
    """
    workflow = state.workflow
    if workflow is None:
        return Rejected(code="not_found")
    if state.receipts:  # also with a full inbox (EVT-019)
        return _replay(state.receipts, command)
    if workflow.state not in OPEN:  # EVT-021
        return Rejected(code="obsolete_operation")
    if state.wait is not None:
        refused = _closed(workflow, state.wait, state.clock.now)
        if refused is not None:
            return refused
    event = encode(command.event)
    if workflow.inbox_count >= INBOX_EVENTS or workflow.inbox_bytes + len(event) > INBOX_BYTES:
        return Rejected(code="busy")  # ERR-011
    return _accept(state, workflow, command, event, fresh)


def _replay(receipts: tuple[Inbox, ...], command: EventCommand) -> Verdict:
    """Exactly one stored event, identical in every respect, or a conflict (EVT-010, EVT-014)."""
    stored = receipts[0]
    if len(receipts) > 1 or stored.identity != command.identity():
        return Rejected(code="conflict")
    return Replay(reply=_receipt(command, stored.accepted_at, already_accepted=True))


def _closed(workflow: Workflow, wait: Wait, now: int) -> Rejected | None:
    """EVT-011 step 5: a wait of another kind (EVT-022), a closed one, or one whose deadline has come."""
    if wait.kind != "event" or workflow.wait_key != wait.key:
        return Rejected(code="obsolete_operation")
    if wait.deadline is not None and now >= wait.deadline:
        return Rejected(code="obsolete_operation", guards=(seen(workflow),))
    return None


def _accept(state: EventState, workflow: Workflow, command: EventCommand, event: bytes, fresh: Fresh) -> Verdict:
    """EVT-011 step 7, whether or not anybody waits for it yet (EVT-015).

    The deadline bounds the commit: authority obtained later finds it passed (EVT-016, RACE-14).
    """
    draft = Draft()
    draft.guard(changed(workflow))
    draft.write(
        replace(workflow, inbox_count=workflow.inbox_count + 1, inbox_bytes=workflow.inbox_bytes + len(event)),
        Inbox(
            workflow_id=workflow.id,
            key=command.key,
            source=command.event_source,
            event_id=command.event_id,
            identity=command.identity(),
            size=len(event),
            accepted_at=state.clock.now,
        ),
        InboxBody(workflow_id=workflow.id, key=command.key, event=event),
    )
    if workflow.wait_key == command.key:
        owe(
            draft,
            "wake",
            workflow_id=workflow.id,
            subject=command.key,
            scope_id=workflow.scope_id,
            clock=state.clock,
            fresh=fresh,
        )
    deadline = None if state.wait is None else state.wait.deadline
    receipt = _receipt(command, state.clock.now, already_accepted=False)
    return draft.accepted(receipt, state.clock, valid_until=[deadline])


def _receipt(command: EventCommand, accepted_at: int, *, already_accepted: bool) -> EventReceipt:
    return EventReceipt(
        scope=command.scope,
        workflow_id=command.workflow_id,
        key=command.key,
        event_id=command.event_id,
        event_source=command.event_source,
        accepted_at=accepted_at,
        already_accepted=already_accepted,
    )
