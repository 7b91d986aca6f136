"""Cancelling a workflow, by a client or by the drain of its owner (WF-060 to WF-064, DRN-004)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.models.common import Scope
from protocol3.contract.vocabulary import TERMINAL
from protocol3.core.records import Workflow
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict
from protocol3.core.workflow.ending import begin_cancelling
from protocol3.core.workflow.states import changed
from protocol3.core.workflow.views import snapshot_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelState:
    scope: Scope
    workflow: Workflow | None
    clock: Clock


def decide_cancel(state: CancelState, fresh: Fresh) -> Verdict:
    """Replies with the WorkflowSnapshot after the request; it does not wait for the drain (WF-060).

    A workflow that another one owns is cancelled like any other (WF-043).
    """
    workflow = state.workflow
    if workflow is None:
        return Rejected(code="not_found")
    if workflow.state == "cancelling" or workflow.state in TERMINAL:
        return Replay(reply=snapshot_of(state.scope, workflow))
    draft = Draft()
    draft.guard(changed(workflow))
    workflow = begin_cancelling(draft, workflow, clock=state.clock, fresh=fresh)
    return draft.accepted(snapshot_of(state.scope, workflow), state.clock)
