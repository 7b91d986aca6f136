"""External waits: installing, the selection of the wake, resuming once (chapter 16)."""

import pytest

from protocol3.contract.limits import EVENT_BYTES, INPUTS_BYTES, MAX_TIMESTAMP_MS
from protocol3.contract.strict_json import decode
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, AgendaWake, Guard, QueueWake, Replay
from protocol3.core.workflow.completion import all_of, decide_wait
from protocol3.core.workflow.waits import over


def wait(make, **members):
    return make.decision("wait", wait={"key": "signal", **members})


def event(make, timeout_ms):
    return wait(make, kind="event", timeout_ms=timeout_ms)


def test_an_event_wait_is_installed_with_its_deadline(make, written):
    """T2, TMR-002, TMR-006, DEC-023: application of the decision + duration; one agenda entry, no more."""
    verdict = make.apply(event(make, 5_000))
    (workflow,), (installed,), (entry,) = (written(verdict, kind) for kind in (r.Workflow, r.Wait, r.Agenda))
    assert (workflow.state, workflow.revision, workflow.activation_id) == ("waiting", 4, None)
    assert workflow.wait_key == "signal"
    assert (installed.kind, installed.deadline) == ("event", make.now + 5_000)
    assert (entry.kind, entry.ref, entry.due) == ("wait", "wf_1", make.now + 5_000)
    assert AgendaWake(due_real=make.now + 5_000) in verdict.wakes
    assert written(verdict, r.Checkpoint)[0].until is None


def test_a_wait_without_deadline_is_on_no_agenda(make, written):
    """TMR-001: null is no deadline."""
    verdict = make.apply(event(make, None))
    assert written(verdict, r.Agenda) == []
    assert written(verdict, r.Wait)[0].deadline is None


def test_commands_are_registered_with_the_wait(make, written):
    """TMR-005."""
    document = event(make, None) | {"commands": [make.command("a")]}
    verdict = make.apply(document)
    assert [child.key for child in written(verdict, r.Child)] == ["a"]
    assert written(verdict, r.Workflow)[0].state == "waiting"


@pytest.mark.parametrize(("kind", "duration"), [("timer", {"delay_ms": 0}), ("event", {"timeout_ms": 0})])
def test_a_duration_of_zero_goes_on_in_the_same_step(make, written, kind, duration):
    """T3, TMR-012, WF-053: `waiting` never shows, the key is used up all the same."""
    verdict = make.apply(wait(make, kind=kind, **duration))
    (workflow,), (context,) = written(verdict, r.Workflow), written(verdict, r.ActivationContext)
    assert (workflow.state, workflow.wait_key, workflow.revision) == ("running", None, 4)
    wake = {"kind": "timer" if kind == "timer" else "timeout", "key": "signal", "deadline": make.now}
    assert decode(context.wake) == wake
    assert context.inputs == b"{}"
    assert len(written(verdict, r.Wait)) == 1
    assert written(verdict, r.Agenda) == written(verdict, r.Checkpoint) == []


def test_a_buffered_event_goes_on_in_the_same_step_and_leaves_the_inbox(make, written):
    """TMR-004, TMR-012, TMR-015, EVT-018, RACE-15: it beats a timeout of zero."""
    buffered = make.buffered(accepted_at=make.now - 1)
    busy = make.workflow(inbox_count=2, inbox_bytes=buffered.receipt.size + 10)
    verdict = make.apply(event(make, 0), event=buffered, workflow=busy)
    (workflow,), (context,) = written(verdict, r.Workflow), written(verdict, r.ActivationContext)
    assert (workflow.inbox_count, workflow.inbox_bytes) == (1, 10)
    wake = {"kind": "event", "key": "signal", "event": make.event(), "accepted_at": make.now - 1}
    assert decode(context.wake) == wake


def test_an_event_accepted_at_the_deadline_is_left_behind(make, written):
    """TMR-011, TMR-016, RACE-15: the same millisecond is a timeout, and the event leaves the inbox undelivered."""
    buffered = make.buffered(accepted_at=make.now)
    busy = make.workflow(inbox_count=1, inbox_bytes=buffered.receipt.size)
    verdict = make.apply(event(make, 0), event=buffered, workflow=busy)
    assert decode(written(verdict, r.ActivationContext)[0].wake)["kind"] == "timeout"
    assert written(verdict, r.Workflow)[0].inbox_count == 0


@pytest.mark.parametrize("used", ["event", "timer"])
@pytest.mark.parametrize(("kind", "duration"), [("timer", {"delay_ms": 9}), ("event", {"timeout_ms": None})])
def test_a_wait_key_is_used_once(make, failure, used, kind, duration):
    """TMR-003: across kinds."""
    verdict = make.apply(wait(make, kind=kind, **duration), used=make.wait(kind=used))
    assert failure(verdict) == "decision_application_failed"


def test_a_timer_does_not_take_a_key_that_has_an_event(make, failure):
    """TMR-004, RACE-16."""
    verdict = make.apply(wait(make, kind="timer", delay_ms=5), event=make.buffered())
    assert failure(verdict) == "decision_application_failed"


@pytest.mark.parametrize(("before", "fits"), [(5, True), (4, False)])
def test_no_deadline_beyond_the_last_instant(make, failure, before, fits):
    """TMR-002."""
    clock = make.clock(MAX_TIMESTAMP_MS - before)
    verdict = make.apply(wait(make, kind="timer", delay_ms=5), clock=clock)
    if not fits:
        assert failure(verdict) == "decision_application_failed"


