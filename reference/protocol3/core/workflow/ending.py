"""Leaving the open states: failing, cancelling, and the terminal ones (T5 to T11).

No other module leaves them, and nothing leads back (WF-050). The revision stays (WF-051, WF-052).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from protocol3.contract.limits import FREE_TEXT_BYTES
from protocol3.contract.models.common import ApplicationError
from protocol3.contract.strict_json import encode
from protocol3.contract.vocabulary import WorkflowErrorKind, WorkflowState
from protocol3.core.obligations import owe, settle
from protocol3.core.records import Obligation, Outcome, Workflow
from protocol3.core.verdict import Accepted, Clock, Draft, Fresh, ObligationWake


def service_error(kind: WorkflowErrorKind, message: str) -> ApplicationError:
    """An error that the coordinator itself gives a workflow (ERR-010); the message is cut to its bound."""
    return ApplicationError(kind=kind, message=message.encode()[:FREE_TEXT_BYTES].decode(errors="ignore"))


def begin_failing(draft: Draft, workflow: Workflow, error: ApplicationError, *, clock: Clock, fresh: Fresh) -> Workflow:
    """T6 to T8: the intended outcome is this error, and the drain starts (DRN-001, DRN-011, WF-065)."""
    workflow = replace(_closed(draft, workflow), state="failing")
    draft.write(workflow, Outcome(workflow_id=workflow.id, kind="failed", body=encode(error.to_json())))
    _owe_drain(draft, workflow, clock, fresh)
    return workflow


def begin_cancelling(draft: Draft, workflow: Workflow, *, clock: Clock, fresh: Fresh) -> Workflow:
    """T9. A failing workflow drains already and only changes its outcome (WF-060, WF-061, WF-065)."""
    if workflow.state != "failing":
        _owe_drain(draft, workflow, clock, fresh)
    workflow = replace(_closed(draft, workflow), state="cancelling")
    draft.write(workflow, Outcome(workflow_id=workflow.id, kind="cancelled", body=None))
    return workflow


def end(draft: Draft, workflow: Workflow, state: WorkflowState, *, clock: Clock, fresh: Fresh) -> Workflow:
    """T5, T10, T11: terminal, and one obligation if another workflow owns this one (RCV-001, CHD-031, WF-065)."""
    workflow = replace(_closed(draft, workflow), state=state, activation_id=None, terminal_at=clock.now)
    draft.write(workflow)
    if workflow.parent_id is not None:
        owe(
            draft,
            "child",
            workflow_id=workflow.parent_id,
            subject=workflow.id,
            scope_id=workflow.scope_id,
            clock=clock,
            fresh=fresh,
        )
    return workflow


def discard(held: Iterable[Obligation], drain: Obligation | None, clock: Clock) -> Accepted:
    """What a closed workflow makes of obligations (RCV-005): they go, and the drain, if one still runs, looks at once
    because it may have waited for exactly this.
    """
    draft = Draft()
    settle(draft, *held)
    if drain is not None:
        draft.wake(ObligationWake(obligation=drain))
    return draft.accepted(None, clock)


def _closed(draft: Draft, workflow: Workflow) -> Workflow:
    """The open external wait closed and pending events dropped; their receipts stay (WF-060, WF-064)."""
    if workflow.wait_key is not None:
        draft.unscheduled.append(("wait", workflow.id))
    return replace(workflow, wait_key=None, inbox_count=0, inbox_bytes=0)


def _owe_drain(draft: Draft, workflow: Workflow, clock: Clock, fresh: Fresh) -> None:
    owe(
        draft,
        "drain",
        workflow_id=workflow.id,
        subject=workflow.id,
        scope_id=workflow.scope_id,
        clock=clock,
        fresh=fresh,
    )
