"""Cancelling, failing, draining, the cutoff (chapters 09 and 17)."""

import pytest

from protocol3.contract.models.common import ApplicationError
from protocol3.core import records as r
from protocol3.core.obligations import DRAIN_PAUSE_MS
from protocol3.core.verdict import Accepted, Draft, Guard, Rejected, Replay
from protocol3.core.workflow.cancel import CancelState, decide_cancel
from protocol3.core.workflow.cutoff import CutoffState, decide_cutoff
from protocol3.core.workflow.drain import PASS_ITEMS, DrainItems, DrainState, decide_drain
from protocol3.core.workflow.ending import begin_failing, service_error

NOTHING = DrainItems(tasks=(), workflows=())


@pytest.fixture
def cancel(make):
    def _cancel(workflow):
        return decide_cancel(CancelState(scope=make.scope, workflow=workflow, clock=make.clock()), make.fresh())

    return _cancel


@pytest.fixture
def drain(make):
    def _drain(state="cancelling", **changes):
        held = make.obligation("drain", "wf_1")
        fields = {
            "obligation": held,
            "workflow": make.workflow(state=state),
            "items": NOTHING,
            "live": 0,
            "owned_end": make.now - 5,
            "clock": make.clock(),
        }
        return decide_drain(DrainState(**(fields | changes)), held, make.fresh())

    return _drain


@pytest.mark.parametrize(
    ("workflow", "activation"),
    [({}, "task_a"), ({"state": "waiting", "activation_id": None, "wait_key": "k"}, None)],
)
def test_cancel_closes_drops_and_owes_a_drain(make, cancel, written, workflow, activation):
    """T9, WF-031, WF-060, DRN-001: the reply shows cancelling, the activation id stays what it was (WF-065)."""
    verdict = cancel(make.workflow(**(workflow | {"inbox_count": 3, "inbox_bytes": 9})))
    (changed,), (outcome,), (owed,) = (written(verdict, kind) for kind in (r.Workflow, r.Outcome, r.Obligation))
    assert (changed.state, changed.revision, changed.activation_id) == ("cancelling", 3, activation)
    assert (changed.wait_key, changed.inbox_count, changed.inbox_bytes) == (None, 0, 0)
    assert (outcome.kind, outcome.body) == ("cancelled", None)
    assert owed.kind == "drain"
    assert verdict.unscheduled == ((("wait", "wf_1"),) if "wait_key" in workflow else ())
    assert (verdict.reply.state, verdict.reply.terminal_at) == ("cancelling", None)
    assert verdict.guards == (Guard(kind="workflow", id="wf_1", version=7),)


def test_cancel_of_a_failing_workflow_replaces_its_outcome(make, cancel, written):
    """T9, WF-061, RACE-10: the drain that runs already goes on."""
    verdict = cancel(make.workflow(state="failing"))
    assert written(verdict, r.Workflow)[0].state == "cancelling"
    assert written(verdict, r.Outcome)[0].kind == "cancelled"
    assert written(verdict, r.Obligation) == []


@pytest.mark.parametrize("state", ["cancelling", "succeeded", "failed", "cancelled"])
def test_cancel_changes_nothing_twice_or_too_late(make, cancel, state):
    """WF-050, WF-062, RACE-09, DRN-005."""
    ended = {} if state == "cancelling" else {"terminal_at": make.now, "activation_id": None}
    verdict = cancel(make.workflow(state=state, **ended))
    assert isinstance(verdict, Replay)
    assert verdict.reply.state == state


def test_cancel_of_an_unknown_workflow(cancel):
    """WF-063."""
    assert cancel(None) == Rejected(code="not_found")


def test_failing_closes_drops_and_owes_a_drain(make):
    """T8, DRN-001: out of an external wait."""
    draft = Draft()
    waiting = make.waiting(wait_key="k", inbox_count=1, inbox_bytes=5)
    workflow = begin_failing(
        draft, waiting, ApplicationError(kind="k", message=""), clock=make.clock(), fresh=make.fresh()
    )
    assert (workflow.state, workflow.wait_key, workflow.inbox_count, workflow.inbox_bytes) == ("failing", None, 0, 0)
    assert draft.unscheduled == [("wait", "wf_1")]
    assert [record.kind for record in draft.records if isinstance(record, r.Obligation)] == ["drain"]


def test_messages_of_the_service_keep_their_bound():
    """ERR-010: at most 4096 bytes, cut between characters."""
    error = service_error("decision_invalid", "é" * 3_000)
    assert error.message == "é" * 2_048


