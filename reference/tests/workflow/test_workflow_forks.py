"""Forks: the order of the checks, atomicity, replay (chapter 14)."""

import pytest

from protocol3.contract.models.common import TraceContext
from protocol3.contract.models.workflows import Branch, ForkCommand, ForkRequest
from protocol3.core import records as r
from protocol3.core.verdict import Accepted, Guard, Rejected, Replay
from protocol3.core.workflow.fork import NEW_FORK_CHECKS, ForkState, decide_fork

TRACE = TraceContext(traceparent="00-11111111111111111111111111111111-2222222222222222-01")
ORIGIN = b'{"traceparent":"00-33333333333333333333333333333333-4444444444444444-01"}'


def branch(key, **changes):
    return Branch(**({"key": key, "entrypoint": "double", "queue": "flows", "data": {"n": 1}} | changes))


def request_of(*branches, key="f"):
    return ForkRequest(key=key, branches=branches or (branch("a"), branch("b", entrypoint="triple")))


@pytest.fixture
def fork(make):
    def _fork(request=None, *, trace=None, **found):
        owner = make.owner(**found.pop("owner", {}))
        command = ForkCommand(owner=owner, fork=request or request_of(), processing_trace=trace)
        named = {name: found.pop(name) for name in ("workflow", "task", "attempt", "activation") if name in found}
        fields = {
            "named": make.named(**named),
            "body": make.body(),
            "stored": None,
            "taken": frozenset(),
            "live_workflows": 0,
            "clock": make.clock(),
        }
        return decide_fork(ForkState(**(fields | found)), command, make.fresh())

    return _fork


def stored_by(attempt_id, request=None, activation_id="task_a"):
    return r.Fork(
        workflow_id="wf_1",
        key="f",
        activation_id=activation_id,
        attempt_id=attempt_id,
        identity=(request or request_of()).identity(),
    )


def code(verdict):
    assert isinstance(verdict, Rejected), verdict
    return verdict.code


def test_a_fork_creates_every_branch_in_one_step(make, fork, written):
    """FRK-001, FRK-002, FRK-004, CHD-022: the parent's program, own data and entrypoint, lineage, first activation."""
    verdict = fork()
    children = {child.key: child for child in written(verdict, r.Child)}
    workflows = {w.owner_key: w for w in written(verdict, r.Workflow) if w.owner_key is not None}
    bodies = {b.workflow_id: b for b in written(verdict, r.WorkflowBody)}
    contexts = {c.task_id: c for c in written(verdict, r.ActivationContext)}
    assert list(children) == ["a", "b"]
    for key, entrypoint in (("a", "double"), ("b", "triple")):
        child, workflow = children[key], workflows[key]
        assert (child.kind, child.child_id, child.fork_key) == ("workflow", workflow.id, "f")
        assert (workflow.state, workflow.revision, workflow.depth) == ("running", 0, 1)
        assert (workflow.parent_id, workflow.root_id, workflow.correlation_key) == ("wf_1", "wf_1", "books")
        assert (bodies[workflow.id].descriptor, bodies[workflow.id].data) == (make.descriptor, b'{"n":1}')
        assert contexts[workflow.activation_id].continuation == entrypoint
        assert contexts[workflow.activation_id].state == b"null"
    assert (verdict.reply.key, verdict.reply.branch_keys, verdict.reply.already_accepted) == ("f", ("a", "b"), False)


def test_the_parent_goes_on_as_it_was(make, fork, written):
    """FRK-003, FRK-017: only the budgets of its activation change; the commit must come within its authority."""
    verdict = fork()
    parent = next(w for w in written(verdict, r.Workflow) if w.id == "wf_1")
    assert parent == make.workflow()
    activation = next(a for a in written(verdict, r.Activation) if a.task_id == "task_a")
    assert (activation.fork_count, activation.fork_bytes, activation.new_children) == (1, request_of().size(), 2)
    assert verdict.guards == (
        Guard(kind="workflow", id="wf_1", version=7),
        Guard(kind="task", id="task_a", version=5, seen=True),
    )
    assert verdict.valid_until_real == make.attempt().lease_expires_at


@pytest.mark.parametrize(("trace", "origin"), [(None, ORIGIN), (TRACE, None)])
def test_branches_start_from_the_commands_trace_or_the_parents_origin(make, fork, written, trace, origin):
    """FRK-004, TRC-017."""
    verdict = fork(trace=trace, body=make.body(origin_trace=ORIGIN))
    expected = origin or b'{"traceparent":"%s"}' % TRACE.traceparent.encode()
    assert {body.origin_trace for body in written(verdict, r.WorkflowBody)} == {expected}
    assert {body.origin_trace for body in written(verdict, r.TaskBody)} == {expected}


