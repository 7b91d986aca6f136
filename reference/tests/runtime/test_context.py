"""Reaching the context, and what it says (chapter 23)."""

import pytest

ACTION = "ApprovalAction('n', version='1', arguments={})"
OPERATIONS = [
    "ctx.local('k', add, x=1)",
    "ctx.operation('k', add, kind=OperationKind.TOOL, version='1', arguments={'x': 1})",
    "ctx.approved_local(add, version='1')",
    "ctx.task('t', program='p', version='1', queue='q', data=None)",
    "ctx.workflow('w', program='p', version='1', queue='q', data=None)",
    "ctx.branch('b', entrypoint='e', queue='q', data=None)",
    "ctx.get_result('child')",
    "ctx.join(fork, resume='c', state=None)",
    "ctx.suspend(continuation='c', state=None)",
    "ctx.continue_(continuation='c', state=None)",
    "ctx.wait_event('k', continuation='c', state=None)",
    "ctx.sleep('k', 1, continuation='c', state=None)",
    f"ctx.request_approval('k', action={ACTION}, state=None, timeout_ms=1, resume='c')",
    f"ctx.wait_approval('k', action={ACTION}, state=None, timeout_ms=1, resume='c')",
    "ctx.complete(None)",
    "ctx.fail('k', 'm')",
]
ASYNCHRONOUS = ["ctx.gather()", "ctx.fork('f2', branches=[branch])"]
CHILD = {
    "task_id": "t",
    "state": "succeeded",
    "outcome": {
        "kind": "succeeded",
        "attempt_id": "a",
        "quiescence": "confirmed",
        "execution_may_have_started": True,
        "output": 1,
    },
}
PREPARED = """
branch = ctx.branch("b1", entrypoint="e", queue="q", data=None)
fork = await ctx.fork("f", branches=[branch])
"""
ALL_REFUSED = f"""
async def all_refused():
    found = {{}}
    for name, call in {{{", ".join(f"{op!r}: lambda: {op}" for op in OPERATIONS)}}}.items():
        found[name] = refused(call)
    for name, call in {{{", ".join(f"{op!r}: lambda: {op}" for op in ASYNCHRONOUS)}}}.items():
        found[name] = await refused_later(call())
    return [name for name, held in found.items() if not held]
"""


def test_the_context_is_the_same_wherever_it_is_asked_for(lab):
    """HLP-032, HLP-035."""
    code = """
        def step():
            return workflow_context() is ctx
        async def task():
            return get_workflow_context() is ctx
        found = [workflow_context() is ctx, await ctx.local("k", step), await asyncio.create_task(task())]
        return ctx.complete(found + [await asyncio.to_thread(step)])
    """
    assert lab.completed(code) == [True] * 4


def test_there_is_no_context_outside_an_activation(lab):
    """HLP-032: in a task, and after the activation of the same process has ended."""
    code = """
        import contextvars
        memory["ctx"], memory["context"] = ctx, contextvars.copy_context()
        return ctx.complete(None)
    """
    lab.completed(code)
    assert lab.output("return refused(workflow_context)") is True
    assert lab.output("return memory['context'].run(refused, workflow_context)") is True
    assert lab.output("return memory['ctx'].workflow_id") == "wf"


def test_the_event_is_the_handlers_argument_in_every_activation(lab):
    """HLP-034, HLP-007."""
    code = "return ctx.complete([event['data'].keys() == {'code'}, event['id']])"
    assert lab.completed(code, revision=7) == [True, "ev"]


def test_operations_are_refused_inside_a_local_function(lab):
    """HLP-035, HLP-063: in the function, its tasks and its threads; properties may be read."""
    code = (
        PREPARED
        + ALL_REFUSED.replace("branch]", "branch]")
        + """
async def step():
    ctx.state, ctx.inputs, ctx.wake, ctx.approval, ctx.entrypoint, ctx.revision
    direct = await all_refused()
    task = await asyncio.create_task(all_refused())
    thread = await asyncio.to_thread(refused, lambda: ctx.complete(None))
    return [direct, task, thread]
return ctx.complete(await ctx.local("step", step))
"""
    )
    assert lab.completed(code, inputs={"child": CHILD}) == [[], [], True]


