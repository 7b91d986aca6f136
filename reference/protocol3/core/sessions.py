"""Worker sessions (chapter 07, Sessions)."""

from __future__ import annotations

from dataclasses import replace

from protocol3.contract.limits import SESSION_VALIDITY_MS
from protocol3.contract.models.delivery import OpenSession
from protocol3.core.records import Session
from protocol3.core.verdict import Clock, Draft, Fresh, Guard, Rejected, Verdict


def open_session(scope_id: int, command: OpenSession, clock: Clock, fresh: Fresh) -> Verdict:
    """Replies with the new session (DLV-001, DLV-003)."""
    session = Session(
        id=fresh("ws"),
        scope_id=scope_id,
        queue=command.queue,
        concurrency=command.concurrency,
        expires_at=clock.now + SESSION_VALIDITY_MS,
    )
    draft = Draft()
    draft.write(session)
    return draft.accepted(session, clock)


def extend_session(session: Session | None, clock: Clock) -> Verdict:
    """Replies with the session as extended. An expired one is never revived (DLV-004, DLV-005)."""
    refused = usable(session, clock.now)
    if refused is not None:
        return refused
    assert session is not None
    draft = Draft()
    draft.guard(Guard(kind="session", id=session.id, version=session.version))
    extended = replace(session, expires_at=max(session.expires_at, clock.now + SESSION_VALIDITY_MS))
    draft.write(extended)
    return draft.accepted(extended, clock, valid_until=[session.expires_at])


def usable(session: Session | None, now: int) -> Rejected | None:
    """The session must exist and be within its validity; decided again under its lock if it seems over."""
    if session is None:
        return Rejected(code="unknown_session")
    if now >= session.expires_at:
        return Rejected(code="session_expired", guards=(seen(session),))
    return None


def seen(session: Session) -> Guard:
    """The guard of a transition that relies on the session and does not change it."""
    return Guard(kind="session", id=session.id, version=session.version, seen=True)
