"""Submission and what clients see of a workflow (chapter 09)."""

import pytest

from protocol3.contract.models.common import Descriptor, TraceContext
from protocol3.contract.models.tasks import SubmitCommand
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import decode, encode
from protocol3.core import records as r
from protocol3.core.verdict import Rejected, Replay
from protocol3.core.workflow.submission import SubmissionState, decide_replay, decide_submission
from protocol3.core.workflow.views import child_result, result_of, snapshot_of

TRACE = TraceContext(traceparent="00-11111111111111111111111111111111-2222222222222222-01")


@pytest.fixture
def submit(make):
    def _submit(input=None, *, trace=None, bound=None, workflow=None):
        command = SubmitCommand(idempotency_key="k", input=input or make.input(), origin_trace=trace)
        submission = None
        if bound is not None:
            submission = r.Submission(
                scope_id=1, space="workflow", key="k", subject_id="wf_1", identity=bound.identity()
            )
        state = SubmissionState(scope_id=1, submission=submission, workflow=workflow, clock=make.clock())
        descriptor = Descriptor.from_json(decode(make.descriptor))
        return decide_submission(
            state, command, command.input.identity(), encode(command.input.data), descriptor, make.fresh()
        )

    return _submit


def test_submission_creates_everything_in_one_step(make, submit, written):
    """T1, WF-010, WF-020, WF-021: a running root at revision 0 and its first activation, the key as the guard."""
    verdict = submit(trace=TRACE)
    (workflow,), (body,), (task,), (context,) = (
        written(verdict, kind) for kind in (r.Workflow, r.WorkflowBody, r.Task, r.ActivationContext)
    )
    assert (workflow.state, workflow.revision, workflow.activation_id, workflow.depth) == ("running", 0, task.id, 0)
    assert (body.descriptor, body.data, body.idempotency_key) == (make.descriptor, b'{"month":3}', "k")
    assert decode(body.origin_trace) == TRACE.to_json()
    assert (context.continuation, context.state, context.inputs, context.wake) == ("start", b"null", b"{}", None)
    (submission,) = written(verdict, r.Submission)
    assert (submission.space, submission.key, submission.subject_id) == ("workflow", "k", workflow.id)
    assert verdict.guards == ()
    snapshot = verdict.reply.to_json()
    assert "parent_workflow_id" not in snapshot
    assert snapshot["correlation_key"] == "books"


@pytest.mark.parametrize("ended", [False, True])
def test_an_identical_submission_gets_the_workflow_as_it_is_now(make, submit, ended):
    """WF-013, WF-014: another trace is no difference."""
    workflow = make.workflow()
    if ended:
        workflow = make.workflow(state="failed", activation_id=None, terminal_at=make.now)
    verdict = submit(bound=make.input(), workflow=workflow, trace=TRACE)
    assert isinstance(verdict, Replay)
    assert (verdict.reply.workflow_id, verdict.reply.state) == ("wf_1", workflow.state)


@pytest.mark.parametrize(
    "change",
    [{"queue": "q"}, {"data": {"month": 3.0}}, {"correlation_key": None}, {"attempt_timeout_ms": 120_001}],
)
def test_any_other_submission_under_the_key_is_a_conflict(make, submit, change):
    """WF-015, LIM-001."""
    assert submit(bound=make.input(**change), workflow=make.workflow()) == Rejected(code="conflict")


def test_a_free_key_is_no_replay(make):
    """WF-016: what is decided before the program store is asked."""
    state = SubmissionState(scope_id=1, submission=None, workflow=None, clock=make.clock())
    command = SubmitCommand(idempotency_key="k", input=make.input())
    assert decide_replay(state, command, command.input.identity()) is None


@pytest.mark.parametrize("state", ["failing", "cancelling"])
def test_an_intended_outcome_stays_hidden(make, state):
    """WF-040, DRN-013."""
    outcome = r.Outcome(workflow_id="wf_1", kind="failed", body=b'{"kind":"k","message":"m"}')
    assert decode(result_of(make.scope, make.workflow(state=state), outcome))["outcome"] is None


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("succeeded", b"null", {"kind": "succeeded", "output": None}),
        ("failed", b'{"kind":"k","message":"m"}', {"kind": "failed", "error": {"kind": "k", "message": "m"}}),
        ("cancelled", None, {"kind": "cancelled"}),
    ],
)
def test_results_of_ended_workflows(make, kind, body, shown):
    """WF-040, CHD-040, CHD-041, WF-066: a null output is no missing outcome; the owner sees the same object."""
    workflow = make.workflow(state=kind, activation_id=None, terminal_at=make.now)
    outcome = r.Outcome(workflow_id="wf_1", kind=kind, body=body)
    assert decode(result_of(make.scope, workflow, outcome))["outcome"] == shown
    assert decode(child_result(workflow, outcome)) == {
        "kind": "workflow",
        "workflow_id": "wf_1",
        "state": kind,
        "outcome": shown,
    }


def test_contradicting_records_are_never_an_answer(make):
    """WF-005, WF-030, WF-031."""
    for broken in ({"terminal_at": 5}, {"activation_id": None}, {"state": "succeeded"}):
        with pytest.raises(Refusal) as refused:
            snapshot_of(make.scope, make.workflow(**broken))
        assert refused.value.code == "unavailable"
    ended = make.workflow(state="failed", activation_id=None, terminal_at=make.now)
    with pytest.raises(Refusal):
        result_of(make.scope, ended, r.Outcome(workflow_id="wf_1", kind="cancelled", body=None))
