"""What an ended activation asks for: steps 2 to 5 and chapter 10, How an activation ends."""

import pytest

from protocol3.contract.models.common import ApplicationError, ProgramRef
from protocol3.contract.models.decisions import Continue
from protocol3.contract.strict_json import compact_size, decode, encode
from protocol3.core import records as r
from protocol3.core.workflow.inputs import task_result
from protocol3.core.workflow.judgement import Registered, judge, processing_trace, programs_to_resolve

TRACE = {"traceparent": "00-11111111111111111111111111111111-2222222222222222-01"}
OWNER = {
    "scope": {"tenant_id": "north", "namespace": "ledger"},
    "task_id": "task_a",
    "attempt_id": "att_1",
    "lease_id": "lease_1",
    "generation": 1,
    "worker_session_id": "ws_1",
    "consumer_id": 0,
}
IDENTITY = {
    "source": "urn:ledgence:orchestrator",
    "event_id": "evt_1",
    "tenant_id": "north",
    "namespace": "ledger",
    "run_id": "run_a",
    "task_id": "task_a",
    "attempt_id": "att_1",
    "attempt_no": 1,
    "workflow_id": "wf_1",
    "activation_id": "task_a",
    "program": {"id": "close-books", "version": "2.0.1"},
    "digest": "sha256:" + "0" * 64,
}
RAN = {"process_id": 1, "reused_process": False, "elapsed_ms": 5}


def command(report, kind="completed", **members):
    return {
        "owner": OWNER,
        "operation_id": "op",
        "quiescence": "confirmed",
        "report": {"kind": kind, "report": IDENTITY | report},
    } | members


@pytest.fixture
def ended(make):
    """Task, attempt and settlement of an activation that ended."""

    def _ended(state, verdict=None, report=None, output=None, kind="completed", **members):
        attempt_state = {"succeeded": "succeeded", "failed": "lost" if report is None else "failed"}
        task = make.task(state=state, current_attempt_id=None, terminal_at=make.now)
        attempt = make.attempt(
            state=attempt_state.get(state, "cancelled"),
            verdict=verdict,
            finished_at=make.now,
            quiescence="unconfirmed" if report is None else "confirmed",
        )
        settlement = None
        if report is not None:
            settlement = r.Settlement(
                attempt_id="att_1",
                operation_id="op",
                command=encode(command(report, kind, **members)),
                output=output,
                identity=b"",
                accepted_at=make.now,
            )
        return task, attempt, settlement

    return _ended


@pytest.fixture
def succeeded(ended):
    def _succeeded(output, **members):
        report = RAN | {"outcome": {"status": "success", "output": None}}
        return ended("succeeded", "success", report, encode(output), **members)

    return _succeeded


def test_a_success_is_read_as_a_decision(make, succeeded):
    """DEC-001, DEC-003, ACT-044."""
    decision = judge(*succeeded(make.decision("continue")))
    assert isinstance(decision, Continue)
    assert decision.checkpoint.continuation == "next"


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": 1.0},
        {"kind": "pause"},
        {"commands": None},
        {"extra": 1},
        {"state": "x" * 65_535},
        {"continuation": ""},
        {"revision": 3.0},
        {"activation_id": "task_b"},
    ],
)
def test_a_document_that_is_no_decision_of_this_activation(make, succeeded, change):
    """DEC steps 3 and 4, DEC-011, DEC-040."""
    error = judge(*succeeded(make.decision("continue") | change))
    assert isinstance(error, ApplicationError)
    assert error.kind == "decision_invalid"


@pytest.mark.parametrize("output", [None, [], "continue", {"v": 1}])
def test_the_output_of_a_program_that_is_no_controller(succeeded, output):
    """WF-019."""
    error = judge(*succeeded(output))
    assert isinstance(error, ApplicationError)
    assert error.kind == "decision_invalid"


def test_waits_for_approval_are_not_offered(make, succeeded):
    """Chapter 30: without the profile such a decision is invalid (APR-065)."""
    wait = {"kind": "approval", "key": "a", "action": {"name": "pay", "version": "1", "arguments": {}}, "timeout_ms": 5}
    error = judge(*succeeded(make.decision("wait", wait=wait)))
    assert isinstance(error, ApplicationError)
    assert error.kind == "decision_invalid"


@pytest.mark.parametrize(("more", "valid"), [(0, True), (1, False)])
def test_a_decision_has_a_bound(make, succeeded, more, valid):
    """DEC-010, DEC-015, LIM-020."""
    frame = compact_size(make.decision("complete", output=""))
    judged = judge(*succeeded(make.decision("complete", output="x" * (262_144 - frame + more))))
    assert isinstance(judged, ApplicationError) != valid


