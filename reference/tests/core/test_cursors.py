"""Chapter 07, Acquisition: the cursor table, its check order, and completing a poll with nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol3.core import acquisition
from protocol3.core import records as r
from protocol3.core.acquisition import complete_empty, judge


def test_order_of_checks():
    """N8: session, match, sequence rules, busy (DLV-314)."""
    names = [check.__name__ for check in acquisition.CHECKS]
    assert names == ["_session", "_match", "_sequence", "_replay", "_busy"]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [(0, "out_of_order"), (3, "obsolete_operation"), (4, "replay"), (5, "busy"), (6, "out_of_order")],
)
def test_live_assignment(make, word, sequence, expected):
    """DLV-010, DLV-016, DLV-315, DLV-316, DLV-322."""
    assert word(judge(make.poll(sequence=sequence))) == expected


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [(0, "out_of_order"), (1, "admitted"), (2, "out_of_order"), (2**64 - 1, "out_of_order")],
)
def test_first_sequence(make, word, sequence, expected):
    """DLV-010: without a cursor the latest completed sequence is 0."""
    poll = make.poll(sequence=sequence, cursor=None, task=None, attempt=None, body=None)
    assert word(judge(poll)) == expected


@pytest.mark.parametrize(("sequence", "expected"), [(4, "replay"), (5, "admitted")])
def test_after_an_empty_one(make, word, sequence, expected):
    """DLV-012, DLV-321: empty stays empty."""
    cursor = make.cursor(task_id=None, attempt_id=None)
    verdict = judge(make.poll(sequence=sequence, cursor=cursor, task=None, attempt=None, body=None))
    assert word(verdict) == expected
    if verdict is not None:
        assert verdict.reply.to_json() == {"disposition": "empty", "sequence": 4}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"session": None}, "unknown_session"),
        ({"session": "expired"}, "session_expired"),
        ({"scope_id": 8}, "invalid_input"),
        ({"scope_id": None}, "invalid_input"),
        ({"command": {"queue": "other"}}, "invalid_input"),
        ({"command": {"consumer_id": 2}}, "invalid_input"),
    ],
)
@pytest.mark.parametrize("sequence", [0, 4, 5])
def test_session_and_match_come_first(make, word, sequence, changes, expected):
    """DLV-011, chapter 07, Acquisition: before any sequence rule, for every sequence."""
    if changes.get("session") == "expired":
        changes = {"session": make.session(expires_at=make.now)}
    poll = make.poll(sequence=sequence, command=changes.get("command", {}))
    fields = {name: value for name, value in changes.items() if name != "command"}
    if fields:
        poll = replace(poll, **fields)
    assert word(judge(poll)) == expected


def test_expired_session_is_decided_under_its_lock(make):
    """An extension may have committed between the snapshot and its clock."""
    verdict = judge(make.poll(session=make.session(expires_at=make.now)))
    assert [(guard.kind, guard.id) for guard in verdict.guards] == [("session", "ws")]


def test_replay_shows_the_authority_of_now(make):
    """DLV-013, DLV-050: never a cached one."""
    reply = judge(make.poll(now=make.now + 30_000)).reply
    assert reply.now == make.now + 30_000
    assert reply.attempt == make.attempt()


def test_empty_moves_the_cursor(make, written):
    """DLV-012: session seen, cursor changed."""
    cursor = make.cursor(task_id=None, attempt_id=None)
    verdict = complete_empty(make.poll(sequence=5, cursor=cursor, task=None, attempt=None, body=None))
    assert verdict.reply.to_json() == {"disposition": "empty", "sequence": 5}
    assert [(g.kind, g.part, g.seen) for g in verdict.guards] == [("session", 0, True), ("cursor", 0, False)]
    moved = written(verdict, r.Cursor)
    assert (moved.sequence, moved.task_id, moved.attempt_id) == (5, None, None)
    assert verdict.valid_until_real == make.session().expires_at


def test_first_empty_makes_the_cursor(make, written):
    """DLV-007: a consumer's cursor exists from its first completed poll."""
    verdict = complete_empty(make.poll(sequence=1, cursor=None, task=None, attempt=None, body=None))
    assert [guard.kind for guard in verdict.guards] == ["session"]
    assert written(verdict, r.Cursor) == make.cursor(sequence=1, task_id=None, attempt_id=None, version=0)


def test_leaving_an_unrecovered_attempt_behind_guards_it(make):
    """DLV-017: the attempt is over by time alone; a renewal of that moment must make this miss."""
    attempt = make.attempt(lease_expires_at=make.now)
    verdict = complete_empty(make.poll(sequence=5, attempt=attempt))
    assert [(g.kind, g.seen) for g in verdict.guards] == [("session", True), ("cursor", False), ("task", True)]
