"""Applying a decision: the order of the steps, the dispositions, the error kinds (chapter 12)."""

import pytest

from protocol3.contract.models.common import ApplicationError
from protocol3.contract.strict_json import decode
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Guard, ObligationWake, QueueWake, Replay
from protocol3.core.workflow.decision import decide_application


def test_continue_schedules_the_next_activation_in_the_same_step(make, written):
    """T3, WF-051, WF-054, ACT-002: revision + 1, a new activation of the same submission, its task and context.

    WF-065.
    """
    verdict = make.apply(make.decision("continue"))
    (workflow,), (activation,), (context,) = (
        written(verdict, kind) for kind in (r.Workflow, r.Activation, r.ActivationContext)
    )
    (task,), (body,) = written(verdict, r.Task), written(verdict, r.TaskBody)
    assert (workflow.state, workflow.revision, workflow.activation_id) == ("running", 4, task.id)
    assert (activation.task_id, activation.revision) == (task.id, 4)
    assert (context.continuation, context.state, context.inputs, context.wake) == ("next", b'{"batch":4}', b"{}", None)
    assert (task.queue, task.max_attempts, task.attempt_timeout_ms, task.correlation_key) == (
        "flows",
        4,
        120_000,
        "books",
    )
    assert (task.activation, task.workflow_id) == (True, "wf_1")
    assert (body.data, body.descriptor) == (b'{"month":3}', make.descriptor)
    assert QueueWake(scope_id=1, queue="flows") in verdict.wakes


def test_every_application_meets_its_obligation_under_the_workflow_guard(make):
    """DEC-003, DEC-004: one step changes the workflow and deletes the obligation."""
    verdict = make.apply(make.decision("continue"))
    assert set(verdict.guards) == {
        Guard(kind="workflow", id="wf_1", version=7),
        Guard(kind="obligation", id="obl_decision", version=0),
    }
    assert verdict.done == ("obl_decision",)


@pytest.mark.parametrize("stored", [None, 1])
def test_an_obligation_that_is_gone_or_taken_over_changes_nothing(make, stored):
    """RACE-05, RCV-003, RCV-004."""
    obligation = None if stored is None else make.obligation(version=stored)
    state = make.decision_state(obligation=obligation)
    judged = make.judged(make.decision("continue"))
    assert decide_application(state, make.obligation(), judged, make.fresh()) == Replay(reply=None)


