"""Judging a poll against the cursor of its consumer, and completing it with nothing (chapter 07, Acquisition)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from protocol3.contract.models.delivery import AcquireCommand, AcquireEmpty, AcquireOwnershipLost
from protocol3.core.authority import is_live
from protocol3.core.finalisation import seen as task_seen
from protocol3.core.records import Attempt, Cursor, Session, Task, TaskBody
from protocol3.core.sessions import seen, usable
from protocol3.core.verdict import Accepted, Clock, Draft, Guard, Rejected, Replay, Verdict, judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """A poll and the state of its consumer. `task`, `attempt` and `body` are those that the cursor names.

    `work` tells whether the queue of the session holds a task that is due, `last` that the poll cannot wait for one.
    """

    command: AcquireCommand
    scope_id: int | None
    session: Session | None
    cursor: Cursor | None
    task: Task | None
    attempt: Attempt | None
    body: TaskBody | None
    work: bool
    last: bool = False
    clock: Clock

    @property
    def completed(self) -> int:
        """The latest completed sequence, 0 before the first."""
        return 0 if self.cursor is None else self.cursor.sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The reply of a poll that holds an attempt; to be written out with the data of the body."""

    sequence: int
    task: Task
    attempt: Attempt
    body: TaskBody
    now: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """The poll may claim a task or wait for one; nothing is decided yet."""


PollReply: TypeAlias = AcquireEmpty | AcquireOwnershipLost | Assigned | Admitted


def judge(poll: Poll) -> Verdict | None:
    """Everything that is answered whatever the queue holds, at once (DLV-010 to DLV-019, DLV-035).

    None for a poll that is admitted. A refusal writes nothing, so the cursor stays where it is (DLV-018).
    """
    return judged(CHECKS, poll)


def complete_empty(poll: Poll) -> Accepted:
    """The sequence is over and brought nothing (DLV-012). Only for an admitted poll."""
    draft = Draft()
    reply = leave_empty(draft, poll)
    assert poll.session is not None
    return draft.accepted(reply, poll.clock, valid_until=[poll.session.expires_at])


def leave_empty(draft: Draft, poll: Poll) -> AcquireEmpty:
    """`complete_empty` as a part of a decision."""
    write_cursor(draft, poll, None)
    guard_former(draft, poll)
    return AcquireEmpty(sequence=poll.command.sequence)


def write_cursor(draft: Draft, poll: Poll, attempt: Attempt | None) -> None:
    """Move the cursor to the poll's sequence, with what it brought, under the session and its former position."""
    session, cursor, command = poll.session, poll.cursor, poll.command
    assert session is not None
    draft.guard(seen(session))
    if cursor is None:
        cursor = Cursor(
            session_id=session.id, consumer_id=command.consumer_id, sequence=0, task_id=None, attempt_id=None
        )
    else:
        draft.guard(Guard(kind="cursor", id=cursor.session_id, part=cursor.consumer_id, version=cursor.version))
    task_id, attempt_id = (None, None) if attempt is None else (attempt.task_id, attempt.id)
    draft.write(replace(cursor, sequence=command.sequence, task_id=task_id, attempt_id=attempt_id))


def guard_former(draft: Draft, poll: Poll) -> None:
    """Leaving an attempt behind because its time is over relies on the clock: a renewal may have been under way."""
    if poll.task is not None and poll.attempt is not None and poll.attempt.state == "active":
        draft.guard(task_seen(poll.task))


def _session(poll: Poll) -> Verdict | None:
    return usable(poll.session, poll.clock.now)


def _match(poll: Poll) -> Verdict | None:
    """Scope, queue and consumer are the session's (DLV-011)."""
    session, command = poll.session, poll.command
    assert session is not None
    if poll.scope_id != session.scope_id:
        return Rejected(code="invalid_input", message="body.scope: differs from the session's")
    if command.queue != session.queue:
        return Rejected(code="invalid_input", message="body.queue: differs from the session's")
    if command.consumer_id >= session.concurrency:
        return Rejected(code="invalid_input", message="body.consumer_id: must be below the session's concurrency")
    return None


def _sequence(poll: Poll) -> Verdict | None:
    """Sequences start at 1 and leave nothing out (DLV-010, DLV-315, DLV-316, DLV-321, DLV-322)."""
    sequence = poll.command.sequence
    if sequence == 0 or sequence > poll.completed + 1:
        return Rejected(code="out_of_order")
    if sequence < poll.completed:
        return Rejected(code="obsolete_operation")
    return None


def _replay(poll: Poll) -> Verdict | None:
    """The completed sequence again: what it brought, judged at this instant (DLV-012 to DLV-014)."""
    cursor = poll.cursor
    if cursor is None or poll.command.sequence != cursor.sequence:
        return None
    if cursor.task_id is None or cursor.attempt_id is None:
        return Replay(reply=AcquireEmpty(sequence=cursor.sequence))
    if _previous_is_live(poll):
        assert poll.task is not None
        assert poll.attempt is not None
        assert poll.body is not None
        return Replay(
            reply=Assigned(
                sequence=cursor.sequence, task=poll.task, attempt=poll.attempt, body=poll.body, now=poll.clock.now
            )
        )
    reply = AcquireOwnershipLost(sequence=cursor.sequence, task_id=cursor.task_id, attempt_id=cursor.attempt_id)
    if poll.task is None or poll.attempt is None or poll.attempt.state != "active":
        return Replay(reply=reply)
    draft = Draft()  # lost by time alone: believed only if no renewal came between the snapshot and the clock
    draft.guard(task_seen(poll.task))
    return draft.accepted(reply, poll.clock)


def _busy(poll: Poll) -> Verdict | None:
    """A live attempt keeps its consumer busy, reported or not (DLV-016), until its time is over (DLV-017)."""
    return Rejected(code="busy") if _previous_is_live(poll) else None


#: The order of DLV-314, after decoding.
CHECKS: Final = (_session, _match, _sequence, _replay, _busy)


def _previous_is_live(poll: Poll) -> bool:
    return poll.task is not None and poll.attempt is not None and is_live(poll.task, poll.attempt, poll.clock.now)
