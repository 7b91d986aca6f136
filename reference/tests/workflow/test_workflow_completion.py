"""Children that ended: the end of a suspend, retained results (chapter 13)."""

from dataclasses import replace

import pytest

from protocol3.core import records as r
from protocol3.core.verdict import Guard, ObligationWake, Replay
from protocol3.core.workflow.completion import decide_child_ended


@pytest.fixture
def child_ended(make):
    def _child_ended(*held, **changes):
        held = held or (make.obligation("child", "child_a"),)
        return decide_child_ended(make.child_state(**changes), held, make.fresh())

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
    verdict = child_ended(live=True, body=None, checkpoint=None, awaited=(), results={})
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
    obligations = () if stored is None else (make.obligation("child", "child_a", version=stored),)
    assert child_ended(obligations=obligations) == Replay(reply=None)


@pytest.fixture
def ends(make):
    """Obligations of three children that ended."""
    return tuple(make.obligation("child", f"child_{key}", id=f"obl_{key}") for key in "abc")


@pytest.mark.parametrize(
    "situation",
    [
        {},
        {"live": True, "body": None, "checkpoint": None, "awaited": (), "results": {}},
        {"results": {"a": None}},
    ],
    ids=["resumes", "waits on", "fails"],
)
def test_ends_met_together_do_what_one_of_them_does(make, child_ended, ends, situation):
    """CHD-057, RACE-02: one new activation at most; each end is met under its own version."""
    alone, together = (child_ended(*held, obligations=ends, **situation) for held in (ends[:1], ends))
    assert together.records == alone.records
    assert together.wakes == alone.wakes
    assert together.done == ("obl_a", "obl_b", "obl_c")
    assert {(g.kind, g.id, g.version) for g in together.guards} == {
        ("workflow", "wf_1", 7),
        *(("obligation", end.id, 0) for end in ends),
    }


@pytest.mark.parametrize("state", ["running", "failing"])
def test_of_ends_met_together_only_those_still_held_are_met(make, child_ended, ends, state):
    """RCV-003, RCV-004: another process met the first and took over the second."""
    stored = (replace(ends[1], version=1), ends[2])
    verdict = child_ended(*ends, obligations=stored, workflow=make.workflow(state=state), awaited=())
    assert verdict.done == ("obl_c",)
    assert [g.id for g in verdict.guards if g.kind == "obligation"] == ["obl_c"]


def test_ends_met_together_leave_a_closed_workflow_closed(make, child_ended, ends):
    """DRN-002, DRN-014, RCV-005: the drain looks once for all."""
    drain = make.obligation("drain", "wf_1")
    verdict = child_ended(*ends, obligations=ends, workflow=make.workflow(state="cancelling"), drain=drain)
    assert verdict.records == ()
    assert verdict.done == ("obl_a", "obl_b", "obl_c")
    assert verdict.wakes == (ObligationWake(obligation=drain),)