def test_the_order_of_the_checks_of_a_new_fork():
    """FRK-010 steps 7 to 10, N8: the order is data."""
    assert [check.__name__ for check in NEW_FORK_CHECKS] == ["_ledger", "_budget", "_unused", "_depth_and_live"]


def test_an_identical_fork_replays_for_its_acceptor_whatever_happened(make, fork):
    """FRK-010 step 5, FRK-013, RACE-27."""
    for found in (
        {"workflow": make.workflow(state="cancelling")},
        {"workflow": make.workflow(state="succeeded", activation_id=None)},
        {"task": make.task(current_attempt_id="att_2")},
        {"attempt": make.attempt(lease_expires_at=make.now, settled_at=5)},
    ):
        verdict = fork(stored=stored_by("att_1"), **found)
        assert isinstance(verdict, Replay)
        assert (verdict.reply.branch_keys, verdict.reply.already_accepted) == (("a", "b"), True)


def test_a_replay_needs_the_exact_lease(fork):
    """FRK-013."""
    assert code(fork(stored=stored_by("att_1"), owner={"lease_id": "l2"})) == "ownership_lost"


def test_another_attempt_or_activation_replays_while_live_and_dispatched(make, fork):
    """FRK-010 step 5, FRK-014, RACE-26."""
    stored = stored_by("att_0", activation_id="task_0")
    assert isinstance(fork(stored=stored), Replay)
    assert code(fork(stored=stored, attempt=make.attempt(may_have_started=False))) == "ownership_lost"
    assert code(fork(stored=stored, attempt=make.attempt(deadline=make.now))) == "ownership_lost"


@pytest.mark.parametrize(
    "other",
    [
        request_of(branch("b", entrypoint="triple"), branch("a")),
        request_of(branch("a")),
        request_of(branch("a", data={"n": 1.0}), branch("b", entrypoint="triple")),
        request_of(branch("a", entrypoint="triple"), branch("b", entrypoint="triple")),
        request_of(branch("a", queue="q"), branch("b", entrypoint="triple")),
    ],
)
@pytest.mark.parametrize("live", [True, False])
def test_another_request_under_the_key_is_a_conflict_before_liveness(make, fork, other, live):
    """FRK-006, FRK-010 step 5, REQ-C16."""
    workflow = make.workflow(state="running" if live else "cancelled")
    assert code(fork(stored=stored_by("att_1", other), workflow=workflow)) == "conflict"


@pytest.mark.parametrize("state", ["failing", "cancelling", "cancelled"])
def test_no_new_fork_on_a_closed_workflow(make, fork, state):
    """FRK-015, DRN-002, RACE-27."""
    assert code(fork(workflow=make.workflow(state=state))) == "ownership_lost"


def test_no_new_fork_without_dispatch_or_after_settlement(make, fork):
    """FRK-015."""
    assert code(fork(attempt=make.attempt(may_have_started=False))) == "ownership_lost"
    assert code(fork(attempt=make.attempt(settled_at=5))) == "ownership_lost"


def test_the_ledger_of_forks(make, fork):
    """FRK-010 step 7, LIM-012, LIM-020: 64 forks, 262144 bytes as a plain sum."""
    room = 262_144 - request_of().size()
    assert isinstance(fork(activation=make.activation(fork_count=63, fork_bytes=room)), Accepted)
    assert code(fork(activation=make.activation(fork_count=64))) == "invalid_input"
    assert code(fork(activation=make.activation(fork_bytes=room + 1))) == "invalid_input"


def test_the_budget_of_new_children(make, fork):
    """FRK-010 step 8, CHD-024, FRK-017."""
    assert isinstance(fork(activation=make.activation(new_children=62)), Accepted)
    assert code(fork(activation=make.activation(new_children=63))) == "invalid_input"


def test_a_branch_key_in_use_is_a_conflict(make, fork):
    """FRK-010 step 9, FRK-012: even for an equal submission; after the budget, before the live limit."""
    assert code(fork(taken=frozenset({"a"}))) == "conflict"
    assert code(fork(taken=frozenset({"a"}), activation=make.activation(new_children=63))) == "invalid_input"
    assert code(fork(taken=frozenset({"a"}), live_workflows=64)) == "conflict"


def test_depth_and_live_limits(make, fork):
    """FRK-010 step 10, CHD-025, CHD-026, LIM-020."""
    assert isinstance(fork(live_workflows=62, workflow=make.workflow(depth=15)), Accepted)
    assert code(fork(live_workflows=63)) == "invalid_input"
    assert code(fork(workflow=make.workflow(depth=16))) == "invalid_input"