def test_an_application_failure_passes_through(ended):
    """ACT-042, ACT-045, ERR-010."""
    report = RAN | {"outcome": {"status": "failure", "kind": "books_open", "message": "row 7"}}
    assert judge(*ended("failed", "application", report)) == ApplicationError(kind="books_open", message="row 7")


@pytest.mark.parametrize(("kind", "message"), [("", "m"), ("k" * 129, "m"), ("a\nb", "m"), ("k", "m" * 4_097)])
def test_an_application_failure_that_does_not_fit_fails_all_the_same(ended, kind, message):
    """ACT-042."""
    report = RAN | {"outcome": {"status": "failure", "kind": kind, "message": message}}
    error = judge(*ended("failed", "application", report))
    assert isinstance(error, ApplicationError)
    assert error.kind == "decision_application_failed"


def test_any_other_failure_of_an_activation(ended):
    """ACT-041, ACT-046: exhausted or permanent execution failures, lost attempts."""
    report = {"error": {"kind": "runtime", "message": "boom"}, "phase": "execution", "execution_may_have_started": True}
    for failed in (ended("failed", "retryable", report, kind="failed"), ended("failed")):
        error = judge(*failed)
        assert isinstance(error, ApplicationError)
        assert error.kind == "workflow_activation_failed"


def test_an_activation_cancelled_on_its_own(ended):
    """ACT-047, RACE-38."""
    error = judge(*ended("cancelled"))
    assert isinstance(error, ApplicationError)
    assert error.kind == "workflow_activation_cancelled"


def test_the_trace_of_a_report(succeeded):
    """CHD-003."""
    assert decode(processing_trace(succeeded(1, processing_trace=TRACE)[2])) == TRACE
    assert processing_trace(succeeded(1)[2]) is None
    assert processing_trace(succeeded(1, processing_trace=None)[2]) is None


@pytest.fixture
def staged(make, succeeded):
    def _staged(*commands):
        decision = judge(*succeeded(make.decision("continue", commands=list(commands))))
        assert isinstance(decision, Continue)
        return decision

    return _staged


@pytest.mark.parametrize("change", [{"kind": None}, {"kind": "process"}, {"extra": 1}, {"attempt_timeout_ms": 59_999}])
def test_a_command_of_another_shape_makes_the_decision_invalid(make, succeeded, change):
    """CHD-001, DEC-011, CHD-059."""
    error = judge(*succeeded(make.decision("continue", commands=[make.command("a"), make.command("b", **change)])))
    assert isinstance(error, ApplicationError)
    assert error.kind == "decision_invalid"


def program(id, version="1"):
    return {"id": id, "version": version}


def test_each_new_program_is_resolved_once_in_order(make, staged):
    """DEC-021."""
    decision = staged(
        make.command("a", program=program("x")),
        make.command("b", program=program("y")),
        make.command("c", program=program("x"), kind="workflow"),
        make.command("d", program=program("x", "2")),
    )
    wanted = programs_to_resolve(decision, {})
    assert wanted == (ProgramRef(id="x", version="1"), ProgramRef(id="y", version="1"), ProgramRef(id="x", version="2"))


def test_registered_keys_need_no_resolution(make, staged):
    """DEC-022, CHD-011."""
    registered = {"a": Registered(kind="task", program=ProgramRef(id="rates", version="1"))}
    assert programs_to_resolve(staged(make.command("a")), registered) == ()


@pytest.mark.parametrize(("kind", "id"), [("workflow", "rates"), ("task", "other")])
def test_a_key_of_another_kind_or_program_is_found_before_resolution(make, staged, kind, id):
    """DEC step 5, CHD-012."""
    registered = {"a": Registered(kind=kind, program=ProgramRef(id=id, version="1"))}
    error = programs_to_resolve(staged(make.command("b"), make.command("a")), registered)
    assert isinstance(error, ApplicationError)
    assert error.kind == "decision_invalid"


def test_terminal_decisions_run_nothing(make, succeeded):
    """DEC-014."""
    decision = judge(*succeeded(make.decision("complete", output=1)))
    assert not isinstance(decision, ApplicationError)
    assert programs_to_resolve(decision, {}) == ()


def test_results_of_task_children(ended, succeeded):
    """CHD-040, CHD-041, CHD-042: exact members, numeric classes kept."""
    assert task_result(*succeeded([1, 1.0, -0.0])) == (
        b'{"task_id":"task_a","state":"succeeded","outcome":{"kind":"succeeded","attempt_id":"att_1",'
        b'"quiescence":"confirmed","execution_may_have_started":true,"output":[1,1.0,-0.0]}}'
    )
    lost = decode(task_result(*ended("failed")))
    assert lost["outcome"]["failure"] == {"kind": "attempt_lost"}
    assert decode(task_result(*ended("cancelled")))["outcome"] == {"kind": "cancelled"}
