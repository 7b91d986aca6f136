"""Lease and permission arithmetic, as tables (WRK-014…024, the worked examples of 2.3)."""

from dataclasses import replace

import pytest

from protocol3.contract.models.common import LeaseOwner, Scope
from protocol3.contract.models.delivery import Authority
from protocol3.worker.authority import (
    CANCEL_REQUESTED,
    EXECUTION_ENDED,
    INVALID_AUTHORITY,
    LEASE_ENDED,
    LocalAuthority,
    Stop,
    assigned,
    intent,
    renewed,
)

OWNER = LeaseOwner(
    scope=Scope(tenant_id="t", namespace="n"),
    task_id="task",
    attempt_id="attempt",
    lease_id="lease",
    generation=1,
    worker_session_id="session",
    consumer_id=0,
)
HOUR = 3_600_000


def authority(**changes: int | bool) -> Authority:
    plain = Authority(
        owner=OWNER,
        expires_at=0,
        remaining_ms=60_000,
        execution_remaining_ms=HOUR,
        renew_sequence=1,
        cancel_requested=False,
        dispatch_allowed=True,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def local(**changes: object) -> LocalAuthority:
    plain = LocalAuthority(sequence=3, lease_deadline_ms=50_000, execution_deadline_ms=80_000, permitted=True)
    return replace(plain, **changes)  # type: ignore[arg-type]


def test_the_lease_counts_from_the_start_of_the_request() -> None:
    """WRK-016, first worked example: 60 s asked at 0 end at 55 s, though the reply came at 20 s."""
    after = renewed(local(sequence=0, lease_deadline_ms=30_000), authority(), 0, 20_000)
    assert (after.lease_deadline_ms, after.stop) == (55_000, None)


def test_an_execution_bound_in_the_past_expires_the_attempt() -> None:
    """WRK-019, second worked example: 8 s left, asked at 20 s, received at 24 s: the bound was 23 s."""
    reply = authority(execution_remaining_ms=8_000, renew_sequence=4)
    after = renewed(local(), reply, 20_000, 24_000)
    assert after.execution_deadline_ms == 23_000
    assert after.stop == EXECUTION_ENDED
    assert not after.permitted
    assert renewed(local(), reply, 20_000, 22_999).stop is None
    assert renewed(local(), reply, 20_000, 23_000).stop == EXECUTION_ENDED


@pytest.mark.parametrize(
    ("changes", "started", "now", "stop"),
    [
        ({}, 0, 20_000, None),
        ({"cancel_requested": True}, 0, 0, CANCEL_REQUESTED),
        ({"remaining_ms": 0}, 0, 0, LEASE_ENDED),
        ({"execution_remaining_ms": 0}, 0, 0, EXECUTION_ENDED),
        ({"remaining_ms": 5_000}, 0, 0, LEASE_ENDED),
        ({"remaining_ms": 5_001}, 0, 0, None),
        ({"remaining_ms": 20_000}, 0, 15_000, LEASE_ENDED),
        ({"dispatch_allowed": True, "renew_sequence": 0}, 0, 0, INVALID_AUTHORITY),
        ({"dispatch_allowed": True, "renew_sequence": 2}, 0, 0, None),
    ],
)
def test_a_new_assignment_has_no_permission(changes: dict[str, int], started: int, now: int, stop: Stop | None) -> None:
    """WRK-014, WRK-022: not even when a replayed acquisition shows a dispatch renewal."""
    given = assigned(authority(**{"renew_sequence": 0, "dispatch_allowed": False, **changes}), started, now)
    assert (given.permitted, given.stop) == (False, stop)


@pytest.mark.parametrize(
    ("reply", "started", "lease", "execution", "permitted", "stop"),
    [
        # newer: the lease is renewed, the execution bound only shrinks
        ({"renew_sequence": 4}, 40_000, 95_000, 80_000, True, None),
        ({"renew_sequence": 4, "execution_remaining_ms": 20_000}, 40_000, 95_000, 55_000, True, None),
        ({"renew_sequence": 4, "dispatch_allowed": False}, 40_000, 95_000, 80_000, False, None),
        ({"renew_sequence": 4, "remaining_ms": 0}, 40_000, 35_000, 80_000, False, LEASE_ENDED),
        ({"renew_sequence": 4, "cancel_requested": True}, 40_000, 95_000, 80_000, False, CANCEL_REQUESTED),
        # the same: it can only shorten and withdraw
        ({"renew_sequence": 3}, 40_000, 50_000, 80_000, True, None),
        ({"renew_sequence": 3, "remaining_ms": 12_000}, 40_000, 47_000, 80_000, True, None),
        ({"renew_sequence": 3, "dispatch_allowed": False}, 40_000, 50_000, 80_000, False, None),
        # older: nothing but a stop
        ({"renew_sequence": 2, "dispatch_allowed": False, "remaining_ms": 6_000}, 40_000, 50_000, 80_000, True, None),
        ({"renew_sequence": 2, "cancel_requested": True}, 40_000, 50_000, 80_000, False, CANCEL_REQUESTED),
        ({"renew_sequence": 2, "remaining_ms": 0}, 40_000, 50_000, 80_000, False, LEASE_ENDED),
        ({"renew_sequence": 0, "dispatch_allowed": True}, 40_000, 50_000, 80_000, False, INVALID_AUTHORITY),
    ],
)
def test_replies_by_their_sequence(
    reply: dict[str, int], started: int, lease: int, execution: int, permitted: bool, stop: Stop | None
) -> None:
    """WRK-017, WRK-020, WRK-021, WRK-022."""
    after = renewed(local(), authority(**reply), started, 40_000)
    seen = (after.lease_deadline_ms, after.execution_deadline_ms, after.permitted, after.stop)
    assert seen == (lease, execution, permitted, stop)


def test_the_same_sequence_never_grants() -> None:
    """WRK-020."""
    assert not renewed(local(permitted=False), authority(renew_sequence=3), 0, 0).permitted
    assert renewed(local(permitted=False), authority(renew_sequence=4), 0, 0).permitted


@pytest.mark.parametrize(
    ("lease", "execution", "now", "stop"),
    [
        (50_000, 80_000, 49_999, None),
        (50_000, 80_000, 50_000, LEASE_ENDED),
        (80_000, 50_000, 49_999, None),
        (80_000, 50_000, 50_000, EXECUTION_ENDED),
        (50_000, 50_000, 50_000, EXECUTION_ENDED),
    ],
)
def test_reaching_the_smaller_deadline_stops(lease: int, execution: int, now: int, stop: Stop | None) -> None:
    """WRK-018, WRK-067: at the deadline it is over; the execution bound surfaces as a time-out."""
    state = local(lease_deadline_ms=lease, execution_deadline_ms=execution)
    assert state.work_deadline_ms == min(lease, execution)
    assert state.at(now).stop == stop


def test_a_stop_is_for_good() -> None:
    """DLV-204: neither a later reply nor a later stop changes it."""
    stopped = local().stopped(LEASE_ENDED)
    later = renewed(stopped, authority(renew_sequence=9), 60_000, 60_000)
    assert (later.stop, later.permitted) == (LEASE_ENDED, False)
    assert later.stopped(CANCEL_REQUESTED).stop == LEASE_ENDED
    assert renewed(stopped, authority(renew_sequence=9, cancel_requested=True), 0, 0).stop == LEASE_ENDED


@pytest.mark.parametrize(
    ("taken", "stopped", "expected"),
    [
        (False, False, "dispatch"),
        (True, False, "keep_alive"),
        (False, True, "keep_alive"),
        (True, True, "keep_alive"),
    ],
)
def test_what_a_renewal_asks_for(taken: bool, stopped: bool, expected: str) -> None:
    """WRK-024."""
    state = local(permitted=False)
    assert intent(state.stopped(LEASE_ENDED) if stopped else state, taken) == expected
