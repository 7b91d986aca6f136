"""Giving up a completion that cannot be applied for a day (RCV-020 to RCV-023)."""

from __future__ import annotations

from dataclasses import dataclass

from protocol3.contract.limits import APPLICATION_RETRY_MS
from protocol3.core.obligations import settle
from protocol3.core.records import Obligation, Workflow
from protocol3.core.verdict import Clock, Draft, Fresh, Replay, Verdict
from protocol3.core.workflow.ending import begin_failing, service_error
from protocol3.core.workflow.states import OPEN, changed

#: Kinds that say that something owned ended. Waits and drains are retried without limit (RCV-023, TMR-023, DRN-010).
COMPLETIONS = frozenset({"decision", "child"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoffState:
    obligation: Obligation | None
    workflow: Workflow
    clock: Clock


def decide_cutoff(state: CutoffState, held: Obligation, fresh: Fresh) -> Verdict:
    """After a transient failure: an obligation old enough fails its workflow, any other stays (RCV-020, RCV-022)."""
    if state.obligation is None or state.obligation.version != held.version or held.kind not in COMPLETIONS:
        return Replay(reply=None)
    if state.workflow.state not in OPEN or state.clock.now - held.created_at < APPLICATION_RETRY_MS:
        return Replay(reply=None)
    draft = Draft()
    draft.guard(changed(state.workflow))
    settle(draft, held)
    error = service_error("workflow_application_timeout", "what an owned task or workflow ended with was not applied")
    begin_failing(draft, state.workflow, error, clock=state.clock, fresh=fresh)
    return draft.accepted(None, state.clock)
