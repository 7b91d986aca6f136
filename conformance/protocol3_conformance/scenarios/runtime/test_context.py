"""The workflow context: reaching it, what it says, and when it refuses (chapter 23, The context)."""

from __future__ import annotations

from protocol3_conformance.roles.program import EVENT
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.scenarios.runtime.payloads import EVENT as SENT
from protocol3_conformance.scenarios.runtime.payloads import MOMENT, inputs, task_outcome
from protocol3_conformance.wire.frames import Frame
from protocol3_conformance.wire.strict_json import same

ACTION = "ApprovalAction('n', version='1', arguments={})"
OPERATIONS = (
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
)
ASYNCHRONOUS = ("ctx.gather()", "ctx.fork('f2', branches=[branch])")
CHILD = inputs(child=task_outcome())
PREPARED = """
branch = ctx.branch("b1", entrypoint="e", queue="q", data=None)
fork = await ctx.fork("f", branches=[branch])
"""
ALL_REFUSED = f"""
async def all_refused():
    wrong = []
    for name, call in {{{", ".join(f"{one!r}: lambda: {one}" for one in OPERATIONS)}}}.items():
        if not refused(call):
            wrong.append(name)
    for name, call in {{{", ".join(f"{one!r}: lambda: {one}" for one in ASYNCHRONOUS)}}}.items():
        if not await refused_later(call()):
            wrong.append(name)
    return wrong
"""


@runtime_check("runtime-context/operations-work", cites=["HLP-033", "HLP-117"], profile="core forks")
async def test_operations_work(lab: RuntimeLab) -> None:
    """Every operation is possible in the controller; the checks that refuse them prove something only then."""
    for one in OPERATIONS:
        if "approved_local" not in one:
            with lab.case(one):
                result = await lab.workflow(PREPARED + one + "\nreturn ctx.fail('k', 'm')", **CHILD)
                assert result["status"] == "success"
    for one in ASYNCHRONOUS:
        other = one.replace("[branch]", "[ctx.branch('b2', entrypoint='e', queue='q', data=None)]")
        with lab.case(other):
            assert (await lab.workflow(PREPARED + f"await {other}\nreturn ctx.fail('k', 'm')"))["status"] == "success"


@runtime_check("runtime-context/one-context", cites=["HLP-032", "HLP-035"])
async def test_one_context(lab: RuntimeLab) -> None:
    """`workflow_context()` is the same object in the controller, its tasks, local functions and threads."""
    code = """
        def step():
            return workflow_context() is ctx
        async def task():
            return get_workflow_context() is ctx
        found = [workflow_context() is ctx, await ctx.local("k", step), await asyncio.create_task(task())]
        return ctx.complete(found + [await asyncio.to_thread(step)])
    """
    await lab.holds(code, [True] * 4)


@runtime_check("runtime-context/none-outside", cites=["HLP-032", "HLP-116"])
async def test_none_outside(lab: RuntimeLab) -> None:
    """Outside an activation, and after it has ended, `workflow_context()` raises; values can still be read."""
    code = """
        import contextvars
        memory["ctx"], memory["context"] = ctx, contextvars.copy_context()
        return ctx.complete(None)
    """
    await lab.completed(code)
    assert await lab.output("return refused(workflow_context)") is True
    assert await lab.output("return memory['context'].run(refused, workflow_context)") is True


@runtime_check("runtime-context/inside-a-local-function", cites=["HLP-035", "HLP-063"], profile="core forks")
async def test_inside_a_local_function(lab: RuntimeLab) -> None:
    """In a local function, its tasks and threads, properties may be read and every operation raises."""
    code = (
        PREPARED
        + ALL_REFUSED
        + """
async def step():
    ctx.state, ctx.inputs, ctx.wake, ctx.approval, ctx.entrypoint, ctx.revision
    thread = await asyncio.to_thread(refused, lambda: ctx.complete(None))
    return [await all_refused(), await asyncio.create_task(all_refused()), thread]
return ctx.complete(await ctx.local("step", step))
"""
    )
    await lab.holds(code, [[], [], True], **CHILD)


@runtime_check("runtime-context/after-the-end", cites=["HLP-037", "HLP-116"], profile="core forks")
async def test_after_the_end(lab: RuntimeLab) -> None:
    """After the activation every operation raises."""
    code = PREPARED + ALL_REFUSED + "memory['all_refused'] = all_refused\nreturn ctx.complete(None)"
    await lab.completed(code, **CHILD)
    assert await lab.output("return memory['all_refused']()") == []


