"""Chapter 07: classification of reports, and how attempts and tasks end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol3.contract.limits import DEFAULT_RETRY_DELAY_MS
from protocol3.core import records as r
from protocol3.core.expiry import expire
from protocol3.core.settlement import classify, confirm_quiescence, settle
from protocol3.core.verdict import ObligationWake, QueueWake

RETRYABLE = ["unavailable", "io", "capacity", "runtime", "timed_out", "cancelled"]
PERMANENT = ["invalid_input", "not_found", "integrity", "incompatible", "protocol"]


@pytest.mark.parametrize("kind", RETRYABLE)
def test_retryable_kinds(make, kind):
    """DLV-087, DLV-088."""
    assert classify(make.command(error=kind).report) == "retryable"


@pytest.mark.parametrize("kind", PERMANENT)
def test_permanent_kinds(make, kind):
    """DLV-087."""
    assert classify(make.command(error=kind).report) == "permanent"


@pytest.mark.parametrize("phase", ["admission", "preparation", "startup", "execution", "cleanup"])
@pytest.mark.parametrize("started", [True, False])
def test_only_the_kind_classifies(make, phase, started):
    """DLV-087: neither phase nor flags nor texts."""
    report = replace(make.command(error="protocol").report, phase=phase, execution_may_have_started=started)
    assert classify(report) == "permanent"


def test_a_program_decides_for_itself(make):
    """Chapter 07, What a report decides: a completed report is a success or the program's own failure."""
    assert classify(make.command().report) == "success"
    assert classify(make.command(outcome=make.program_failure()).report) == "application"


# verdict of the report (None: expiry without one), attempts left, cancelled, quiescence
# -> attempt state, task state, last history reason
CASES = [
    ("success", True, False, "confirmed", "succeeded", "succeeded", "succeeded"),
    ("success", False, False, "unconfirmed", "succeeded", "succeeded", "succeeded"),  # DLV-114
    ("application", True, False, "confirmed", "failed", "failed", "failed"),
    ("permanent", True, False, "confirmed", "failed", "failed", "failed"),
    ("retryable", True, False, "confirmed", "failed", "queued", "retry_scheduled"),
    ("retryable", True, False, "unconfirmed", "failed", "queued", "retry_scheduled"),  # DLV-115
    ("retryable", False, False, "confirmed", "failed", "failed", "failed"),
    (None, True, False, "unconfirmed", "lost", "queued", "retry_scheduled"),
    (None, False, False, "unconfirmed", "lost", "failed", "failed"),  # DLV-119
    ("success", True, True, "confirmed", "cancelled", "cancelled", "cancelled"),  # TASK-206
    ("success", True, True, "unconfirmed", "lost", "cancelled", "cancelled"),  # TASK-208
    ("retryable", True, True, "confirmed", "cancelled", "cancelled", "cancelled"),
    (None, True, True, "unconfirmed", "lost", "cancelled", "cancelled"),
]


@pytest.mark.parametrize(("report", "left", "cancelled", "quiescence", "attempt_state", "task_state", "reason"), CASES)
def test_every_ending(make, written, reasons, report, left, cancelled, quiescence, attempt_state, task_state, reason):
    """Chapter 07, reached by confirmation where quiescence is confirmed and by expiry otherwise.

    TASK-234 to TASK-238, DLV-337 to DLV-341, DLV-343, DLV-345 to DLV-347, TASK-240, DLV-356.
    """
    now = make.now
    task = make.task(
        attempt_count=1 if left else 3, max_attempts=3, cancel_requested_at=now - 4_000 if cancelled else None
    )
    attempt = make.attempt(verdict=report, settled_at=None if report is None else now - 5_000)
    if quiescence == "confirmed":
        verdict = confirm_quiescence(make.confirming(task, attempt), make.fresh())
        before = ["cleanup_confirmed"]
    else:
        attempt = replace(attempt, lease_expires_at=now)
        verdict = expire(entry(now), make.in_hand(task, attempt), make.clock(), make.fresh())
        before = ["lease_expired"]
    ended, then = written(verdict, r.Attempt), written(verdict, r.Task)
    assert (ended.state, ended.quiescence, ended.finished_at) == (attempt_state, quiescence, now)
    assert (then.state, then.current_attempt_id, then.latest_attempt_id) == (task_state, None, "att")
    assert then.attempt_count == task.attempt_count  # DLV-117
    assert reasons(verdict) == [*before, reason]
    assert {record.at for record in verdict.records if isinstance(record, r.History)} == {now}  # DLV-130
    assert verdict.unscheduled == (("lease", "task"),)
    if task_state == "queued":
        assert (then.terminal_at, then.available_at) == (None, now + DEFAULT_RETRY_DELAY_MS)  # DLV-105
        assert verdict.wakes == (QueueWake(scope_id=7, queue="q"),)
    else:
        assert (then.terminal_at, then.available_at) == (now, task.available_at)


def entry(due: int) -> r.Agenda:
    return r.Agenda(kind="lease", ref="task", scope_id=7, due=due)


@pytest.mark.parametrize(("max_attempts", "state"), [(1, "failed"), (2, "queued")])
def test_the_first_attempt_counts(make, written, max_attempts, state):
    """DLV-116."""
    command = make.command(error="io")
    verdict = settle(make.settling(command, make.task(max_attempts=max_attempts), make.attempt()), make.fresh())
    assert written(verdict, r.Task).state == state
    assert verdict.reply.task_state == state  # DLV-085


def test_a_retry_without_delay_is_due_at_once(make, written):
    """DLV-118."""
    verdict = settle(make.settling(make.command(error="io"), make.task(retry_delay_ms=0), make.attempt()), make.fresh())
    assert written(verdict, r.Task).available_at == make.now


@pytest.mark.parametrize(("activation", "kind"), [(True, "decision"), (False, "child")])
@pytest.mark.parametrize("error", [None, "protocol"])
def test_one_obligation_for_the_owning_workflow(make, written, activation, kind, error):
    """RCV-001: exactly one, of the activation's or the child's kind, in the same step."""
    task = make.task(workflow_id="wf", activation=activation)
    verdict = settle(make.settling(_of(make, task, error), task, make.attempt()), make.fresh())
    (obligation,) = [record for record in verdict.records if isinstance(record, r.Obligation)]
    assert (obligation.kind, obligation.workflow_id, obligation.subject) == (kind, "wf", "task")
    assert obligation.created_at == make.now
    assert verdict.wakes == (ObligationWake(obligation=obligation),)


def _of(make, task, error):
    command = make.command(error=error)
    lineage = {"workflow_id": "wf", "activation_id": "task" if task.activation else None}
    return replace(command, report=replace(command.report, identity=replace(command.report.identity, **lineage)))


def test_a_retry_owes_nothing(make):
    """RCV-001: only the terminal transition does."""
    task = make.task(workflow_id="wf")
    verdict = settle(make.settling(_of(make, task, "io"), task, make.attempt()), make.fresh())
    assert not [record for record in verdict.records if isinstance(record, r.Obligation)]
