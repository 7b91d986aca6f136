"""Staged children: bindings, limits, what they inherit (chapter 13)."""

import pytest

from protocol3.core import records as r

TRACE = b'{"traceparent":"00-11111111111111111111111111111111-2222222222222222-01"}'


def test_a_task_child_is_an_ordinary_task_of_the_workflow(make, written):
    """CHD-002, CHD-003, CHD-015, CHD-021, ACT-005: own work, the parent's correlation key and origin, no key."""
    parent = make.body(origin_trace=TRACE)
    command = make.command("a", retry_policy={"max_attempts": 2, "retry_delay_ms": 1})
    verdict = make.apply(make.decision("suspend", commands=[command], until=["a"]), body=parent)
    (task,), (body,), (child,) = (written(verdict, kind) for kind in (r.Task, r.TaskBody, r.Child))
    assert (task.queue, task.max_attempts, task.attempt_timeout_ms) == ("rates", 2, 300_000)
    assert (task.workflow_id, task.activation, task.correlation_key) == ("wf_1", False, "books")
    assert (body.data, body.descriptor, body.origin_trace) == (b'{"day":2}', make.other_descriptor, TRACE)
    assert body.idempotency_key is None
    assert (child.kind, child.child_id, child.fork_key, child.delivered_in) == ("task", task.id, None, None)


def test_a_workflow_child_is_a_workflow_of_its_own(make, written):
    """T1, CHD-022, WF-032: revision 0, start, lineage up to the top ancestor, its first activation."""
    parent = make.workflow(parent_id="wf_0", root_id="wf_top", depth=3)
    verdict = make.apply(make.decision("continue", commands=[make.command("a", kind="workflow")]), workflow=parent)
    (child,) = written(verdict, r.Child)
    created = next(w for w in written(verdict, r.Workflow) if w.id == child.child_id)
    assert (created.state, created.revision, created.depth) == ("running", 0, 4)
    assert (created.parent_id, created.root_id, created.owner_key) == ("wf_1", "wf_top", "a")
    (body,) = written(verdict, r.WorkflowBody)
    assert (body.entrypoint, body.data, body.descriptor) == ("start", b'{"day":2}', make.other_descriptor)
    task = next(t for t in written(verdict, r.Task) if t.id == created.activation_id)
    assert (task.parent_workflow_id, task.root_workflow_id, task.activation) == ("wf_1", "wf_top", True)
    context = next(c for c in written(verdict, r.ActivationContext) if c.task_id == task.id)
    assert (context.continuation, context.state, context.inputs) == ("start", b"null", b"{}")


def test_the_root_of_a_roots_child_is_the_root(make, written):
    """WF-032: both lineage fields of a direct child are the root's id."""
    verdict = make.apply(make.decision("continue", commands=[make.command("a", kind="workflow")]))
    created = next(w for w in written(verdict, r.Workflow) if w.owner_key == "a")
    assert (created.parent_id, created.root_id) == ("wf_1", "wf_1")


@pytest.mark.parametrize("kind", ["task", "workflow"])
def test_children_start_from_the_trace_of_the_settlement(make, written, kind):
    """CHD-003, TRC-017: before the parent's origin, which later activations of the parent keep."""
    document = make.decision("continue", commands=[make.command("a", kind=kind)])
    verdict = make.apply(document, processing_trace=TRACE)
    bodies = {b.task_id: b.origin_trace for b in written(verdict, r.TaskBody)}
    workflow = next(w for w in written(verdict, r.Workflow) if w.id == "wf_1")
    assert bodies.pop(workflow.activation_id) is None
    assert set(bodies.values()) == {TRACE}


@pytest.mark.parametrize("ended", [None, 5])
@pytest.mark.parametrize("delivered", [None, "task_0"])
def test_an_equal_binding_reuses_the_child_in_any_state(make, written, ended, delivered):
    """CHD-011, CHD-014: nothing is created, not even a budget is used."""
    known = {"a": make.child("a", ended=ended, delivered_in=delivered)}
    verdict = make.apply(
        make.decision("continue", commands=[make.command("a")]),
        children=known,
        activation=make.activation(new_children=64),
    )
    assert written(verdict, r.Child) == []
    assert len(written(verdict, r.Task)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"day": 2.0}},
        {"data": {"day": 3}},
        {"queue": "other"},
        {"attempt_timeout_ms": 60_000},
        {"retry_policy": {"max_attempts": 3, "retry_delay_ms": 4_999}},
        {"kind": "workflow"},
    ],
)
def test_another_binding_under_a_key_rejects_the_decision(make, failure, change):
    """CHD-012, LIM-001."""
    document = make.decision("continue", commands=[make.command("b"), make.command("a", **change)])
    assert failure(make.apply(document, children={"a": make.child("a")})) == "decision_application_failed"


def test_defaults_stated_are_defaults_left_out(make, written):
    """LIM-002: the binding is the normalised submission."""
    command = make.command(
        "a", kind="task", retry_policy={"max_attempts": 3, "retry_delay_ms": 5000}, attempt_timeout_ms=300_000
    )
    verdict = make.apply(make.decision("continue", commands=[command]), children={"a": make.child("a")})
    assert written(verdict, r.Child) == []


def test_a_command_never_adopts_a_branch(make, failure):
    """CHD-013: not even with an equal binding."""
    branch = make.child("a", kind="workflow", fork_key="f")
    document = make.decision("continue", commands=[make.command("a", kind="workflow")])
    assert failure(make.apply(document, children={"a": branch})) == "decision_application_failed"


@pytest.mark.parametrize(("used", "fits"), [(62, True), (63, False)])
def test_the_budget_of_new_children_spans_forks_and_commands(make, written, failure, used, fits):
    """CHD-024, LIM-020: 64 in all, whatever attempt registered them."""
    document = make.decision("continue", commands=[make.command("a"), make.command("b")])
    verdict = make.apply(document, activation=make.activation(new_children=used))
    if fits:
        assert len(written(verdict, r.Child)) == 2
    else:
        assert failure(verdict) == "decision_application_failed"


def test_only_workflow_children_are_bound_by_depth(make, written, failure):
    """CHD-025: depth 16 is allowed, and owns tasks but no workflows."""
    below = make.apply(
        make.decision("continue", commands=[make.command("a", kind="workflow")]), workflow=make.workflow(depth=15)
    )
    assert next(w for w in written(below, r.Workflow) if w.owner_key == "a").depth == 16
    task = make.apply(make.decision("continue", commands=[make.command("a")]), workflow=make.workflow(depth=16))
    assert len(written(task, r.Child)) == 1
    deeper = make.apply(
        make.decision("continue", commands=[make.command("a", kind="workflow")]), workflow=make.workflow(depth=16)
    )
    assert failure(deeper) == "decision_application_failed"


@pytest.mark.parametrize(("live", "fits"), [(62, True), (63, False)])
def test_live_subworkflows_are_bound_and_tasks_do_not_count(make, written, failure, live, fits):
    """CHD-026, LIM-020."""
    commands = [make.command("t"), make.command("a", kind="workflow"), make.command("b", kind="workflow")]
    verdict = make.apply(make.decision("continue", commands=commands), live_workflows=live, live_tasks=500)
    if fits:
        assert len(written(verdict, r.Child)) == 3
    else:
        assert failure(verdict) == "decision_application_failed"