def test_operations_are_refused_after_the_end(lab):
    """HLP-037, HLP-116."""
    code = PREPARED + ALL_REFUSED + "memory['all_refused'] = all_refused\nreturn ctx.complete(None)"
    lab.completed(code, inputs={"child": CHILD})
    assert lab.output("return memory['all_refused']()") == []


def test_operations_are_refused_in_other_threads_and_loops(lab):
    """HLP-036."""
    code = (
        PREPARED
        + ALL_REFUSED
        + """
import threading
found = []
thread = threading.Thread(target=lambda: found.append(asyncio.run(all_refused())))
thread.start()
thread.join()
thread = threading.Thread(target=lambda: found.append(refused(ctx.complete, None)))
thread.start()
thread.join()
return ctx.complete(found)
"""
    )
    assert lab.completed(code, inputs={"child": CHILD}) == [[], True]


@pytest.mark.parametrize("operation", OPERATIONS + ASYNCHRONOUS)
def test_operations_are_possible_otherwise(lab, operation):
    """The list above proves something only if each one works when nothing forbids it."""
    if "approved_local" in operation:
        pytest.skip("needs an approval; see test_approvals.py")
    other = operation.replace("[branch]", "[ctx.branch('b2', entrypoint='e', queue='q', data=None)]")
    kept = f"await {other}" if operation in ASYNCHRONOUS else other
    assert lab.workflow(PREPARED + kept + "\nreturn ctx.fail('k', 'm')", inputs={"child": CHILD})["status"] == "success"


def test_properties_of_a_first_activation(lab):
    """HLP-038, HLP-041."""
    code = """
        return ctx.complete([
            ctx.workflow_id, ctx.activation_id, ctx.revision, ctx.continuation, ctx.entrypoint, ctx.state, ctx.inputs,
            ctx.wake, ctx.approval, ctx.parent_workflow_id, ctx.root_workflow_id,
        ])
    """
    assert lab.completed(code) == ["wf", "act", 0, "start", "start", None, {}, None, None, None, "wf"]


def test_properties_of_a_later_activation(lab):
    """HLP-038."""
    code = """
        return ctx.complete([ctx.revision, ctx.continuation, ctx.entrypoint, ctx.state, ctx.inputs["child"]["state"],
            ctx.parent_workflow_id, ctx.root_workflow_id])
    """
    lineage = {"parent_workflow_id": "p", "root_workflow_id": "r"}
    found = lab.completed(code, revision=9, continuation="é", state=[1], inputs={"child": CHILD}, **lineage)
    assert found == [9, "é", "é", [1], "succeeded", "p", "r"]


def test_an_explicit_null_wake_is_none(lab):
    """HLP-041."""
    assert lab.completed("return ctx.complete(ctx.wake)", wake=None) is None


@pytest.mark.parametrize(
    "wake",
    [
        {"kind": "timer", "key": "k", "deadline": 5},
        {"kind": "timeout", "key": "k", "deadline": 253402300799999},
        {
            "kind": "event",
            "key": "k",
            "accepted_at": 7,
            "event": {
                "specversion": "1.0",
                "id": "e",
                "source": "urn:s",
                "type": "t",
                "datacontenttype": "application/json",
                "data": {"x": [1.0]},
                "custom": True,
            },
        },
    ],
)
def test_wakes_have_the_shape_of_the_payload(lab, wake):
    """HLP-042, HLP-039."""
    code = "ctx.wake.clear()\nctx.wake['kind'] = 'x'\nreturn ctx.complete([ctx.wake, ctx.approval])"
    assert lab.completed(code, wake=wake) == [wake, None]
