"""Draining: ending what a failing or cancelling workflow still owns, then the workflow itself (chapter 17)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocol3.core.obligations import DRAIN_PAUSE_MS, settle
from protocol3.core.records import Obligation, Workflow
from protocol3.core.verdict import Clock, Draft, Fresh, Guard, Replay, Verdict
from protocol3.core.workflow.ending import end
from protocol3.core.workflow.states import DRAINING, changed

#: Owned items that one pass asks to end, tasks first (DRN-012).
PASS_ITEMS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainItems:
    """Owned items that were not asked to end yet, at most PASS_ITEMS of them: ids of tasks and of workflows."""

    tasks: tuple[str, ...]
    workflows: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainState:
    """`live` counts owned tasks and workflows that have not ended, `owned_end` is the latest end of the others."""

    obligation: Obligation | None
    workflow: Workflow
    items: DrainItems
    live: int
    owned_end: int | None
    clock: Clock


def decide_drain(state: DrainState, held: Obligation, fresh: Fresh) -> Verdict:
    """Replies with the items to ask next, each in a transition of its own, or with None when this pass is over.

    The last pass ends the workflow (DRN-006, T10, T11); one that finds live work looks again after a pause, without
    limit (DRN-010). What it asks to end is cancelled, also for a failing workflow (DRN-007).
    """
    if state.obligation is None or state.obligation.version != held.version:
        return Replay(reply=None)
    workflow = state.workflow
    if workflow.state in DRAINING and (state.items.tasks or state.items.workflows):
        return Replay(reply=state.items)
    draft = Draft()
    clock = state.clock.at_least(workflow.submitted_at, state.owned_end)
    if workflow.state in DRAINING and state.live:
        draft.guard(Guard(kind="obligation", id=held.id, version=held.version))
        draft.write(replace(held, ready_real=clock.real + DRAIN_PAUSE_MS))
        return draft.accepted(None, clock)
    settle(draft, held)
    if workflow.state in DRAINING:
        draft.guard(changed(workflow))
        end(draft, workflow, "failed" if workflow.state == "failing" else "cancelled", clock=clock, fresh=fresh)
    return draft.accepted(None, clock)
