"""Cancelling a task (chapter 06, Cancellation). Also used by the drain of a workflow for the tasks it owns."""

from __future__ import annotations

from dataclasses import replace

from protocol3.contract.limits import CLEANUP_GRACE_MS
from protocol3.core.authority import is_live, live_until
from protocol3.core.finalisation import TaskInHand, changed, end_task, finalise, is_terminal, latest_instant
from protocol3.core.history import append
from protocol3.core.records import Agenda, Attempt
from protocol3.core.verdict import Clock, Draft, Fresh, Rejected, Replay, Verdict


def cancel_task(loaded: TaskInHand | None, clock: Clock, fresh: Fresh) -> Verdict:
    """Replies with the resulting task state. `loaded.attempt` is the current one of an active task.

    It has no key: whatever the state, a repeat changes nothing (TASK-211). Whoever commits first decides (TASK-209).

    TASK-232, TASK-235, TASK-239.
    """
    if loaded is None:
        return Rejected(code="not_found")
    task, attempt = loaded.task, loaded.attempt
    if is_terminal(task) or task.cancel_requested_at is not None:  # TASK-205, TASK-204
        return Replay(reply=task.state)
    clock = clock.at_least(latest_instant(task, attempt))
    draft = Draft()
    draft.guard(changed(task))
    attempt_id = None if attempt is None else attempt.id
    task = append(draft, replace(task, cancel_requested_at=clock.now), clock.now, attempt_id, "cancel_requested")
    if attempt is None:  # TASK-200; an earlier attempt is not touched (TASK-201)
        end_task(draft, task, "cancelled", None, clock=clock, fresh=fresh)
        return draft.accepted("cancelled", clock)
    if not is_live(task, attempt, clock.now):  # TASK-210
        task = append(draft, task, clock.now, attempt.id, "lease_expired")
        finalise(draft, task, attempt, clock=clock, fresh=fresh)
        return draft.accepted("cancelled", clock)
    capped = capped_authority(attempt, clock.now)  # TASK-202
    due = live_until(capped)
    draft.write(task, capped, Agenda(kind="lease", ref=task.id, scope_id=task.scope_id, due=due))
    return draft.accepted("active", clock, valid_until=[live_until(attempt)])


def capped_authority(attempt: Attempt, now: int) -> Attempt:
    """The attempt with its authority ending one cleanup grace from now, never later than before (TASK-203)."""
    authority_deadline = min(attempt.authority_deadline, now + CLEANUP_GRACE_MS)
    return replace(
        attempt,
        authority_deadline=authority_deadline,
        lease_expires_at=min(attempt.lease_expires_at, authority_deadline),
    )
