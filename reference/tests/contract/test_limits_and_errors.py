"""The data files and the code that reads them agree: bounds, error codes, vocabularies."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

import protocol3_spec
from protocol3.contract import limits, vocabulary
from protocol3.contract.refusal import Refusal, invalid

PAIRS = [
    ("invalid_input", 400, True),
    ("invalid_input", 413, True),
    ("invalid_input", 415, True),
    ("not_found", 404, False),
    ("unknown_session", 404, False),
    ("conflict", 409, False),
    ("ownership_lost", 409, False),
    ("obsolete_operation", 409, False),
    ("out_of_order", 409, False),
    ("busy", 409, False),
    ("external_dispatch_required", 409, False),
    ("session_expired", 410, False),
    ("invalid_queue_delivery", 502, True),
    ("unavailable", 503, True),
    ("route_not_found", 404, False),
    ("method_not_allowed", 405, False),
]
WORDS = {
    "task_state": vocabulary.TaskState,
    "attempt_state": vocabulary.AttemptState,
    "workflow_state": vocabulary.WorkflowState,
    "quiescence": vocabulary.Quiescence,
    "renewal_intent": vocabulary.RenewalIntent,
    "acquire_disposition": vocabulary.AcquireDisposition,
    "report_kind": vocabulary.ReportKind,
    "report_status": vocabulary.ReportStatus,
    "failure_kind": vocabulary.FailureKind,
    "error_kind": vocabulary.ErrorKind,
    "phase": vocabulary.Phase,
    "step_state": vocabulary.StepState,
    "history_reason": vocabulary.HistoryReason,
    "decision_kind": vocabulary.DecisionKind,
    "child_kind": vocabulary.ChildKind,
    "wait_kind": vocabulary.WaitKind,
    "wake_kind": vocabulary.WakeKind,
    "workflow_error_kind": vocabulary.WorkflowErrorKind,
}


def test_constants_and_data_name_the_same_bounds() -> None:
    constants = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert constants == {name: limit.value for name, limit in protocol3_spec.limits().items()}


def test_each_constant_reads_its_own_bound() -> None:
    source = Path(limits.__file__).read_text(encoding="utf-8")
    read = re.findall(r'^([A-Z][A-Z0-9_]*): Final\[int\] = _bound\("([A-Z0-9_]+)"\)$', source, re.MULTILINE)
    assert [name for name, _ in read] == [bound for _, bound in read] == list(protocol3_spec.limits())


@pytest.mark.parametrize("limit", protocol3_spec.limits().values(), ids=lambda limit: limit.name)
def test_every_bound_is_described(limit: protocol3_spec.Limit) -> None:
    assert type(limit.value) is int
    assert limit.unit
    assert limit.about
    assert limit.requirements
    assert all(re.fullmatch(r"[A-Z]{2,5}-\d{2,3}", requirement) for requirement in limit.requirements)


@pytest.mark.parametrize(("code", "status", "carries_message"), PAIRS)
def test_error_object(code: str, status: int, carries_message: bool) -> None:
    """HTTP-064, HTTP-066."""
    message = "why" if carries_message else None
    refusal = Refusal(code, message, status=status)
    assert (refusal.code, refusal.message, refusal.status) == (code, message, status)
    assert refusal.to_json() == ({"code": code, "message": "why"} if carries_message else {"code": code})
    with pytest.raises(ValueError):
        Refusal(code, None if carries_message else "why", status=status)


def test_error_table_is_complete() -> None:
    table = [
        (code, status, entry.message) for code, entry in protocol3_spec.errors().items() for status in entry.statuses
    ]
    assert table == PAIRS


@pytest.mark.parametrize(("code", "status"), [("conflict", 404), ("invalid_input", 500), ("unheard_of", 400)])
def test_only_listed_pairs_exist(code: str, status: int) -> None:
    with pytest.raises(ValueError):
        Refusal(code, "why" if code == "invalid_input" else None, status=status)


def test_message_is_cut() -> None:
    """HTTP-065."""
    assert Refusal("unavailable", "x" * 5000).message == "x" * limits.ERROR_MESSAGE_CHARS
    assert Refusal("unavailable", "").to_json() == {"code": "unavailable", "message": ""}


def test_invalid_names_the_place() -> None:
    assert invalid("body.input.data", "is missing").to_json() == {
        "code": "invalid_input",
        "message": "body.input.data: is missing",
    }


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    """JSON-083, WRK-064. The types hold the words of the data file, without those of the approval profile."""
    expected = [word for word in protocol3_spec.vocabularies()[name].values if word != "approval"]
    assert list(get_args(WORDS[name])) == expected
    reader: Any = getattr(vocabulary, name, None)
    if reader is not None:
        assert [reader(word, "at") for word in expected] == expected
        for wrong in [expected[0].upper(), "", f"{expected[0]} ", None, 1, [expected[0]]]:
            with pytest.raises(Refusal):
                reader(wrong, "at")


def test_named_subsets() -> None:
    words = protocol3_spec.vocabularies()
    assert set(words["task_state"].subsets["terminal"]) == vocabulary.TERMINAL
    assert set(words["workflow_state"].subsets["terminal"]) == vocabulary.TERMINAL
    assert set(words["error_kind"].subsets["retryable"]) == vocabulary.RETRYABLE


@pytest.mark.parametrize("machine", ["task", "workflow"])
def test_transitions_use_known_states_and_leave_no_terminal_one(machine: str) -> None:
    """WF-050, chapter 41."""
    states = protocol3_spec.vocabularies()[f"{machine}_state"]
    for transition in protocol3_spec.transitions(machine):
        assert transition.target in states.values
        assert transition.source is None or transition.source in states.values
        assert transition.source not in states.subsets["terminal"]
    assert {transition.target for transition in protocol3_spec.transitions(machine)} == set(states.values)
