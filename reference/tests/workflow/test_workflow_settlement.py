"""Settling an activation together with what it decided: one step, as if it were two (chapters 07 and 12)."""

from dataclasses import replace

import pytest

from protocol3.contract.models.common import ApplicationError
from protocol3.contract.models.delivery import (
    CompletedReport,
    ExecutionError,
    FailedReport,
    ProgramError,
    SettleCommand,
    Success,
)
from protocol3.contract.strict_json import decode
from protocol3.core import records as r
from protocol3.core.settlement import EncodedCommand, Settling, settle
from protocol3.core.task_views import report_identity
from protocol3.core.verdict import LOCK_ORDER, Accepted, Guard, ObligationWake, QueueWake, Rejected, Replay
from protocol3.core.workflow.decision import decide_application
from protocol3.core.workflow.judgement import Judged, judge
from protocol3.core.workflow.settlement import SettlingActivation, ending_of, settle_activation

#: Decisions that need no program, by name: the kind and its members.
ALONE = {
    "complete": ("complete", {"output": {"sum": 1.0}}),
    "fail": ("fail", {"error": {"kind": "k", "message": "m"}}),
    "continue": ("continue", {}),
    "join": ("suspend", {"until": ["a"]}),
    "join of what ended": ("suspend", {"until": ["b"]}),
    "join of nothing": ("suspend", {}),
    "join of a stranger": ("suspend", {"until": ["x"]}),
    "event": ("wait", {"wait": {"kind": "event", "key": "signal", "timeout_ms": 5}}),
    "timer": ("wait", {"wait": {"kind": "timer", "key": "nap", "delay_ms": 0}}),
    "another revision": ("continue", {"revision": 2}),
    "no decision": ("unknown", {}),
}


@pytest.fixture
def command(make):
    """`command(outcome)` or `command(error=kind)`: the report of task_a, confirmed."""

    def _command(outcome=None, *, error=None, **changes):
        identity = report_identity(make.scope, make.task(), make.attempt(), make.descriptor, None)
        report = CompletedReport(
            identity=identity, process_id=1, reused_process=False, elapsed_ms=3, outcome=outcome or Success(output=None)
        )
        if error is not None:
            said = ExecutionError(kind=error, message="m")
            report = FailedReport(identity=identity, error=said, phase="execution", execution_may_have_started=True)
        fields = {"owner": make.owner(), "operation_id": "op", "report": report, "quiescence": "confirmed"}
        return SettleCommand(**(fields | changes))

    return _command


@pytest.fixture
def asked(make):
    """`asked(command, task=, attempt=, state=, **settling)`: what the load found."""

    def _asked(command, *, task=None, attempt=None, state=None, **changes):
        task, attempt = task or make.task(), attempt or make.attempt()
        fields = {
            "command": command,
            "encoded": EncodedCommand.of(command),
            "task": task,
            "attempt": attempt,
            "expected": report_identity(make.scope, task, attempt, make.descriptor, None),
            "receipt": None,
            "identity": None,
            "clock": make.clock(),
        }
        return SettlingActivation(settling=Settling(**(fields | changes)), state=state or make.decision_state())

    return _asked


@pytest.fixture
def settled(make):
    def _settled(asked):
        ending = ending_of(asked.settling.command, asked.settling.encoded)
        assert ending is not None
        return settle_activation(asked, ending, make.fresh())

    return _settled


@pytest.fixture
def children(make):
    """One child that lives and one that ended, with its result."""
    known = {"a": make.child("a"), "b": make.child("b", ended=make.now - 5)}
    return {"children": known, "results": {"b": b'{"state":"cancelled"}'}}


@pytest.mark.parametrize("name", ALONE)
def test_one_step_does_what_two_do(make, command, asked, settled, children, name):
    """DEC-003, DEC-004, DEC-020: every record of both but the obligation in between, and every name that they draw."""
    kind, members = ALONE[name]
    one = asked(command(Success(output=make.decision(kind, **members))), state=make.decision_state(**children))
    together = settled(one)

    fresh = make.fresh()
    first = settle(one.settling, fresh)
    task, attempt, settlement = (
        [record for record in first.records if isinstance(record, sort)][-1]
        for sort in (r.Task, r.Attempt, r.Settlement)
    )
    decided = judge(task, attempt, settlement)
    if not isinstance(decided, ApplicationError):
        decided = Judged(decision=decided, descriptors={}, processing_trace=None)
    then = decide_application(make.decision_state(**children), make.obligation(), decided, fresh)

    *settled_records, owed = first.records
    assert owed.kind == "decision"
    assert together.records == (*settled_records, *then.records)
    assert together.reply == first.reply
    assert together.valid_until_real == first.valid_until_real
    assert together.unscheduled == first.unscheduled + then.unscheduled
    assert set(together.wakes) == {*first.wakes, *then.wakes} - {ObligationWake(obligation=owed)}


@pytest.mark.parametrize("name", ALONE)
def test_nothing_of_the_activation_is_owed(make, command, asked, settled, children, name):
    """RCV-001: what the step itself does needs nobody afterwards; a drain that it starts does."""
    kind, members = ALONE[name]
    state = make.decision_state(**children)
    verdict = settled(asked(command(Success(output=make.decision(kind, **members))), state=state))
    owed = [record for record in verdict.records if isinstance(record, r.Obligation)]
    assert {record.kind for record in owed} <= {"drain"}
    assert [wake.obligation for wake in verdict.wakes if isinstance(wake, ObligationWake)] == owed
    assert verdict.done == ()


