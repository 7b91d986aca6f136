"""Chapter 41, Attempts: attempt and owner operation, every cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocol3.core.acquisition import Assigned, judge
from protocol3.core.renewal import renew
from protocol3.core.settlement import confirm_quiescence, settle

LOST = ["ownership_lost"]


def columns(*expected: str) -> list[tuple[str, str]]:
    return list(zip("ABCDEFG", expected, strict=True))


@pytest.mark.parametrize(("column", "disposition"), columns("assigned", "assigned", *["lost"] * 5))
def test_repeated_acquisition(make, column, disposition):
    """DLV-013, DLV-014: the same sequence shows the attempt while it is live, and its loss from then on."""
    task, attempt = make.situation(column)
    verdict = judge(make.poll(sequence=4, task=task, attempt=attempt))
    assert verdict is not None
    if disposition == "assigned":
        assert isinstance(verdict.reply, Assigned)
    else:
        assert verdict.reply.to_json() == {
            "disposition": "ownership_lost",
            "sequence": 4,
            "assignment": {"task_id": "task", "attempt_id": "att"},
        }


@pytest.mark.parametrize(("column", "expected"), columns("busy", "busy", *["admitted"] * 5))
def test_next_acquisition(make, word, column, expected):
    """DLV-016, DLV-017: busy while live, also with an unconfirmed report; admitted once the time is over."""
    task, attempt = make.situation(column)
    assert word(judge(make.poll(sequence=5, task=task, attempt=attempt))) == expected


@pytest.mark.parametrize(("column", "expected"), columns("accepted", "accepted", *LOST * 5))
def test_next_renewal(make, word, column, expected):
    """DLV-054, DLV-063."""
    task, attempt = make.situation(column)
    verdict = renew(make.renewing(sequence=1, intent="dispatch", task=task, attempt=attempt))
    assert word(verdict) == expected
    if expected == "accepted":
        assert verdict.reply.dispatch_allowed is (column == "A")  # DLV-053


@pytest.mark.parametrize(("column", "expected"), columns("replay", "replay", *LOST * 5))
def test_repeated_renewal(make, word, column, expected):
    """DLV-054: liveness comes before the sequence, so a replay after expiry is refused."""
    task, attempt = make.situation(column)
    attempt = make.attempt(
        **{f: getattr(attempt, f) for f in ("state", "lease_expires_at", "settled_at", "verdict", "finished_at")},
        renew_sequence=1,
        renew_intent="keep_alive",
    )
    assert word(renew(make.renewing(sequence=1, task=task, attempt=attempt))) == expected


STORED = "BDEF"


@pytest.mark.parametrize(
    ("column", "expected"), columns("accepted", "replay", "ownership_lost", *["replay"] * 3, *LOST)
)
def test_settlement(make, word, column, expected):
    """DLV-075, DLV-077: a stored settlement replays in every column that has one; a first one needs a live attempt."""
    task, attempt = make.situation(column)
    command = make.command(quiescence="unconfirmed")
    verdict = settle(make.settling(command, task, attempt, stored=command if column in STORED else None), make.fresh())
    assert word(verdict) == expected
    if expected == "replay":
        assert verdict.reply.already_accepted is True
        assert verdict.reply.receipt.accepted_at == make.now - 5_000
        assert verdict.reply.task_state == task.state


@pytest.mark.parametrize(
    ("column", "expected"), columns("accepted", "conflict", "ownership_lost", *["conflict"] * 3, *LOST)
)
def test_different_settlement(make, word, column, expected):
    """DLV-076: the operation id differs."""
    task, attempt = make.situation(column)
    stored = make.command(quiescence="unconfirmed") if column in STORED else None
    command = make.command(quiescence="unconfirmed", operation_id="other")
    assert word(settle(make.settling(command, task, attempt, stored=stored), make.fresh())) == expected


@pytest.mark.parametrize("column", "ABCDEFG")
@pytest.mark.parametrize(
    "field",
    [
        *("event_id", "run_id", "attempt_no", "digest", "program_version", "traceparent", "tracestate"),
        *("workflow_id", "activation_id", "parent_workflow_id", "root_workflow_id"),
    ],
)
def test_settlement_of_another_identity(make, word, column, field):
    """DLV-078, DLV-079, DLV-335, DLV-355: a report that belongs to something else is a conflict in every column."""
    task, attempt = make.situation(column)
    command = make.command()
    changed = replace(command.report.identity, **{field: 9 if field == "attempt_no" else "other"})
    command = replace(command, report=replace(command.report, identity=changed))
    assert word(settle(make.settling(command, task, attempt), make.fresh())) == "conflict"


@pytest.mark.parametrize("field", ["workflow_id", "activation_id", "parent_workflow_id", "root_workflow_id"])
def test_settlement_that_lacks_what_the_event_has(make, word, field):
    """DLV-335: the reverse of an identity that the event lacks."""
    lineage = {"parent_workflow_id": "p", "root_workflow_id": "r"}
    task = make.task(workflow_id="wf", activation=True, **lineage)
    expected = replace(make.command().report.identity, workflow_id="wf", activation_id=task.id, **lineage)
    command = make.command()
    for given, verdict in ((expected, "accepted"), (replace(expected, **{field: None}), "conflict")):
        report = replace(command.report, identity=given)
        asked = replace(make.settling(command, task, make.attempt()), expected=expected)
        asked = replace(asked, command=replace(command, report=report))
        assert word(settle(asked, make.fresh())) == verdict


@pytest.mark.parametrize("column", "ABCDEFG")
@pytest.mark.parametrize("field", ["lease_id", "generation", "worker_session_id", "consumer_id"])
def test_settlement_by_another_owner(make, word, column, field):
    """DLV-336, step 3: before the report's identity, in every column (DLV-355)."""
    task, attempt = make.situation(column)
    owner = make.owner(**{field: 9 if field in ("generation", "consumer_id") else "other"})
    command = make.command(owner=owner)
    assert word(settle(make.settling(command, task, attempt), make.fresh())) == "ownership_lost"


@pytest.mark.parametrize("missing", ["task", "attempt"])
def test_settlement_of_nothing(make, word, missing):
    """DLV-336, step 2 (DLV-355)."""
    task = None if missing == "task" else make.task()
    assert word(settle(make.settling(make.command(), task, None), make.fresh())) == "not_found"
    assert word(confirm_quiescence(make.confirming(task, None), make.fresh())) == "not_found"


@pytest.mark.parametrize(
    ("column", "expected"),
    columns("invalid_input", "accepted", "ownership_lost", "ownership_lost", "replay", "ownership_lost", *LOST),
)
def test_quiescence_confirmation(make, word, column, expected):
    """DLV-100 to DLV-103."""
    task, attempt = make.situation(column)
    verdict = confirm_quiescence(make.confirming(task, attempt), make.fresh())
    assert word(verdict) == expected
    if expected in ("accepted", "replay"):
        assert verdict.reply == "succeeded"


@pytest.mark.parametrize("column", "CD")
def test_what_time_alone_took_is_decided_under_locks(make, column):
    """N2: a snapshot is older than the clock read with it, so a renewal may have come between."""
    task, attempt = make.situation(column)
    asked = make.renewing(sequence=1, task=task, attempt=attempt)
    refused = settle(make.settling(make.command(), task, attempt), make.fresh())
    for verdict in (renew(asked), refused, confirm_quiescence(make.confirming(task, attempt), make.fresh())):
        assert [guard.kind for guard in verdict.guards] == ["task"]
    lost = judge(make.poll(sequence=4, task=task, attempt=attempt))
    assert [(guard.kind, guard.seen) for guard in lost.guards] == [("task", True)]