@pytest.mark.parametrize(
    ("kind", "deadline", "accepted", "now", "by"),
    [
        ("event", None, None, 9, None),
        ("event", None, 5, 9, "event"),
        ("event", 8, 7, 7, "event"),
        ("event", 8, 7, 900, "event"),
        ("event", 8, 8, 8, "timeout"),
        ("event", 8, 9, 9, "timeout"),
        ("event", 8, None, 7, None),
        ("event", 8, None, 8, "timeout"),
        ("event", 8, None, 9, "timeout"),
        ("timer", 8, None, 7, None),
        ("timer", 8, None, 8, "timer"),
        ("timer", 8, None, 9, "timer"),
    ],
)
def test_selection(make, kind, deadline, accepted, now, by):
    """TMR-010, TMR-011, TMR-013, RACE-12, RACE-13: acceptance against the deadline, not the moment of looking."""
    buffered = None if accepted is None else make.buffered(accepted_at=accepted)
    ended = over(make.wait(kind=kind, deadline=deadline), buffered, now)
    assert (None if ended is None else ended.by) == by


def test_a_due_deadline_resumes_with_the_stored_one(make, written):
    """T4, TMR-014, TMR-015, TMR-020, RACE-32: late, once, revision unchanged; wait and agenda entry are gone."""
    due = make.now - 90_000
    state = make.wait_state(wait=make.wait(deadline=due))
    verdict = decide_wait(state, None, make.fresh())
    (workflow,), (context,), (task,) = (written(verdict, k) for k in (r.Workflow, r.ActivationContext, r.Task))
    assert (workflow.state, workflow.revision, workflow.activation_id, workflow.wait_key) == (
        "running",
        3,
        task.id,
        None,
    )
    assert context.wake == b'{"kind":"timeout","key":"signal","deadline":%d}' % due
    assert (context.continuation, context.state) == ("next", b'{"batch":4}')
    assert verdict.unscheduled == (("wait", "wf_1"),)
    assert Guard(kind="workflow", id="wf_1", version=7) in verdict.guards


def test_a_look_that_comes_early_changes_nothing(make):
    """TMR-013."""
    state = make.wait_state(wait=make.wait(kind="timer", deadline=make.now + 1))
    assert decide_wait(state, None, make.fresh()) == Replay(reply=None)


def test_a_look_at_a_wait_that_is_over_changes_nothing(make):
    """CHD-032, EVT-021: one resumption per wait."""
    state = make.wait_state(workflow=make.workflow(), wait=None)
    assert decide_wait(state, None, make.fresh()) == Replay(reply=None)


def test_deadlines_of_several_workflows_end_side_by_side(make, written):
    """TMR-014, TMR-015: each as if alone, under its own guard; one that is early or over is left as it is."""

    def state(name, wait):
        return make.wait_state(workflow=make.waiting(id=name, wait_key="signal", version=ord(name)), wait=wait)

    due, early = make.wait(deadline=make.now - 1), make.wait(deadline=make.now + 1)
    fresh, waits = make.fresh(), (("a", due), ("b", due), ("c", early), ("d", None))
    verdict = all_of(decide_wait(state(*each), None, fresh) for each in waits)
    assert {w.id: (w.state, w.wait_key) for w in written(verdict, r.Workflow)} == dict.fromkeys("ab", ("running", None))
    assert {task.workflow_id: task.id for task in written(verdict, r.Task)} == {
        workflow.id: workflow.activation_id for workflow in written(verdict, r.Workflow)
    }
    assert {(guard.kind, guard.id, guard.version) for guard in verdict.guards} == {
        ("workflow", "a", 97),
        ("workflow", "b", 98),
    }
    assert verdict.unscheduled == (("wait", "a"), ("wait", "b"))
    assert verdict.wakes == (QueueWake(scope_id=1, queue="flows"),)
    assert verdict.reply is True


def test_no_deadline_that_came_is_nothing_to_write(make):
    """TMR-013."""
    state = make.wait_state(wait=make.wait(kind="timer", deadline=make.now + 1))
    assert all_of([decide_wait(state, None, make.fresh())]) == Accepted(reply=True)


def test_a_wake_resumes_with_the_event(make, written):
    """T4, TMR-015, EVT-011: the obligation is met in the same step."""
    workflow = make.waiting(wait_key="signal", inbox_count=1, inbox_bytes=make.buffered().receipt.size)
    held = make.obligation("wake", "signal")
    state = make.wait_state(obligation=held, workflow=workflow, event=make.buffered())
    verdict = decide_wait(state, held, make.fresh())
    assert decode(written(verdict, r.ActivationContext)[0].wake)["event"] == make.event()
    assert written(verdict, r.Workflow)[0].inbox_count == 0
    assert verdict.done == (held.id,)


def test_a_wake_that_finds_the_wait_gone_only_disappears(make):
    """RACE-20, RCV-005, DRN-014."""
    held = make.obligation("wake", "signal")
    state = make.wait_state(obligation=held, workflow=make.workflow(state="cancelling"), wait=None)
    verdict = decide_wait(state, held, make.fresh())
    assert isinstance(verdict, Accepted)
    assert (verdict.records, verdict.done) == ((), (held.id,))


@pytest.mark.parametrize("stored", [None, 4])
def test_a_stale_wake_changes_nothing(make, stored):
    """RCV-003, RCV-004."""
    held = make.obligation("wake", "signal")
    obligation = None if stored is None else make.obligation("wake", "signal", version=stored)
    state = make.wait_state(obligation=obligation, event=make.buffered())
    assert decide_wait(state, held, make.fresh()) == Replay(reply=None)


def test_a_wake_always_fits_the_inputs():
    """LIM-013: an event of the greatest size, its framing and empty inputs stay far below the limit."""
    assert EVENT_BYTES + 4_096 < INPUTS_BYTES
