"""Renewing a lease and authorising dispatch (chapter 07, Renewal)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from protocol3.contract.limits import LEASE_MS
from protocol3.contract.models.delivery import RenewCommand
from protocol3.core.authority import authority, is_live, is_stopped, live_until, owner_of
from protocol3.core.finalisation import changed, latest_instant
from protocol3.core.history import append
from protocol3.core.records import Attempt, Cursor, Session, Task
from protocol3.core.sessions import seen, usable
from protocol3.core.verdict import Clock, Draft, Guard, Rejected, Replay, Verdict, judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewing:
    """The command and what it names; `task` and `attempt` as found in the scope of the owner."""

    command: RenewCommand
    session: Session | None
    cursor: Cursor | None
    task: Task | None
    attempt: Attempt | None
    clock: Clock


def renew(asked: Renewing) -> Verdict:
    """Replies with the authority at this instant; a report does not end renewals (DLV-050..068, DLV-063)."""
    return judged(CHECKS, asked) or _accept(asked)


def _session(asked: Renewing) -> Verdict | None:
    return usable(asked.session, asked.clock.now)


def _cursor(asked: Renewing) -> Verdict | None:
    """The consumer's latest acquisition is exactly this task and attempt."""
    owner, cursor = asked.command.owner, asked.cursor
    if cursor is None or (cursor.task_id, cursor.attempt_id) != (owner.task_id, owner.attempt_id):
        return Rejected(code="ownership_lost")
    return None


def _found(asked: Renewing) -> Verdict | None:
    return Rejected(code="not_found") if asked.task is None else None


def _owner(asked: Renewing) -> Verdict | None:
    """Every field of the owner is the lease's, and the session is one that could hold it (DLV-055)."""
    session, task, attempt = asked.session, asked.task, asked.attempt
    assert session is not None
    assert task is not None
    if attempt is None or asked.command.owner != owner_of(asked.command.owner.scope, attempt):
        return Rejected(code="ownership_lost")
    if (session.scope_id, session.queue) != (task.scope_id, task.queue) or attempt.consumer_id >= session.concurrency:
        return Rejected(code="ownership_lost")
    return None


def _live(asked: Renewing) -> Verdict | None:
    """Liveness comes before the sequence: a replay after expiry is refused (DLV-054)."""
    task, attempt = _held(asked)
    if not is_live(task, attempt, asked.clock.now):
        return Rejected(code="ownership_lost", guards=(changed(task),))
    return None


def _sequence(asked: Renewing) -> Verdict | None:
    """DLV-330, DLV-331, DLV-333, DLV-334."""
    task, attempt = _held(asked)
    command, accepted = asked.command, attempt.renew_sequence
    if command.sequence == 0 or command.sequence > accepted + 1:
        return Rejected(code="out_of_order")
    if command.sequence < accepted:
        return Rejected(code="obsolete_operation")
    if command.sequence == accepted:  # DLV-057
        if command.intent != attempt.renew_intent:
            return Rejected(code="conflict")
        return Replay(reply=authority(command.owner.scope, task, attempt, asked.clock.now))
    return None


#: The order of DLV-329.
CHECKS: Final = (_session, _cursor, _found, _owner, _live, _sequence)


def _accept(asked: Renewing) -> Verdict:
    session, cursor, command = asked.session, asked.cursor, asked.command
    assert session is not None
    assert cursor is not None
    task, attempt = _held(asked)
    clock = asked.clock.at_least(latest_instant(task, attempt))
    draft = Draft()
    draft.guard(
        seen(session),
        Guard(kind="cursor", id=cursor.session_id, part=cursor.consumer_id, version=cursor.version, seen=True),
        changed(task),
    )
    renewed = replace(  # DLV-056; the caps are DLV-064, DLV-065 and DLV-067, and the deadline stays (DLV-066)
        attempt,
        lease_expires_at=min(clock.now + LEASE_MS, attempt.authority_deadline, session.expires_at),
        renew_sequence=command.sequence,
        renew_intent=command.intent,
    )
    if command.intent == "dispatch" and _authorises(task, attempt, clock.now):  # a keep_alive never does (DLV-061)
        renewed = replace(renewed, may_have_started=True)  # and nothing sets it back (DLV-062)
        task = append(draft, task, clock.now, attempt.id, "dispatch_authorized")
    draft.write(task, renewed)
    reply = authority(command.owner.scope, task, renewed, clock.now)
    return draft.accepted(
        reply, clock, valid_until=[live_until(attempt), session.expires_at, _stop(attempt, clock.now)]
    )


def _authorises(task: Task, attempt: Attempt, now: int) -> bool:
    """DLV-058 to DLV-060, TASK-231: the first dispatch of an attempt that may still run."""
    return not attempt.may_have_started and attempt.settled_at is None and not is_stopped(task, attempt, now)


def _stop(attempt: Attempt, now: int) -> int | None:
    """The execution deadline, while it is ahead: beyond it a dispatch authorises nothing."""
    return attempt.deadline if now < attempt.deadline else None


def _held(asked: Renewing) -> tuple[Task, Attempt]:
    assert asked.task is not None
    assert asked.attempt is not None
    return asked.task, asked.attempt
