"""Chapter 06, Cancellation and the cancel rows of chapter 41, Tasks."""

from __future__ import annotations

import pytest

from protocol3.core import records as r
from protocol3.core.cancellation import cancel_task
from protocol3.core.verdict import AgendaWake, Replay


def cancel(make, task, attempt=None, now=None):
    return cancel_task(make.in_hand(task, attempt), make.clock(now or make.now), make.fresh())


def test_unknown_task(make, word):
    assert word(cancel_task(None, make.clock(), make.fresh())) == "not_found"


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled"])
def test_terminal_task(make, state):
    """TASK-205: its state, nothing written."""
    task = make.task(state=state, terminal_at=make.now - 1, current_attempt_id=None)
    assert cancel(make, task) == Replay(reply=state)


@pytest.mark.parametrize("lease_left", [50_000, 0])
def test_repeated_cancel(make, lease_left):
    """TASK-204: `active` again, also once the lease is over."""
    task = make.task(cancel_requested_at=make.now - 9)
    attempt = make.attempt(lease_expires_at=make.now + lease_left)
    assert cancel(make, task, attempt) == Replay(reply="active")


@pytest.mark.parametrize("attempts", [0, 2])
def test_queued_task(make, written, reasons, attempts):
    """TASK-200, TASK-201: terminal at once, history without attempt, the earlier attempt untouched.

    TASK-232, TASK-239.
    """
    latest = "att" if attempts else None
    task = make.queued(attempt_count=attempts, latest_attempt_id=latest, available_at=make.now + 4_000)
    verdict = cancel(make, task)
    ended = written(verdict, r.Task)
    assert verdict.reply == ended.state == "cancelled"
    assert ended.cancel_requested_at == ended.terminal_at == make.now
    assert reasons(verdict) == ["cancel_requested", "cancelled"]
    assert {record.attempt_id for record in verdict.records if isinstance(record, r.History)} == {None}
    assert not [record for record in verdict.records if isinstance(record, r.Attempt)]


@pytest.mark.parametrize(
    ("lease_left", "authority_left", "lease", "authority"),
    [
        (50_000, 320_000, 30_000, 30_000),
        (10_000, 320_000, 10_000, 30_000),
        (10_000, 20_000, 10_000, 20_000),
        (30_000, 30_000, 30_000, 30_000),
    ],
)
def test_live_attempt(make, written, reasons, lease_left, authority_left, lease, authority):
    """TASK-202, TASK-203, TASK-232: intent recorded, authority capped and never extended."""
    now = make.now
    attempt = make.attempt(lease_expires_at=now + lease_left, authority_deadline=now + authority_left)
    verdict = cancel(make, make.task(), attempt)
    capped, task = written(verdict, r.Attempt), written(verdict, r.Task)
    assert verdict.reply == task.state == "active"
    assert (task.cancel_requested_at, task.terminal_at) == (now, None)
    assert (capped.lease_expires_at, capped.authority_deadline) == (now + lease, now + authority)
    assert (capped.state, capped.deadline) == ("active", attempt.deadline)
    assert reasons(verdict) == ["cancel_requested"]
    assert written(verdict, r.Agenda).due == now + lease
    assert verdict.wakes == (AgendaWake(due_real=now + lease),)
    assert verdict.valid_until_real == now + lease_left


@pytest.mark.parametrize("report", [None, "success"])
def test_expired_attempt(make, written, reasons, report):
    """TASK-210, TASK-235: cancelled and expired in one step, an unconfirmed success included."""
    attempt = make.attempt(
        lease_expires_at=make.now, verdict=report, settled_at=None if report is None else make.now - 1
    )
    verdict = cancel(make, make.task(), attempt)
    ended, task = written(verdict, r.Attempt), written(verdict, r.Task)
    assert verdict.reply == task.state == "cancelled"
    assert (ended.state, ended.quiescence, ended.finished_at) == ("lost", "unconfirmed", make.now)  # TASK-208
    assert reasons(verdict) == ["cancel_requested", "lease_expired", "cancelled"]
    assert {record.attempt_id for record in verdict.records if isinstance(record, r.History)} == {"att"}


def test_owned_task_tells_its_workflow(make):
    """RCV-001: a cancelled child or activation owes its end as well."""
    verdict = cancel(make, make.queued(workflow_id="wf"))
    assert [record.kind for record in verdict.records if isinstance(record, r.Obligation)] == ["child"]
