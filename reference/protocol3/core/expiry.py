"""Recovering an attempt whose authority ran out (chapter 07, Expiry)."""

from __future__ import annotations

from protocol3.core.authority import live_until
from protocol3.core.finalisation import TaskInHand, changed, finalise, latest_instant, seen
from protocol3.core.history import append
from protocol3.core.records import Agenda
from protocol3.core.verdict import Clock, Draft, Fresh, Replay, Verdict


def expire(entry: Agenda, loaded: TaskInHand | None, clock: Clock, fresh: Fresh) -> Verdict:
    """Handles the due agenda entry of a task, and replies whether the attempt was ended (DLV-110 to DLV-115).

    Until then nobody could claim the task or act for the attempt (DLV-111, DLV-113). An entry may be early: then it
    moves to the instant at which the attempt really ends. It may also be stale, since a scan that waited read it before
    it was removed: then nothing is left to do.

    TASK-235, DLV-343.
    """
    if loaded is None or loaded.attempt is None:
        return Replay(reply=False)
    task, attempt = loaded.task, loaded.attempt
    draft = Draft()
    until = live_until(attempt)
    if clock.now < until:
        draft.guard(seen(task))
        draft.write(Agenda(kind=entry.kind, ref=entry.ref, scope_id=entry.scope_id, due=until))
        return draft.accepted(False, clock)
    draft.guard(changed(task))
    clock = clock.at_least(latest_instant(task, attempt))
    task = append(draft, task, clock.now, attempt.id, "lease_expired")
    finalise(draft, task, attempt, clock=clock, fresh=fresh)
    return draft.accepted(True, clock)