def test_both_are_guarded_in_the_one_order(make, command, asked, settled):
    """DLV-120, DEC-004: task and workflow, each as it was read."""
    verdict = settled(asked(command(Success(output=make.decision("continue")))))
    assert set(verdict.guards) == {
        Guard(kind="task", id="task_a", version=5),
        Guard(kind="workflow", id="wf_1", version=7),
    }
    assert LOCK_ORDER.index("workflow") < LOCK_ORDER.index("task")
    assert QueueWake(scope_id=1, queue="flows") in verdict.wakes


def test_both_happen_at_one_instant_never_before_what_was_recorded(make, command, asked, settled, written):
    """TASK-129, DEC-023, DEC-050: an owned end that was recorded later moves the workflow's alone."""
    verdict = settled(
        asked(
            command(Success(output=make.decision("complete", output=1))),
            state=make.decision_state(owned_end=make.now + 9),
        )
    )
    (workflow,), (attempt,) = written(verdict, r.Workflow), written(verdict, r.Attempt)
    (settlement,), (task,) = written(verdict, r.Settlement), written(verdict, r.Task)
    assert workflow.terminal_at == make.now + 9
    assert settlement.accepted_at == attempt.finished_at == task.terminal_at == make.now
    assert verdict.reply.receipt.accepted_at == make.now


@pytest.mark.parametrize(
    ("outcome", "error", "expected"),
    [
        (ProgramError(kind="mine", message="m"), None, "mine"),
        (None, "protocol", "workflow_activation_failed"),
    ],
)
def test_a_failure_that_is_final_fails_the_workflow(make, command, asked, settled, written, outcome, error, expected):
    """ACT-041, ACT-045, ACT-046: at its revision."""
    verdict = settled(asked(command(outcome, error=error)))
    (workflow,), (end,) = written(verdict, r.Workflow), written(verdict, r.Outcome)
    assert (workflow.state, workflow.revision) == ("failing", 3)
    assert decode(end.body)["kind"] == expected
    assert verdict.reply.task_state == "failed"


def test_a_failure_that_is_retried_is_no_matter_of_the_workflow(make, command, asked, settled, written):
    """ACT-043: and an attempt without a successor is one (ACT-046)."""
    retried = asked(command(error="io"))
    assert settled(retried) == settle(retried.settling, make.fresh())
    verdict = settled(asked(command(error="io"), task=make.task(attempt_count=4)))
    assert [workflow.state for workflow in written(verdict, r.Workflow)] == ["failing"]


def test_a_cancelled_task_decides_nothing(make, command, asked, settled, written):
    """ACT-047, TASK-206, RACE-38: whatever was reported."""
    task = make.task(cancel_requested_at=make.now - 1)
    verdict = settled(asked(command(Success(output=make.decision("complete", output=1))), task=task))
    (workflow,), (end,) = written(verdict, r.Workflow), written(verdict, r.Outcome)
    assert (verdict.reply.task_state, workflow.state, workflow.revision) == ("cancelled", "failing", 3)
    assert decode(end.body)["kind"] == "workflow_activation_cancelled"


@pytest.mark.parametrize("changes", [{"state": "failing"}, {"state": "cancelling"}, {"activation_id": "task_b"}])
def test_a_workflow_that_waits_no_longer_is_left_alone(make, command, asked, settled, changes):
    """DEC-020 step 1, RACE-06, ACT-009: the settlement is one like any other, and the decision is owed."""
    state = make.decision_state(workflow=make.workflow(**changes))
    one = asked(command(Success(output=make.decision("continue"))), state=state)
    verdict = settled(one)
    assert verdict == settle(one.settling, make.fresh())
    assert [x.kind for x in verdict.records if isinstance(x, r.Obligation)] == ["decision"]


def test_every_check_of_a_settlement_comes_first(make, command, asked, settled):
    """DLV-336, DLV-075: a refusal and a replay are those of any settlement, whatever it decides."""
    said = command(Success(output=make.decision("continue")))
    first = settled(asked(said))
    assert isinstance(first, Accepted)
    stored = {"receipt": first.reply.receipt, "identity": said.identity()}
    again = settled(asked(said, **stored))
    assert isinstance(again, Replay)
    assert again.reply.receipt == first.reply.receipt
    other = command(Success(output=make.decision("complete", output=1)))
    assert settled(asked(other, **stored)) == Rejected(code="conflict")
    assert settled(asked(said, expected=None)) == Rejected(code="conflict")
    assert settled(replace(asked(said), state=None)).reply == first.reply
    late = settled(asked(said, attempt=make.attempt(lease_expires_at=make.now)))
    assert isinstance(late, Rejected)
    assert late.code == "ownership_lost"


@pytest.mark.parametrize("kind", ["suspend", "continue", "wait"])
def test_commands_leave_the_decision_to_be_applied_afterwards(make, command, kind):
    """RCV-007, DEC-021: programs are resolved without any authority of the workflow."""
    members = {"wait": {"kind": "timer", "key": "nap", "delay_ms": 1}} if kind == "wait" else {}
    said = command(Success(output=make.decision(kind, commands=[make.command("a")], **members)))
    assert ending_of(said, EncodedCommand.of(said)) is None


def test_what_does_not_end_an_activation_says_nothing(make, command):
    """DEC-001, ACT-040: the output of any other task, and a success without confirmed quiescence."""
    said = command(Success(output=make.decision("continue")))
    other = replace(said, report=replace(said.report, identity=replace(said.report.identity, activation_id=None)))
    for one in (other, replace(said, quiescence="unconfirmed")):
        assert ending_of(one, EncodedCommand.of(one)) is None
