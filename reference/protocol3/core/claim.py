"""Claiming a queued task for an admitted poll (chapter 07, Claiming)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from protocol3.contract.limits import CLEANUP_GRACE_MS, LEASE_MS
from protocol3.contract.models.delivery import AcquireEmpty
from protocol3.core.acquisition import Assigned, Poll, guard_former, judge, leave_empty, write_cursor
from protocol3.core.authority import live_until
from protocol3.core.finalisation import changed, latest_instant
from protocol3.core.history import append
from protocol3.core.records import Agenda, Attempt, Task, TaskBody
from protocol3.core.verdict import Accepted, Draft, Fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What became of some polls, by their position: a task, nothing, an answer of its own, or (absent) none of these.

    `next_ms`: until the next task is due: 0 if there may be one now for somebody else, None if none is known.
    """

    assigned: dict[int, Assigned]
    empty: dict[int, AcquireEmpty]
    answered: tuple[int, ...]
    next_ms: int | None


def claim_for(
    polls: Sequence[Poll | None],
    candidates: Sequence[tuple[Task, TaskBody]],
    fresh: Fresh,
    traces: Mapping[str, bytes] = MappingProxyType({}),
    *,
    ahead_ms: int | None = None,
) -> Accepted:
    """Hands candidates to admitted polls, both in their order, and completes those left that cannot wait.

    Replies with Claims. A poll that was not looked at is None. `traces` has the carriers of the attempts by task, where
    the service makes its own (TRC-014, TRC-015). `ahead_ms`: until the first task is due that is no candidate yet.

    A former attempt that is over by time alone is a guard: a renewal may have been under way.
    """
    draft = Draft()
    assigned: dict[int, Assigned] = {}
    empty: dict[int, AcquireEmpty] = {}
    answered: list[int] = []
    left = iter(candidates)
    served: list[Poll] = []
    for position, poll in enumerate(polls):
        if poll is None:
            continue
        if judge(poll) is not None:
            answered.append(position)
            continue
        task, body = next(left, (None, None))
        if task is not None and body is not None:
            assigned[position] = claim(draft, poll, task, body, fresh, traces.get(task.id))
        elif poll.last:
            empty[position] = leave_empty(draft, poll)
        else:
            continue
        served.append(poll)
    more = len(assigned) < len(candidates) or len(candidates) == len(polls)
    claims = Claims(assigned=assigned, empty=empty, answered=tuple(answered), next_ms=0 if more else ahead_ms)
    if not served:
        return Accepted(reply=claims)
    ends = [poll.session.expires_at for poll in served if poll.session is not None]
    return draft.accepted(claims, served[0].clock, valid_until=ends)


def claim(draft: Draft, poll: Poll, task: Task, body: TaskBody, fresh: Fresh, trace: bytes | None = None) -> Assigned:
    """The new attempt of a queued task that is due, for an admitted poll (DLV-024 to DLV-029, TASK-230)."""
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
        trace=trace,
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
    write_cursor(draft, poll, attempt)
    guard_former(draft, poll)
    return Assigned(sequence=poll.command.sequence, task=task, attempt=attempt, body=body, now=now)
