"""What makes two commands the same: submissions, children, forks, records, events, settlements."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef, Scope
from protocol3.contract.models.decisions import Suspend, decode_decision
from protocol3.contract.models.delivery import (
    AttemptSnapshot,
    CompletedReport,
    ReportIdentity,
    SettleCommand,
)
from protocol3.contract.models.tasks import SubmitInput
from protocol3.contract.models.workflows import EventCommand, ForkRequest, LocalRecord
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import same

SAMPLES = json.loads((Path(__file__).parent / "messages.json").read_text(encoding="utf-8"))
SCOPE = Scope(tenant_id="north", namespace="reports")
PROGRAM = ProgramRef(id="monthly", version="2.1.0")


def sample(name: str) -> Any:
    return copy.deepcopy(SAMPLES[name]["document"])


def refuse(read: Any, document: Any, place: str) -> None:
    with pytest.raises(Refusal, match=place):
        read(document)


@pytest.mark.parametrize(
    ("change", "same_identity"),
    [
        ({}, True),
        ({"correlation_key": None}, True),
        ({"retry_policy": {"retry_delay_ms": 5000, "max_attempts": 3}}, True),
        ({"attempt_timeout_ms": 300000}, True),
        ({"data": {"b": [1.0], "a": 1}}, True),
        ({"correlation_key": ""}, False),
        ({"data": {"a": 1.0, "b": [1.0]}}, False),
        ({"data": {"a": 1, "b": [1]}}, False),
        ({"data": {"a": True, "b": [1.0]}}, False),
        ({"queue": "other"}, False),
        ({"tenant_id": "other"}, False),
        ({"namespace": "other"}, False),
        ({"program": {"id": "monthly", "version": "2.1.1"}}, False),
        ({"retry_policy": {"max_attempts": 3, "retry_delay_ms": 5001}}, False),
        ({"attempt_timeout_ms": 300001}, False),
    ],
)
def test_submission_identity(change: dict[str, Any], same_identity: bool) -> None:
    """TASK-104…107, JSON-045."""
    base: dict[str, Any] = {
        **SCOPE.to_json(),
        "queue": "py",
        "program": PROGRAM.to_json(),
        "data": {"a": 1, "b": [1.0]},
    }
    assert (SubmitInput.from_json(base).identity() == SubmitInput.from_json(base | change).identity()) is same_identity


def test_negative_zero_is_another_submission() -> None:
    """TASK-107."""
    base = {**SCOPE.to_json(), "queue": "py", "program": PROGRAM.to_json()}
    zeros = [SubmitInput.from_json({**base, "data": zero}).identity() for zero in (0, 0.0, -0.0)]
    assert len(set(zeros)) == 3


def test_child_and_branch_submissions() -> None:
    """CHD-002, CHD-011, FRK-001, FRK-004: scope, correlation (and a branch's program) are the parent's."""
    decision = decode_decision(sample("decision-suspend"))
    assert isinstance(decision, Suspend)
    child = decision.checkpoint.commands[0].submission(scope=SCOPE, correlation_key="april")
    assert same(
        child.to_json(),
        {
            **SCOPE.to_json(),
            "queue": "flows",
            "program": PROGRAM.to_json(),
            "data": {"batch": 4},
            "correlation_key": "april",
            "retry_policy": {"max_attempts": 2, "retry_delay_ms": 0},
            "attempt_timeout_ms": 60000,
        },
    )
    branch = ForkRequest.from_json(sample("fork")["fork"]).branches[0]
    started = branch.submission(scope=SCOPE, program=PROGRAM, correlation_key=None)
    assert (started.queue, started.data, started.correlation_key) == ("py", {"v": 1}, None)


def test_fork_identity() -> None:
    """FRK-010 step 5: defaults filled in, branch order matters."""
    document = sample("fork")["fork"]
    first = ForkRequest.from_json(document)
    swapped = ForkRequest.from_json(document | {"branches": document["branches"][::-1]})
    assert first.identity() != swapped.identity()
    for branch in document["branches"]:
        del branch["retry_policy"], branch["attempt_timeout_ms"]
    short = ForkRequest.from_json(document)
    assert short.identity() != first.identity()
    assert short.identity() == ForkRequest.from_json(short.to_json()).identity()


def test_local_record_and_event_identity() -> None:
    """LOC-003, EVT-011."""
    record = sample("local-result")["record"]
    assert LocalRecord.from_json(record).identity() == LocalRecord.from_json(dict(reversed(record.items()))).identity()
    assert LocalRecord.from_json(record).identity() != LocalRecord.from_json(record | {"output": 1.08}).identity()
    event = sample("event")
    base = EventCommand.from_json(event)
    assert (base.event_id, base.event_source) == ("p-1", "/till/4")
    moved = EventCommand.from_json(event | {"key": "paid:2"})
    assert base.identity() != moved.identity()
    retyped = event | {"event": event["event"] | {"data": {"sum": 1}}}
    assert base.identity() != EventCommand.from_json(retyped).identity()


@pytest.mark.parametrize(
    ("path", "value", "same_identity"),
    [
        ("operation_id", "op-2", False),
        ("quiescence", "unconfirmed", False),
        ("processing_trace", None, False),
        ("report.report.elapsed_ms", 36, False),
        ("report.report.outcome.output", {"rows": 12.0}, False),
        ("report.report.unheard_of", 1, True),
    ],
)
def test_settlement_identity(path: str, value: Any, same_identity: bool) -> None:
    """DLV-073, DLV-076."""
    document = sample("settle-completed")
    base = SettleCommand.from_json(document).identity()
    *way, last = path.split(".")
    holder = document
    for step in way:
        holder = holder[step]
    holder[last] = value
    assert (SettleCommand.from_json(document).identity() == base) is same_identity


def test_absent_and_null_settlement_members_are_equal() -> None:
    """DLV-076, and the stored form: processing_trace always there, cleanup_error only when set."""
    document = sample("settle-failed")
    document["report"]["report"]["cleanup_error"] = document["processing_trace"] = None
    with_null = SettleCommand.from_json(document)
    del document["report"]["report"]["cleanup_error"], document["processing_trace"]
    without = SettleCommand.from_json(document)
    assert with_null.identity() == without.identity()
    stored = without.to_json()
    assert stored["processing_trace"] is None
    assert same(stored, with_null.to_json())
    assert "cleanup_error" not in str(stored)


def test_report_identity_of_an_event() -> None:
    """DLV-078, DLV-079: the event and descriptor say what a report must carry."""
    attempt = AttemptSnapshot.from_json(sample("attempt"))
    expected = ReportIdentity.of(attempt.event, attempt.descriptor)
    report = SettleCommand.from_json(sample("settle-completed")).report
    assert isinstance(report, CompletedReport)
    assert report.identity == expected
    bare = {name: value for name, value in attempt.event.items() if name not in ("traceparent", "tracestate")}
    assert report.identity != ReportIdentity.of(bare, attempt.descriptor)
    other = Descriptor(program=attempt.descriptor.program, digest="sha256:" + "0" * 64, size=1)
    assert report.identity != ReportIdentity.of(attempt.event, other)


def test_processing_trace_is_judged_later() -> None:
    """Chapter 07, Order of decision: its texts come after the ownership checks, its shape before."""
    document = sample("settle-completed")
    document["processing_trace"] = {"traceparent": "00-bad"}
    command = SettleCommand.from_json(document)
    with pytest.raises(Refusal, match=r"body\.processing_trace\.traceparent"):
        command.check_trace()
    document["processing_trace"] = {"traceparent": 1}
    refuse(SettleCommand.from_json, document, "processing_trace")
