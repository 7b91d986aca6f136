"""External events: the order of the checks, receipts, the inbox (chapter 15)."""

import pytest

from protocol3.contract.models.workflows import EventCommand
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, ObligationWake, Rejected, Replay
from protocol3.core.workflow.events import EventState, decide_event


@pytest.fixture
def send(make):
    def _send(key="signal", event=None, **state):
        found = {"workflow": make.workflow(), "receipts": (), "wait": None, "clock": make.clock()} | state
        command = EventCommand(
            scope=make.scope, workflow_id="wf_1", key=key, event=make.event() if event is None else event
        )
        return decide_event(EventState(**found), command, make.fresh())

    return _send


def receipt(make, key="signal", event=None, accepted_at=77):
    """The stored receipt of an event under a key."""
    event = make.event() if event is None else event
    command = EventCommand(scope=make.scope, workflow_id="wf_1", key=key, event=event)
    return r.Inbox(
        workflow_id="wf_1",
        key=key,
        source=command.event_source,
        event_id=command.event_id,
        identity=command.identity(),
        size=command.event_size(),
        accepted_at=accepted_at,
    )


def code(verdict):
    assert isinstance(verdict, Rejected)
    return verdict.code


@pytest.mark.parametrize("workflow", [{"state": "running"}, {"state": "waiting", "wait_key": "other"}])
def test_an_event_is_buffered_before_its_wait(make, send, written, workflow):
    """EVT-001, EVT-015, EVT-016: the whole envelope, server time, nobody is woken."""
    verdict = send(workflow=make.workflow(**workflow))
    (inbox,), (body,), (changed,) = (written(verdict, kind) for kind in (r.Inbox, r.InboxBody, r.Workflow))
    assert (inbox.accepted_at, inbox.size) == (make.now, len(body.event))
    assert (changed.inbox_count, changed.inbox_bytes) == (1, len(body.event))
    assert (verdict.reply.accepted_at, verdict.reply.already_accepted) == (make.now, False)
    assert verdict.wakes == ()


def test_an_awaited_event_owes_a_wake_in_the_same_step(make, send, written):
    """EVT-011 step 7."""
    verdict = send(workflow=make.waiting(wait_key="signal"), wait=make.wait())
    (owed,) = written(verdict, r.Obligation)
    assert (owed.kind, owed.workflow_id, owed.subject) == ("wake", "wf_1", "signal")
    assert verdict.wakes == (ObligationWake(obligation=owed),)


def test_an_unknown_workflow(send):
    """EVT-011 step 2."""
    assert code(send(workflow=None)) == "not_found"


@pytest.mark.parametrize("state", ["running", "failing", "cancelled"])
def test_an_identical_event_replays_in_every_state(make, send, state):
    """EVT-012, EVT-019, WF-064: the same instant for good, even with a full inbox."""
    verdict = send(workflow=make.workflow(state=state, inbox_count=128), receipts=(receipt(make),))
    assert isinstance(verdict, Replay)
    assert (verdict.reply.accepted_at, verdict.reply.already_accepted) == (77, True)


@pytest.mark.parametrize("state", ["running", "succeeded"])
@pytest.mark.parametrize(
    "stored",
    [
        [("signal", {"data": 1})],
        [("signal", {"id": "e2"})],
        [("signal", {"data": 1.0})],
        [("other", {})],
        [("signal", {}), ("other", {})],
        [("signal", {"id": "e2"}), ("other", {})],
    ],
)
def test_anything_but_the_identical_event_is_a_conflict(make, send, state, stored):
    """EVT-010, EVT-013, EVT-014, RACE-18: before the state of the workflow counts."""
    receipts = tuple(receipt(make, key, make.event(**changes)) for key, changes in stored)
    assert code(send(workflow=make.workflow(state=state), receipts=receipts)) == "conflict"


@pytest.mark.parametrize("state", ["failing", "cancelling", "succeeded", "failed", "cancelled"])
def test_a_new_event_for_a_closed_workflow_is_obsolete(make, send, state):
    """EVT-011 step 4, EVT-013, EVT-021."""
    assert code(send(workflow=make.workflow(state=state))) == "obsolete_operation"


def test_a_key_of_a_timer_takes_no_event(make, send):
    """EVT-011 step 5, EVT-022, RACE-17: open or not."""
    waiting = make.waiting(wait_key="signal")
    assert code(send(workflow=waiting, wait=make.wait(kind="timer", deadline=make.now + 9))) == "obsolete_operation"


def test_a_closed_wait_takes_no_event(make, send):
    """EVT-011 step 5."""
    assert code(send(workflow=make.waiting(wait_key="later"), wait=make.wait())) == "obsolete_operation"


@pytest.mark.parametrize(("ahead", "accepted"), [(1, True), (0, False), (-1, False)])
def test_the_deadline_itself_is_too_late(make, send, ahead, accepted):
    """EVT-011 step 5, RACE-13, RACE-14: accepted strictly before, and only if the commit is before as well."""
    wait = make.wait(deadline=make.now + ahead)
    verdict = send(workflow=make.waiting(wait_key="signal"), wait=wait)
    if accepted:
        assert isinstance(verdict, Accepted)
        assert verdict.valid_until_real == make.now + ahead
    else:
        assert code(verdict) == "obsolete_operation"
        assert [(g.kind, g.seen) for g in verdict.guards] == [("workflow", True)]


def test_a_full_inbox_is_busy(make, send):
    """EVT-011 step 6, EVT-018, LIM-012, LIM-020: 128 pending events or 262144 bytes of them."""
    size = receipt(make).size
    assert isinstance(send(workflow=make.workflow(inbox_count=127, inbox_bytes=262_144 - size)), Accepted)
    assert code(send(workflow=make.workflow(inbox_count=128, inbox_bytes=0))) == "busy"
    assert code(send(workflow=make.workflow(inbox_count=0, inbox_bytes=262_144 - size + 1))) == "busy"


def test_a_closed_wait_counts_before_a_full_inbox(make, send):
    """EVT-011: step 5 before step 6."""
    assert code(send(workflow=make.workflow(inbox_count=128), wait=make.wait())) == "obsolete_operation"
