"""Chapter 07, Renewal: the order of checks, the sequence table, and what an accepted renewal changes."""

from __future__ import annotations

import pytest

from protocol3.core import records as r
from protocol3.core import renewal
from protocol3.core.renewal import renew


def test_order_of_checks():
    """N8: the checks are the chapter's list, in its order (DLV-329)."""
    names = [check.__name__ for check in renewal.CHECKS]
    assert names == ["_session", "_cursor", "_found", "_owner", "_live", "_sequence"]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"session": None}, "unknown_session"),
        ({"session": "expired"}, "session_expired"),
        ({"cursor": None}, "ownership_lost"),
        ({"cursor": "other attempt"}, "ownership_lost"),
        ({"cursor": "empty"}, "ownership_lost"),
        ({"task": None}, "not_found"),
        ({"attempt": None}, "ownership_lost"),
    ],
)
def test_what_the_owner_names(make, word, wrong, expected):
    """DLV-055: session, then cursor, then task, then owner."""
    others = {
        "expired": make.session(expires_at=make.now),
        "other attempt": make.cursor(attempt_id="att2"),
        "empty": make.cursor(task_id=None, attempt_id=None),
    }
    changes = {name: others.get(value) for name, value in wrong.items()}
    assert word(renew(make.renewing(**changes))) == expected


@pytest.mark.parametrize(
    "changes",
    [{"lease_id": "other"}, {"generation": 2}],
)
def test_wrong_owner(make, word, changes):
    """DLV-055."""
    assert word(renew(make.renewing(owner=make.owner(**changes)))) == "ownership_lost"


@pytest.mark.parametrize("session", [{"queue": "other"}, {"scope_id": 8}, {"concurrency": 0}])
def test_session_that_cannot_hold_the_attempt(make, word, session):
    """Chapter 07, Renewal: the session matches scope and queue, the consumer is in range."""
    assert word(renew(make.renewing(session=make.session(**session)))) == "ownership_lost"


@pytest.mark.parametrize(
    ("last", "sequence", "intent", "expected"),
    [
        (0, 0, "keep_alive", "out_of_order"),
        (0, 1, "keep_alive", "accepted"),
        (0, 2, "keep_alive", "out_of_order"),
        (3, 0, "dispatch", "out_of_order"),
        (3, 2, "dispatch", "obsolete_operation"),
        (3, 3, "dispatch", "replay"),
        (3, 3, "keep_alive", "conflict"),
        (3, 4, "keep_alive", "accepted"),
        (3, 5, "keep_alive", "out_of_order"),
        (3, 2**64 - 1, "keep_alive", "out_of_order"),
    ],
)
def test_sequence_table(make, word, last, sequence, intent, expected):
    """DLV-057, DLV-068, DLV-330, DLV-331, DLV-333, DLV-334."""
    attempt = make.attempt(renew_sequence=last, renew_intent="dispatch" if last else None)
    verdict = renew(make.renewing(sequence=sequence, intent=intent, attempt=attempt))
    assert word(verdict) == expected


def test_replay_never_extends(make):
    """DLV-057: the same end, less time left."""
    attempt = make.attempt(renew_sequence=1, renew_intent="keep_alive")
    reply = renew(make.renewing(sequence=1, attempt=attempt, now=make.now + 20_000)).reply
    assert (reply.expires_at, reply.remaining_ms) == (make.now + 50_000, 30_000)


@pytest.mark.parametrize(
    ("session_left", "authority_left", "expected"),
    [(10**9, 10**9, 60_000), (10**9, 41_000, 41_000), (42_000, 10**9, 42_000)],
)
def test_lease_is_cut_by_authority_and_session(make, written, session_left, authority_left, expected):
    """DLV-056, DLV-064, DLV-067."""
    verdict = renew(
        make.renewing(
            session=make.session(expires_at=make.now + session_left),
            attempt=make.attempt(authority_deadline=make.now + authority_left),
        )
    )
    attempt = written(verdict, r.Attempt)
    assert attempt.lease_expires_at == make.now + expected
    assert verdict.reply.expires_at == make.now + expected
    assert attempt.deadline == make.attempt().deadline  # DLV-066


@pytest.mark.parametrize(
    ("intent", "task", "attempt", "authorised", "allowed"),
    [
        ("dispatch", {}, {}, True, True),
        ("dispatch", {}, {"may_have_started": True}, False, True),
        ("dispatch", {"cancel_requested_at": 1}, {}, False, False),
        ("dispatch", {}, {"deadline": 1_700_000_000_000}, False, False),
        ("dispatch", {}, {"settled_at": 1, "verdict": "retryable"}, False, False),
        ("keep_alive", {}, {}, False, False),
        ("keep_alive", {}, {"may_have_started": True}, False, False),
    ],
    ids=["first", "again", "cancelled", "past-deadline", "reported", "keep-alive", "keep-alive-after"],
)
def test_dispatch_authorisation(make, written, reasons, intent, task, attempt, authorised, allowed):
    """DLV-058 to DLV-062, TASK-231: the record is written once, for the first dispatch of an attempt that may run."""
    verdict = renew(make.renewing(intent=intent, task=make.task(**task), attempt=make.attempt(**attempt)))
    assert reasons(verdict) == (["dispatch_authorized"] if authorised else [])
    assert written(verdict, r.Attempt).may_have_started is (authorised or attempt.get("may_have_started", False))
    assert verdict.reply.dispatch_allowed is allowed
    assert written(verdict, r.Task).history_length == make.task().history_length + authorised


def test_guards_and_validity(make):
    """Renewal: session and cursor seen, task changed; valid until anything it relied on runs out."""
    verdict = renew(make.renewing(intent="dispatch"))
    assert [(g.kind, g.seen) for g in verdict.guards] == [("session", True), ("cursor", True), ("task", False)]
    assert verdict.valid_until_real == make.now + 50_000
    near = renew(make.renewing(intent="dispatch", session=make.session(expires_at=make.now + 7)))
    assert near.valid_until_real == make.now + 7