def test_a_pass_hands_out_items_before_anything_else(drain):
    """DRN-003, DRN-004, DRN-012: each item is asked in a transition of its own; the pass writes nothing."""
    items = DrainItems(tasks=("task_1",), workflows=("wf_2",))
    assert drain(items=items, live=2) == Replay(reply=items)
    assert PASS_ITEMS == 16


def test_live_work_makes_the_drain_look_again_later(make, drain, written):
    """DRN-006, DRN-012, DRN-013: the workflow stays as it is."""
    verdict = drain(live=1)
    (obligation,) = verdict.records
    assert obligation.ready_real == make.now + DRAIN_PAUSE_MS
    assert verdict.guards == (Guard(kind="obligation", id="obl_drain", version=0),)
    assert verdict.done == ()


@pytest.mark.parametrize(("state", "final"), [("cancelling", "cancelled"), ("failing", "failed")])
def test_the_last_pass_ends_the_workflow(make, drain, written, state, final):
    """T10, T11, DRN-006, WF-055: never before anything owned ended (WF-065)."""
    verdict = drain(state, owned_end=make.now + 30)
    (workflow,) = written(verdict, r.Workflow)
    assert (workflow.state, workflow.revision, workflow.activation_id) == (final, 3, None)
    assert workflow.terminal_at == make.now + 30
    assert verdict.done == ("obl_drain",)
    assert written(verdict, r.Outcome) == []


def test_the_end_of_an_owned_workflow_is_noted_for_its_owner(make, drain, written):
    """RCV-001, CHD-031, RACE-30: in the same step, and only once."""
    owned = make.workflow(state="cancelling", parent_id="wf_0", root_id="wf_0", depth=1)
    (note,) = written(drain(workflow=owned), r.Obligation)
    assert (note.kind, note.workflow_id, note.subject) == ("child", "wf_0", "wf_1")


def test_a_drain_of_an_ended_workflow_is_discarded(make, drain):
    """RCV-005, WF-050: nothing leaves a terminal state."""
    verdict = drain("failed", items=DrainItems(tasks=("t",), workflows=()))
    assert (verdict.records, verdict.done) == ((), ("obl_drain",))


@pytest.mark.parametrize("stored", [None, 3])
def test_a_stale_drain_changes_nothing(make, drain, stored):
    """RCV-003, RCV-004."""
    obligation = None if stored is None else make.obligation("drain", "wf_1", version=stored)
    assert drain(obligation=obligation) == Replay(reply=None)


DAY = 86_400_000


@pytest.mark.parametrize("kind", ["decision", "child"])
@pytest.mark.parametrize(("age", "gives_up"), [(DAY - 1, False), (DAY, True), (DAY + 1, True)])
def test_a_completion_is_given_up_after_a_day_of_scope_time(make, failure, kind, age, gives_up):
    """RCV-020, RCV-021, RACE-37: counted from its creation, only after a failed try."""
    held = make.obligation(kind, created_at=make.now - age)
    state = CutoffState(obligation=held, workflow=make.workflow(), clock=make.clock())
    verdict = decide_cutoff(state, held, make.fresh())
    if gives_up:
        assert failure(verdict) == "workflow_application_timeout"
        assert verdict.done == (held.id,)
    else:
        assert verdict == Replay(reply=None)


def test_a_waiting_workflow_is_given_up_as_well(make, failure):
    """T8, RCV-020."""
    held = make.obligation("child", created_at=make.now - DAY)
    state = CutoffState(obligation=held, workflow=make.waiting(), clock=make.clock())
    assert failure(decide_cutoff(state, held, make.fresh())) == "workflow_application_timeout"


@pytest.mark.parametrize("kind", ["wake", "drain"])
def test_waits_and_drains_never_age_out(make, kind):
    """RCV-023, TMR-023, DRN-010."""
    held = make.obligation(kind, created_at=make.now - 900 * DAY)
    state = CutoffState(obligation=held, workflow=make.workflow(), clock=make.clock())
    assert decide_cutoff(state, held, make.fresh()) == Replay(reply=None)


@pytest.mark.parametrize("state", ["failing", "cancelling", "succeeded"])
def test_a_closed_workflow_is_not_given_up_again(make, state):
    """WF-050, RCV-005."""
    held = make.obligation("decision", created_at=make.now - DAY)
    found = CutoffState(obligation=held, workflow=make.workflow(state=state), clock=make.clock())
    assert not isinstance(decide_cutoff(found, held, make.fresh()), Accepted)