@runtime_check("runtime-context/other-threads-and-loops", cites=["HLP-036"], profile="core forks")
async def test_other_threads(lab: RuntimeLab) -> None:
    """Every operation raises without a running loop, and in another one."""
    code = (
        PREPARED
        + ALL_REFUSED
        + """
import threading
found = []
for target in (lambda: found.append(asyncio.run(all_refused())), lambda: found.append(refused(ctx.complete, None))):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
return ctx.complete(found)
"""
    )
    await lab.holds(code, [[], True], **CHILD)


@runtime_check("runtime-context/properties", cites=["HLP-038", "HLP-041", "HLP-034"])
async def test_properties(lab: RuntimeLab) -> None:
    """The properties of a first and of a later activation; the event is the handler's argument in each."""
    code = """
        return ctx.complete([
            ctx.workflow_id, ctx.activation_id, ctx.revision, ctx.continuation, ctx.entrypoint, ctx.state,
            ctx.inputs, ctx.wake, ctx.approval, ctx.parent_workflow_id, ctx.root_workflow_id, list(event.pop("data")),
            event,
        ])
    """
    event = EVENT | {"ldgworkflowid": "wf_1", "ldgactivationid": "task_1"}
    first = ["wf_1", "task_1", 0, "start", "start", None, {}, None, None, None, "wf_1", ["code"], event]
    await lab.holds(code, first)
    await lab.holds(code, first, wake=None)
    lineage = {"parent_workflow_id": "p", "root_workflow_id": "r"}
    later = ["wf_1", "task_1", 9, "é", "é", [1], CHILD["inputs"], None, None, "p", "r", ["code"]]
    later.append(event | {"ldgparentworkflowid": "p", "ldgrootworkflowid": "r"})
    await lab.holds(code, later, revision=9, continuation="é", state=[1], **CHILD, **lineage)


WAKES: list[Frame] = [
    {"kind": "timer", "key": "k", "deadline": 5},
    {"kind": "timeout", "key": "k", "deadline": MOMENT},
    {"kind": "event", "key": "k", "accepted_at": 7, "event": SENT | {"data": {"x": [1.0]}, "custom": True}},
]


@runtime_check("runtime-context/wakes", cites=["HLP-042", "HLP-039", "RUN-069"])
async def test_wakes(lab: RuntimeLab) -> None:
    """A wake has exactly the members of the payload; what a caller does to its copy changes nothing."""
    code = "ctx.wake.clear()\nctx.wake['kind'] = 'x'\nreturn ctx.complete([ctx.wake, ctx.approval])"
    for wake in WAKES:
        with lab.case(wake["kind"]):
            await lab.holds(code, [wake, None], wake=wake)


@runtime_check("runtime-context/frozen", cites=["HLP-040"])
async def test_frozen(lab: RuntimeLab) -> None:
    """Inputs and wake are those of the payload throughout an activation, and in every attempt, in any process."""
    code = """
        first = [ctx.inputs, ctx.wake]
        await ctx.local("k", add, x=1)
        return ctx.complete([first, [ctx.inputs, ctx.wake]])
    """
    await lab.completed("return ctx.complete([ctx.inputs, ctx.wake])", **inputs(other=task_outcome()), wake=WAKES[0])
    wake = WAKES[2]
    seen = [CHILD["inputs"], wake]
    for attempt in ("first", "of the same process", "of another process"):
        with lab.case(attempt):
            await lab.holds(code, [seen, seen], wake=wake, **CHILD)
            if attempt != "first":
                await (await lab.task_program()).finish()


@runtime_check("runtime-context/what-crosses-the-boundary", cites=["HLP-043", "HLP-118"])
async def test_what_crosses_the_boundary(lab: RuntimeLab) -> None:
    """Another process goes on with the saved state alone, as it was when the decision was made."""
    code = """
        memory["kept"] = state = {"seen": [1, 1.0]}
        decision = ctx.continue_(continuation="next", state=state)
        state["seen"].append("later")
        return decision
    """
    decision = await lab.decision(code)
    assert same(decision["state"], {"seen": [1, 1.0]}), f"the state is {decision['state']}"
    await (await lab.task_program()).finish()
    after = "return ctx.complete([ctx.state, ctx.inputs, ctx.wake, sorted(memory)])"
    saved = {"state": decision["state"], "continuation": "next", "revision": 1}
    await lab.holds(after, [{"seen": [1, 1.0]}, {}, None, []], **saved)