@pytest.mark.parametrize("state", ["failing", "cancelling", "succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("kind", ["continue", "complete", "fail"])
def test_a_closed_workflow_discards_every_decision(make, state, kind):
    """DEC step 1, RACE-06, RACE-11, RCV-005, RCV-007: nothing but the obligation goes, and the drain looks again."""
    drain = make.obligation("drain", "wf_1")
    members = {"output": 1} if kind == "complete" else {"error": {"kind": "k", "message": "m"}}
    document = make.decision(kind, **({} if kind == "continue" else members))
    verdict = make.apply(document, workflow=make.workflow(state=state), drain=drain)
    assert verdict.records == ()
    assert verdict.done == ("obl_decision",)
    assert verdict.wakes == (ObligationWake(obligation=drain),)


def test_a_failed_activation_of_a_closed_workflow_is_ignored(make):
    """RACE-11, ACT-048: the step that looks at the state comes before the one that looks at the outcome."""
    state = make.decision_state(workflow=make.workflow(state="cancelling"))
    error = ApplicationError(kind="workflow_activation_failed", message="")
    verdict = decide_application(state, make.obligation(), error, make.fresh())
    assert isinstance(verdict, Accepted)
    assert verdict.records == ()


def test_the_outcome_of_an_earlier_activation_is_discarded(make):
    """ACT-009: only the current activation decides."""
    verdict = make.apply(make.decision("continue"), workflow=make.workflow(activation_id="task_b"))
    assert verdict.records == ()


def test_an_error_of_the_activation_fails_the_workflow_at_its_revision(make, written, failure):
    """T7, WF-052, DEC-040, DEC-041: revision and activation stay."""
    error = ApplicationError(kind="decision_invalid", message="no")
    verdict = decide_application(make.decision_state(), make.obligation(), error, make.fresh())
    assert failure(verdict) == "decision_invalid"
    (workflow,) = written(verdict, r.Workflow)
    assert (workflow.revision, workflow.activation_id) == (3, "task_a")


def test_a_decision_at_another_revision_is_rejected_for_good(make, failure):
    """DEC step 6, DEC-042, WF-051: the last revision that can be written is one like others."""
    for revision in (2, 4, 2**64 - 1):
        assert failure(make.apply(make.decision("continue") | {"revision": revision})) == "decision_application_failed"


def test_complete_ends_the_workflow(make, written):
    """T5, DEC-050: outcome, terminal time, no activation, inbox dropped (WF-065)."""
    verdict = make.apply(
        make.decision("complete", output={"total": 1.0}), workflow=make.workflow(inbox_count=2, inbox_bytes=99)
    )
    (workflow,), (outcome,) = written(verdict, r.Workflow), written(verdict, r.Outcome)
    assert (workflow.state, workflow.revision, workflow.activation_id) == ("succeeded", 4, None)
    assert (workflow.terminal_at, workflow.inbox_count, workflow.inbox_bytes) == (make.now, 0, 0)
    assert (outcome.kind, outcome.body) == ("succeeded", b'{"total":1.0}')
    assert written(verdict, r.Obligation) == []


def test_complete_of_an_owned_workflow_notes_its_end_for_the_owner(make, written):
    """DEC-050, RCV-001, CHD-031: one obligation of the owner in the same step; its row is not touched."""
    verdict = make.apply(
        make.decision("complete", output=None), workflow=make.workflow(parent_id="wf_0", root_id="wf_0", depth=1)
    )
    (note,) = written(verdict, r.Obligation)
    assert (note.kind, note.workflow_id, note.subject) == ("child", "wf_0", "wf_1")
    assert [w.id for w in written(verdict, r.Workflow)] == ["wf_1"]
    assert [g.id for g in verdict.guards if g.kind == "workflow"] == ["wf_1"]


@pytest.mark.parametrize("live", [{"live_tasks": 1}, {"live_workflows": 1}])
def test_complete_needs_everything_owned_to_have_ended(make, failure, live):
    """DEC step 7, DEC-043."""
    assert failure(make.apply(make.decision("complete", output=1), **live)) == "decision_application_failed"


def test_no_terminal_time_before_that_of_something_owned(make, written):
    """WF-055, DRN-006: a clock that ran back does not show."""
    verdict = make.apply(make.decision("complete", output=1), owned_end=make.now + 40)
    assert written(verdict, r.Workflow)[0].terminal_at == make.now + 40


def test_fail_keeps_the_given_error_and_counts_as_a_decision(make, written, failure):
    """T6, WF-052, DEC-051, DEC-052: revision + 1, the activation id stays, also with live work."""
    error = {"kind": "books_open", "message": "Batch 4"}
    verdict = make.apply(make.decision("fail", error=error), live_tasks=3)
    assert failure(verdict) == "books_open"
    (workflow,), (outcome,) = written(verdict, r.Workflow), written(verdict, r.Outcome)
    assert (workflow.revision, workflow.activation_id, workflow.terminal_at) == (4, "task_a", None)
    assert decode(outcome.body) == error


def test_suspend_on_live_children_waits(make, written):
    """T2, CHD-050: the checkpoint keeps what is awaited, no activation is left."""
    verdict = make.apply(
        make.decision("suspend", until=["a", "b"]),
        children={"a": make.child("a", ended=make.now - 5), "b": make.child("b")},
    )
    (workflow,), (checkpoint,) = written(verdict, r.Workflow), written(verdict, r.Checkpoint)
    assert (workflow.state, workflow.revision, workflow.activation_id, workflow.wait_key) == ("waiting", 4, None, None)
    assert (checkpoint.continuation, checkpoint.state, list(checkpoint.until)) == ("next", b'{"batch":4}', ["a", "b"])
    assert written(verdict, r.Task) == []


def test_suspend_on_ended_children_goes_on_at_once(make, written):
    """T3, WF-053, CHD-033, CHD-051: exactly the named results, consumed ones included; `waiting` never shows."""
    children = {
        "a": make.child("a", ended=make.now - 9),
        "b": make.child("b", ended=make.now - 5, delivered_in="task_0"),
    }
    verdict = make.apply(
        make.decision("suspend", until=["b", "a"]), children=children, results={"a": b'{"n":1}', "b": b'{"n":2}'}
    )
    (workflow,), (context,) = written(verdict, r.Workflow), written(verdict, r.ActivationContext)
    assert workflow.state == "running"
    assert context.inputs == b'{"b":{"n":2},"a":{"n":1}}'
    assert {c.key: c.delivered_in for c in written(verdict, r.Child)} == dict.fromkeys("ab", workflow.activation_id)


def test_an_empty_suspend_goes_on_with_no_inputs(make, written):
    """CHD-051, DEC-012: ended children that were not delivered yet stay so."""
    verdict = make.apply(make.decision("suspend", until=[]), pending=(make.child("a", ended=1),), results={"a": b"{}"})
    assert written(verdict, r.ActivationContext)[0].inputs == b"{}"
    assert written(verdict, r.Child) == []


def test_until_names_children_of_this_very_decision(make, written):
    """DEC-013, CHD-020."""
    verdict = make.apply(make.decision("suspend", commands=[make.command("a")], until=["a"]))
    assert written(verdict, r.Workflow)[0].state == "waiting"
    assert [child.key for child in written(verdict, r.Child)] == ["a"]


def test_until_of_an_unknown_key_creates_nothing(make, failure):
    """DEC-044, DEC-046: the command of the same decision leaves no trace."""
    verdict = make.apply(make.decision("suspend", commands=[make.command("a")], until=["a", "zz"]))
    assert failure(verdict) == "decision_application_failed"


def test_continue_delivers_what_ended_and_was_not_delivered(make, written):
    """CHD-052, CHD-053: in the order of the load; delivery is remembered with the activation."""
    pending = (make.child("b", ended=make.now - 9), make.child("a", ended=make.now - 3))
    verdict = make.apply(make.decision("continue"), pending=pending, results={"a": b"1", "b": b"2"})
    (workflow,), (context,) = written(verdict, r.Workflow), written(verdict, r.ActivationContext)
    assert context.inputs == b'{"b":2,"a":1}'
    assert {c.delivered_in for c in written(verdict, r.Child)} == {workflow.activation_id}


def test_no_activation_starts_before_a_child_it_was_given_ended(make, written):
    """WF-055."""
    pending = (make.child("a", ended=make.now + 70),)
    verdict = make.apply(make.decision("continue"), pending=pending, results={"a": b"1"})
    assert written(verdict, r.Task)[0].submitted_at == make.now + 70


@pytest.mark.parametrize(("size", "fits"), [(262_144, True), (262_145, False)])
def test_inputs_are_all_or_nothing(make, written, failure, size, fits):
    """CHD-056, LIM-013, LIM-020: one byte too much fails the workflow, and nothing is trimmed."""
    result = b'"' + b"x" * (size - len(b'{"a":""}')) + b'"'
    verdict = make.apply(make.decision("continue"), pending=(make.child("a", ended=1),), results={"a": result})
    if fits:
        assert len(written(verdict, r.ActivationContext)[0].inputs) == size
    else:
        assert failure(verdict) == "decision_application_failed"


def test_a_result_too_large_to_load_fails_like_one_that_was_loaded(make, failure):
    """CHD-056."""
    verdict = make.apply(make.decision("continue"), pending=(make.child("a", ended=1),), results={"a": None})
    assert failure(verdict) == "decision_application_failed"
