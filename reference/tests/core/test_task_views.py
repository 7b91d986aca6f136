"""What tasks and attempts look like from outside: every view is read back by the contract's own models."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol3.contract.limits import DATA_BYTES
from protocol3.contract.models.delivery import AttemptSnapshot, acquire_reply_from_json
from protocol3.contract.models.tasks import TaskResult, TaskSnapshot
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import decode, encode, same
from protocol3.core import task_views
from protocol3.core.acquisition import Assigned

TRACE = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "a=1"}


def test_snapshot_of_a_submitted_task(make):
    """TASK-051, TASK-213: exactly thirteen members, defaults written out, data as submitted."""
    body = make.body(data=b'{"b":1.0,"a":-0.0}', origin_trace=encode(TRACE))
    document = decode(task_views.snapshot(make.scope, make.queued(correlation_key=""), body))
    snapshot = TaskSnapshot.from_json(document)
    assert len(document) == 13
    assert document["input"] == {
        "tenant_id": "north",
        "namespace": "reports",
        "queue": "q",
        "program": {"id": "monthly", "version": "2"},
        "data": {"b": 1.0, "a": -0.0},
        "correlation_key": "",
        "retry_policy": {"max_attempts": 3, "retry_delay_ms": 5_000},
        "attempt_timeout_ms": 300_000,
    }
    assert same(document["input"]["data"], {"a": -0.0, "b": 1.0})
    assert snapshot.origin_trace.to_json() == TRACE
    assert snapshot.idempotency_key == "k"
    assert "correlation_key" not in decode(task_views.snapshot(make.scope, make.queued(), body))["input"]


def test_snapshot_of_an_owned_task(make):
    """ACT-007: lineage is shown; nobody submitted it, so its key is its own id."""
    task = make.queued(workflow_id="wf", activation=True, parent_workflow_id="p", root_workflow_id="r")
    snapshot = TaskSnapshot.from_json(decode(task_views.snapshot(make.scope, task, make.body(idempotency_key=None))))
    assert (snapshot.workflow_id, snapshot.workflow_activation_id) == ("wf", "task")
    assert (snapshot.parent_workflow_id, snapshot.root_workflow_id) == ("p", "r")
    assert snapshot.idempotency_key == "task"


@pytest.mark.parametrize("activation", [False, True])
def test_status_members(make, activation):
    """TASK-052, ACT-007: the workflow members only on owned tasks."""
    plain = task_views.status(make.scope, make.task()).to_json()
    assert "workflow_id" not in plain
    assert "workflow_activation_id" not in plain
    owned = task_views.status(make.scope, make.task(workflow_id="wf", activation=activation)).to_json()
    assert owned["workflow_id"] == "wf"
    assert ("workflow_activation_id" in owned) is activation


@pytest.mark.parametrize(
    "broken",
    [
        {"current_attempt_id": None},
        {"terminal_at": 5},
        {"state": "succeeded"},
        {"latest_attempt_id": "other"},
        {"attempt_count": 0},
    ],
)
def test_contradictory_records(make, broken):
    """TASK-128, HTTP-069: unavailable instead of a wrong answer."""
    with pytest.raises(Refusal) as refused:
        task_views.status(make.scope, make.task(**broken))
    assert refused.value.code == "unavailable"


def result(make, task, attempt=None, settlement=None):
    document = decode(task_views.result(make.scope, task, attempt, settlement))
    TaskResult.from_json(document)
    return document["outcome"]


def test_results_of_unfinished_tasks(make):
    """TASK-125, TASK-126, TASK-215: null while active or queued, whatever has been reported."""
    assert result(make, make.task(), *make.situation("B")[1:], make.stored(make.command())) is None
    assert result(make, make.queued(attempt_count=1, latest_attempt_id="att")) is None


def test_result_of_a_cancelled_task(make):
    """TASK-127, TASK-218: names no attempt and no output."""
    task = make.task(state="cancelled", current_attempt_id=None, terminal_at=make.now, cancel_requested_at=make.now)
    assert result(make, task, make.attempt(), make.stored(make.command())) == {"kind": "cancelled"}


@pytest.mark.parametrize("column", ["E", "F"])
def test_result_of_a_success(make, column):
    """TASK-062, TASK-065, DLV-114, TASK-216: quiescence comes from the attempt, not from the command."""
    task, attempt = make.situation(column)
    stored = make.stored(make.command(quiescence="unconfirmed"))
    assert result(make, task, attempt, stored) == {
        "kind": "succeeded",
        "attempt_id": "att",
        "quiescence": "confirmed" if column == "E" else "unconfirmed",
        "execution_may_have_started": True,
        "output": "done",
    }


def ended(make, **attempt):
    task = make.task(state="failed", current_attempt_id=None, terminal_at=make.now)
    return task, make.attempt(**{"state": "failed", "finished_at": make.now, **attempt})


def test_result_of_a_program_failure(make):
    """Chapter 06, Result, `application` (TASK-217, TASK-219)."""
    task, attempt = ended(make, verdict="application", settled_at=1, may_have_started=True)
    outcome = result(make, task, attempt, make.stored(make.command(outcome=make.program_failure())))
    assert outcome["failure"] == {"kind": "application", "error": {"kind": "k", "message": "m"}}


@pytest.mark.parametrize("cleanup", [None, {"kind": "io", "message": "x"}])
def test_result_of_an_execution_failure(make, cleanup):
    """DLV-089, TASK-217, TASK-220: error, phase and cleanup_error unchanged, the latter always there."""
    command = make.command(error="protocol")
    if cleanup is not None:
        error = replace(command.report.error, kind="io", message="x")
        command = replace(command, report=replace(command.report, cleanup_error=error))
    task, attempt = ended(make, verdict="permanent", settled_at=1)
    outcome = result(make, task, attempt, make.stored(command))
    assert outcome["failure"] == {
        "kind": "execution",
        "error": {"kind": "protocol", "message": "m"},
        "phase": "execution",
        "cleanup_error": cleanup,
    }
    assert outcome["execution_may_have_started"] is False


@pytest.mark.parametrize("started", [False, True])
def test_result_of_a_lost_attempt(make, started):
    """TASK-063, TASK-221."""
    task, attempt = ended(make, state="lost", may_have_started=started)
    outcome = result(make, task, attempt)
    assert outcome["failure"] == {"kind": "attempt_lost"}
    assert (outcome["quiescence"], outcome["execution_may_have_started"]) == ("unconfirmed", started)


@pytest.mark.parametrize("broken", ["no attempt", "no settlement", "other end", "other report"])
def test_result_of_contradictory_records(make, broken):
    """TASK-128."""
    task, attempt = make.situation("E")
    settlement = make.stored(make.command())
    given = {
        "no attempt": (None, None),
        "no settlement": (attempt, None),
        "other end": (replace(attempt, finished_at=1), settlement),
        "other report": (attempt, make.stored(make.command(error="io"))),
    }[broken]
    with pytest.raises(Refusal) as refused:
        task_views.result(make.scope, task, *given)
    assert refused.value.code == "unavailable"


def test_assignment(make):
    """DLV-040 to DLV-042, DLV-028: the model checks the relations; optional attributes are left out."""
    reply = Assigned(sequence=4, task=make.task(), attempt=make.attempt(), body=make.body(), now=make.now)
    document = decode(task_views.assigned(make.scope, reply))
    acquire_reply_from_json(document)
    assignment = document["assignment"]
    assert assignment["attempt_deadline"] == make.attempt().deadline
    assert "workflow_activation_id" not in assignment
    assert set(assignment["event"]) == {
        *("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"),
        *("ldgtenantid", "ldgnamespace", "ldgrunid", "ldgtaskid", "ldgattemptid", "ldgattemptno"),
    }


def test_assignment_of_an_activation(make):
    """ACT-004, ACT-010, DLV-044: lineage and trace attributes."""
    task = make.task(workflow_id="wf", activation=True, parent_workflow_id="p", root_workflow_id="r")
    body = make.body(origin_trace=encode(TRACE))
    document = decode(
        task_views.assigned(
            make.scope, Assigned(sequence=1, task=task, attempt=make.attempt(), body=body, now=make.now)
        )
    )
    acquire_reply_from_json(document)
    event = document["assignment"]["event"]
    assert document["assignment"]["workflow_activation_id"] == "task"
    assert {name: event[name] for name in TRACE} == TRACE
    assert [event[f"ldg{name}"] for name in ("workflowid", "activationid", "parentworkflowid", "rootworkflowid")] == [
        *("wf", "task", "p", "r")
    ]


def test_the_event_never_changes(make):
    """DLV-045, DLV-013: neither renewal, cancellation nor settlement; inspection shows the same."""
    later = make.attempt(renew_sequence=9, renew_intent="dispatch", lease_expires_at=1, settled_at=1, state="failed")
    first = task_views.event_without_data(make.scope, make.task(), make.attempt(), None)
    assert first == task_views.event_without_data(make.scope, make.task(cancel_requested_at=1), later, None)


def test_attempt_snapshots(make):
    """Chapter 06, Attempt: before any command, and after renewal and settlement."""
    fresh = decode(task_views.attempt_snapshot(make.scope, make.task(), make.attempt(), make.body(), None))
    AttemptSnapshot.from_json(fresh)
    assert (fresh["last_renewal"], fresh["settlement"], fresh["finished_at"]) == (None, None, None)
    task, attempt = make.situation("E")
    attempt = replace(attempt, renew_sequence=2, renew_intent="dispatch")
    command = make.command()
    seen = decode(task_views.attempt_snapshot(make.scope, task, attempt, make.body(), make.stored(command)))
    AttemptSnapshot.from_json(seen)
    assert seen["last_renewal"] == {"owner": make.owner().to_json(), "sequence": 2, "intent": "dispatch"}
    assert same(seen["settlement"]["command"], command.to_json())
    assert seen["settlement"]["receipt"]["accepted_at"] == make.now - 5_000


def test_largest_data_is_taken_over_as_it_is(make):
    """TASK-112: 1 MiB of data in snapshot and event."""
    data = encode("x" * (DATA_BYTES - 2))
    body = make.body(data=data)
    assert data in task_views.snapshot(make.scope, make.task(), body)
    reply = Assigned(sequence=1, task=make.task(), attempt=make.attempt(), body=body, now=make.now)
    assert data in task_views.assigned(make.scope, reply)
