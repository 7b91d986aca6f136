"""Chapter 07: order of checks, acceptance, the stored form."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from protocol3.contract.limits import SETTLEMENT_BODY_BYTES
from protocol3.contract.models.common import TraceContext
from protocol3.contract.models.delivery import SettleCommand, Success
from protocol3.contract.strict_json import compact_size, decode, encode, same
from protocol3.core import records as r
from protocol3.core import settlement
from protocol3.core.settlement import EncodedCommand, confirm_quiescence, settle, whole_command

BAD_TRACE = TraceContext(traceparent="00-zz", tracestate=None)


def test_order_of_checks():
    """DLV-336 from step 2, and DLV-342."""
    assert [check.__name__ for check in settlement.SETTLE_CHECKS] == [
        "_found",
        "_owner",
        "_trace",
        "_report",
        "_size",
        "_replay",
        "_settle_live",
    ]
    assert [check.__name__ for check in settlement.CONFIRM_CHECKS] == [
        "_confirm_found",
        "_confirm_owner",
        "_already_confirmed",
        "_confirm_live",
        "_reported",
    ]


def test_trace_is_judged_after_the_owner_and_before_the_report(make, word):
    """Chapter 07, Order of decision, steps 3 and 4."""
    command = make.command(processing_trace=BAD_TRACE)
    stranger = replace(command, owner=make.owner(lease_id="other"))
    wrong = replace(command, report=replace(command.report, identity=replace(command.report.identity, run_id="other")))
    for asked, expected in ((stranger, "ownership_lost"), (wrong, "invalid_input"), (command, "invalid_input")):
        assert word(settle(make.settling(asked, make.task(), make.attempt()), make.fresh())) == expected


@pytest.mark.parametrize(("extra", "expected"), [(0, "accepted"), (1, "invalid_input")])
def test_size_of_the_compact_command(make, word, extra, expected):
    """Chapter 07, Order of decision, step 5: at most 8 MiB, an absent trace not counted."""
    empty = make.command(outcome=Success(output=""))
    spelled = empty.to_json()
    del spelled["processing_trace"]
    room = SETTLEMENT_BODY_BYTES - compact_size(spelled)
    command = make.command(outcome=Success(output="x" * (room + extra)))
    assert word(settle(make.settling(command, make.task(), make.attempt()), make.fresh())) == expected


def test_size_comes_before_the_stored_settlement(make, word):
    """Chapter 07, Order of decision: step 5 before step 6."""
    command = make.command(outcome=Success(output="x" * SETTLEMENT_BODY_BYTES))
    task, attempt = make.situation("E")
    asked = make.settling(command, task, attempt, stored=make.command())
    assert word(settle(asked, make.fresh())) == "invalid_input"


@pytest.mark.parametrize("output", [None, 1, 1.0, -0.0, [], {"output": None, "b": '"output":null'}, "\u2028é"])
def test_stored_command_is_the_command(make, output):
    """DLV-083, DLV-086: kept in two parts, joined without loss; identity as of the whole."""
    command = make.command(outcome=Success(output=output), operation_id='","output":null')
    stored = make.stored(command)
    assert stored.output == encode(output)
    assert same(decode(whole_command(stored)), command.to_json())
    assert SettleCommand.from_json(decode(whole_command(stored))).identity() == stored.identity
    size = compact_size(command.to_json()) - len(',"processing_trace":null')
    assert EncodedCommand.of(command).size == size


def test_an_output_is_encoded_twice_at_most(make, monkeypatch):
    """Its compact form is stored and measured, its canonical form identifies; 8 MiB allow no more (JSON-067)."""
    document = make.command(outcome=Success(output=["MARK", 1e-7])).to_json()
    encoded = []
    whole = json.JSONEncoder.encode

    def counted(encoder, value):
        encoded.append(whole(encoder, value))
        return encoded[-1]

    monkeypatch.setattr(json.JSONEncoder, "encode", counted)
    command = SettleCommand.from_json(document)
    verdict = settle(make.settling(command, make.task(), make.attempt()), make.fresh())
    assert any(isinstance(record, r.Settlement) for record in verdict.records)
    assert sum("MARK" in text for text in encoded) == 2


@pytest.mark.parametrize("changes", [{"error": "io"}, {"outcome": "program"}])
def test_a_command_without_output_is_stored_whole(make, changes):
    """DLV-083."""
    if "outcome" in changes:
        changes = {"outcome": make.program_failure()}
    command = make.command(**changes)
    stored = make.stored(command)
    assert stored.output is None
    assert whole_command(stored) == encode(command.to_json())


@pytest.mark.parametrize(("before", "flag", "after"), [(False, False, False), (False, True, True), (True, False, True)])
def test_a_failed_report_ors_its_flag(make, written, before, flag, after):
    """DLV-081, DLV-062."""
    command = make.command(error="protocol")
    command = replace(command, report=replace(command.report, execution_may_have_started=flag))
    verdict = settle(make.settling(command, make.task(), make.attempt(may_have_started=before)), make.fresh())
    assert written(verdict, r.Attempt).may_have_started is after


def test_a_completed_report_says_that_it_ran(make, written):
    """DLV-081: without any dispatch renewal."""
    verdict = settle(make.settling(make.command(), make.task(), make.attempt()), make.fresh())
    assert written(verdict, r.Attempt).may_have_started is True


def test_unconfirmed_acceptance(make, written, reasons):
    """DLV-084: everything stays active."""
    verdict = settle(make.settling(make.command(quiescence="unconfirmed"), make.task(), make.attempt()), make.fresh())
    task, attempt = written(verdict, r.Task), written(verdict, r.Attempt)
    assert (task.state, task.current_attempt_id, task.terminal_at) == ("active", "att", None)
    assert (attempt.state, attempt.finished_at, attempt.quiescence) == ("active", None, "unconfirmed")
    assert (attempt.verdict, attempt.settled_at) == ("success", make.now)
    assert reasons(verdict) == ["report_accepted"]
    assert verdict.reply.task_state == "active"
    assert verdict.unscheduled == ()


def test_confirmed_acceptance(make, written, reasons):
    """DLV-083, TASK-233: one transaction, one instant, one receipt."""
    verdict = settle(make.settling(make.command(), make.task(), make.attempt()), make.fresh())
    assert reasons(verdict) == ["report_accepted", "succeeded"]
    assert written(verdict, r.Task).terminal_at == written(verdict, r.Attempt).finished_at == make.now  # TASK-129
    assert verdict.reply.to_json() == {
        "receipt": {"operation_id": "op", "task_id": "task", "attempt_id": "att", "accepted_at": make.now},
        "already_accepted": False,
        "task_state": "succeeded",
    }
    assert verdict.valid_until_real == make.attempt().lease_expires_at


def test_settlement_asks_no_session(make):
    """DLV-080: only the task is guarded."""
    verdict = settle(make.settling(make.command(), make.task(), make.attempt()), make.fresh())
    assert [(guard.kind, guard.seen) for guard in verdict.guards] == [("task", False)]


@pytest.mark.parametrize(
    "changed",
    [
        {"quiescence": "unconfirmed"},
        {"operation_id": "other"},
        {"outcome": Success(output=1)},
        {"outcome": Success(output=-0.0)},
        {"processing_trace": TraceContext(traceparent=f"00-{'1' * 32}-{'2' * 16}-01")},
    ],
)
def test_any_difference_is_a_conflict(make, word, changed):
    """DLV-076."""
    task, attempt = make.situation("E")
    stored = make.command(outcome=Success(output=1.0))
    command = make.command(**{"outcome": Success(output=1.0), **changed})
    assert word(settle(make.settling(command, task, attempt, stored=stored), make.fresh())) == "conflict"


def test_time_never_runs_behind_what_is_recorded(make, written):
    """A clock that was set back: the instants of a task stay in order."""
    attempt = make.attempt(claimed_at=make.now + 40)
    verdict = settle(make.settling(make.command(), make.task(), attempt), make.fresh())
    assert written(verdict, r.Attempt).settled_at == make.now + 40


def test_confirmation_keeps_the_command(make):
    """DLV-104."""
    verdict = confirm_quiescence(make.confirming(*make.situation("B")), make.fresh())
    assert not [record for record in verdict.records if isinstance(record, r.Settlement)]
