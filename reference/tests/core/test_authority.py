"""Chapter 07, Authority: the authority of an attempt at one instant."""

from __future__ import annotations

import pytest

from protocol3.core.authority import authority, is_live

DISPATCHED = {"renew_sequence": 2, "renew_intent": "dispatch", "may_have_started": True}


def shown(make, task, attempt, now=None):
    return authority(make.scope, task, attempt, make.now if now is None else now)


def test_fresh_claim(make):
    """DLV-028, DLV-323, DLV-326: nothing renewed, nothing dispatched, the whole budget left."""
    attempt = make.attempt(claimed_at=make.now, deadline=make.now + 300_000, lease_expires_at=make.now + 60_000)
    view = shown(make, make.task(), attempt)
    assert view.to_json() == {
        "owner": make.owner().to_json(),
        "expires_at": make.now + 60_000,
        "remaining_ms": 60_000,
        "execution_remaining_ms": 300_000,
        "renew_sequence": 0,
        "cancel_requested": False,
        "dispatch_allowed": False,
    }


@pytest.mark.parametrize(
    ("task", "attempt", "now", "expected"),
    [
        ({}, {}, 49_999, (1, 240_001, False, True)),
        ({}, {}, 50_000, (0, 0, False, False)),
        ({}, {"lease_expires_at": 10**15}, 290_000, (10**15 - 1_700_000_290_000, 0, True, False)),
        ({}, {"lease_expires_at": 10**15}, 289_999, (10**15 - 1_700_000_289_999, 1, False, True)),
        ({"cancel_requested_at": 5}, {}, 0, (50_000, 0, True, False)),
        ({}, {"settled_at": 5}, 0, (50_000, 290_000, False, False)),
        ({}, {"renew_intent": "keep_alive"}, 0, (50_000, 290_000, False, False)),
        ({"current_attempt_id": "later"}, {}, 0, (0, 0, False, False)),
        ({"state": "succeeded"}, {}, 0, (0, 0, False, False)),
        ({}, {"state": "failed"}, 0, (0, 0, False, False)),
    ],
    ids=[
        "last-ms",
        "over",
        "deadline",
        "before-deadline",
        "cancelled",
        "settled",
        "keep-alive",
        "replaced",
        "ended",
        "finished",
    ],
)
def test_remaining_and_permission(make, task, attempt, now, expected):
    """DLV-050 to DLV-053, TASK-045: strictly before; stopped work keeps its lease and loses its budget.

    DLV-324, DLV-325, DLV-327, DLV-328.
    """
    attempt = make.attempt(**{**DISPATCHED, "authority_deadline": 10**16, **attempt})
    view = shown(make, make.task(**task), attempt, make.now + now)
    remaining, execution, stopped, allowed = expected
    assert (view.remaining_ms, view.execution_remaining_ms) == (remaining, execution)
    assert (view.cancel_requested, view.dispatch_allowed) == (stopped, allowed)


def test_authority_deadline_ends_liveness_as_well(make):
    """DLV-015."""
    attempt = make.attempt(authority_deadline=make.now, lease_expires_at=make.now + 1)
    assert not is_live(make.task(), attempt, make.now)
    assert is_live(make.task(), attempt, make.now - 1)
