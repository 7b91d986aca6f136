"""Claiming a queued task for an admitted poll (part 10 section 9.2)."""

from __future__ import annotations

from dataclasses import replace

from protocol3.contract.limits import CLEANUP_GRACE_MS, LEASE_MS
from protocol3.core.acquisition import Assigned, Poll, write_cursor
from protocol3.core.authority import live_until
from protocol3.core.finalisation import changed, latest_instant
from protocol3.core.history import append
from protocol3.core.records import Agenda, Attempt, Task, TaskBody
from protocol3.core.verdict import AgendaWake, Draft, Fresh


def claim(draft: Draft, poll: Poll, task: Task, body: TaskBody, fresh: Fresh) -> Assigned:
    """The new attempt of a queued task that is due, for a poll that `judge` admitted (DLV-024 to DLV-029).

    The caller adds the session's end to the instants until which the decision stands.
    """
    session = poll.session
    assert session is not None
    assert task.state == "queued"
    now = poll.clock.at_least(latest_instant(task, None)).now
    deadline = now + task.attempt_timeout_ms
    authority_deadline = deadline + CLEANUP_GRACE_MS
    attempt = Attempt(
        id=fresh("att"),
        task_id=task.id,
        number=task.attempt_count + 1,
        lease_id=fresh("lease"),
        session_id=session.id,
        consumer_id=poll.command.consumer_id,
        event_id=fresh("evt"),
        claimed_at=now,
        deadline=deadline,
        authority_deadline=authority_deadline,
        lease_expires_at=min(now + LEASE_MS, authority_deadline, session.expires_at),
        state="active",
        may_have_started=False,
        renew_sequence=0,
        renew_intent=None,
        quiescence="unconfirmed",
        settled_at=None,
        verdict=None,
        finished_at=None,
    )
    draft.guard(changed(task))
    task = replace(
        task,
        state="active",
        attempt_count=attempt.number,
        current_attempt_id=attempt.id,
        latest_attempt_id=attempt.id,
    )
    task = append(draft, task, now, attempt.id, "claimed")
    due = live_until(attempt)
    draft.write(task, attempt, Agenda(kind="lease", ref=task.id, scope_id=task.scope_id, due=due))
    draft.wake(AgendaWake(due=due))
    write_cursor(draft, poll, attempt)
    return Assigned(sequence=poll.command.sequence, task=task, attempt=attempt, body=body, now=now)
