"""Children that ended: the end of a suspend, retained results (chapter 13)."""

import pytest

from protocol3.core import records as r
from protocol3.core.verdict import Guard, ObligationWake, Replay
from protocol3.core.workflow.completion import decide_child_ended


@pytest.fixture
def child_ended(make):
    def _child_ended(**changes):
        return decide_child_ended(make.child_state(**changes), make.obligation("child", "child_a"), make.fresh())

    return _child_ended


def test_the_last_member_resumes_with_all_results(make, child_ended, written):
    """T4, CHD-050, RACE-02: revision unchanged, all results in the order of `until`."""
    awaited = (make.child("b", ended=make.now - 9, delivered_in="task_0"), make.child("a", ended=make.now - 5))
    verdict = child_ended(awaited=awaited, results={"a": b"1", "b": b"2"})
    (workflow,), (context,) = written(verdict, r.Workflow), written(verdict, r.ActivationContext)
    assert (workflow.state, workflow.revision) == ("running", 3)
    assert (context.continuation, context.state, context.inputs) == ("next", b'{"batch":4}', b'{"b":2,"a":1}')
    assert {child.delivered_in for child in written(verdict, r.Child)} == {workflow.activation_id}
    assert verdict.done == ("obl_child",)


def test_a_member_that_has_not_ended_keeps_the_wait(make, child_ended, written):
    """CHD-050, FRK-020: no fail-fast, whatever the ended one ended with."""
    verdict = child_ended(awaited=(make.child("a", ended=1), make.child("b")), results={})
    assert [type(record) for record in verdict.records] == [r.Workflow]
    assert written(verdict, r.Workflow)[0].state == "waiting"


@pytest.mark.parametrize("workflow", [{}, {"state": "waiting", "activation_id": None, "wait_key": "signal"}])
def test_an_end_that_nobody_awaits_is_retained(make, child_ended, workflow):
    """CHD-034, CHD-055, RACE-03, RACE-21: neither state nor revision, but the version moves on.

    A decision that read the child as live is made again, or it would wait for an end that came already (RACE-01).
    """
    before = make.workflow(**workflow)
    verdict = child_ended(workflow=before, awaited=())
    assert verdict.records == (before,)
    assert Guard(kind="workflow", id="wf_1", version=7) in verdict.guards


@pytest.mark.parametrize("state", ["failing", "cancelling", "succeeded", "failed", "cancelled"])
def test_an_end_never_revives_a_closed_workflow(make, child_ended, state):
    """DRN-002, DRN-014, RCV-005: it only lets the drain look at once."""
    drain = make.obligation("drain", "wf_1")
    verdict = child_ended(workflow=make.workflow(state=state), drain=drain)
    assert verdict.records == ()
    assert verdict.done == ("obl_child",)
    assert verdict.wakes == (ObligationWake(obligation=drain),)


def test_oversized_results_fail_the_waiting_workflow(make, child_ended, written, failure):
    """T8, CHD-056, WF-031: nothing is trimmed, no activation id, the obligation is met."""
    verdict = child_ended(results={"a": None})
    assert failure(verdict) == "decision_application_failed"
    assert written(verdict, r.Workflow)[0].activation_id is None
    assert verdict.done == ("obl_child",)


def test_a_resumption_is_not_earlier_than_the_ends_it_delivers(make, child_ended, written):
    """WF-055."""
    verdict = child_ended(awaited=(make.child("a", ended=make.now + 20),))
    assert written(verdict, r.Task)[0].submitted_at == make.now + 20


@pytest.mark.parametrize("stored", [None, 2])
def test_a_repeated_completion_changes_nothing(make, child_ended, stored):
    """CHD-032, RCV-003, RCV-004."""
    obligation = None if stored is None else make.obligation("child", "child_a", version=stored)
    assert child_ended(obligation=obligation) == Replay(reply=None)
