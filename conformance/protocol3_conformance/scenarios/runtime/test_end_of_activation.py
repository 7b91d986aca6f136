"""Failed acknowledgements, draining, and the end of an activation (chapter 23)."""

from __future__ import annotations

import signal

from protocol3_conformance.roles.program import accepted, activation, refusing
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check

BRANCH = 'branch = lambda key: ctx.branch(key, entrypoint="e", queue="q", data=None)\n'
CAUGHT = """
try:
    await ctx.local("k", add, x=1)
except Exception:
    pass
"""
OPERATIONS = (
    "ctx.local('new', add, x=2)",
    "ctx.local('k', add, x=1)",
    "ctx.operation('o', add, kind=OperationKind.TOOL, version='1', arguments={'x': 1})",
    "ctx.task('t', program='p', version='1', queue='q', data=None)",
    "ctx.branch('b', entrypoint='e', queue='q', data=None)",
    "ctx.get_result('child')",
    "ctx.suspend(continuation='c', state=None)",
    "ctx.continue_(continuation='c', state=None)",
    "ctx.wait_event('k', continuation='c', state=None)",
    "ctx.sleep('k', 1, continuation='c', state=None)",
    "ctx.complete(None)",
    "ctx.fail('k', 'm')",
)


@runtime_check("runtime-end/after-a-failed-acknowledgement", cites=["HLP-037", "HLP-112"])
async def test_after_a_failed_acknowledgement(lab: RuntimeLab) -> None:
    """After a failed acknowledgement every operation raises, although the error was caught."""
    rows = ", ".join(f"refused(lambda: {one})" for one in OPERATIONS)
    await lab.refused(CAUGHT + f"memory['refused'] = [{rows}]\nreturn None", reply=refusing)
    assert await lab.output("return memory.pop('refused')") == [True] * len(OPERATIONS)


@runtime_check("runtime-end/decision-made-before", cites=["HLP-112"])
async def test_decision_made_before(lab: RuntimeLab) -> None:
    """A decision built before a failed acknowledgement is refused on return, although the error was caught."""
    for made in ("ctx.complete(1)", "ctx.fail('k', 'm')", "ctx.suspend(continuation='c', state=None)"):
        for name, reply in (("refused", refusing), ("end of standard input", lambda request: None)):
            with lab.case(f"{made}, {name}"):
                await lab.refused(f"decision = {made}\n{CAUGHT}\nreturn decision", reply=reply)
    await lab.refused("ctx.local('k', add, x=1)\nreturn ctx.complete(None)", reply=refusing)


@runtime_check("runtime-end/failed-fork", cites=["HLP-112"], profile="core forks")
async def test_failed_fork(lab: RuntimeLab) -> None:
    """A failed acknowledgement of a fork is as fatal."""
    code = BRANCH + "decision = ctx.complete(1)\n"
    code += "await asyncio.gather(ctx.fork('f', branches=[branch('b')]), return_exceptions=True)\nreturn decision"
    await lab.refused(code, reply=refusing)


@runtime_check("runtime-end/draining", cites=["HLP-113", "HLP-114"], profile="core forks")
async def test_draining(lab: RuntimeLab) -> None:
    """All started steps and forks are awaited before the decision is checked, those started meanwhile included."""
    code = (
        BRANCH
        + """
async def chain(n):
    await ctx.local(f"k{n}", later, value=n, turns=3)
    if n:
        await chain(n - 1)
    else:
        await ctx.fork("f", branches=[branch("b")])
asyncio.ensure_future(chain(3))
await asyncio.sleep(0)
return ctx.complete("returned at once")
"""
    )
    await lab.holds(code, "returned at once")
    assert lab.keys() == ["k3", "k2", "k1", "k0", "f"]
    staging = """
        async def controller():
            await ctx.local("k", add, x=1)
            ctx.task("late", program="p", version="1", queue="q", data=None)
        asyncio.ensure_future(controller())
        await asyncio.sleep(0)
        return ctx.continue_(continuation="c", state=None)
    """
    await lab.refused(staging)
    assert lab.keys() == ["k"]


@runtime_check("runtime-end/observed-failures", cites=["HLP-114", "HLP-060"])
async def test_observed_failures(lab: RuntimeLab) -> None:
    """A failed step that nobody awaited fails the activation with its error; one that was caught does not."""
    assert "boom" in await lab.refused("ctx.local('k', boom)\nreturn ctx.complete(None)")
    for observe in (
        "await asyncio.gather(ctx.local('k', boom), return_exceptions=True)",
        "await asyncio.wait([asyncio.ensure_future(ctx.local('k', boom))])",
        "try:\n    await ctx.local('k', boom)\nexcept ValueError: pass",
        "try:\n    await ctx.gather(ctx.local('k', boom))\nexcept ValueError: pass",
        "same = [ctx.local('k', boom), ctx.local('k', boom)]\nawait asyncio.gather(same[0], return_exceptions=True)",
    ):
        with lab.case(observe):
            await lab.holds(f"{observe}\nreturn ctx.complete('fine')", "fine")
    unseen = """
        gate = asyncio.Event()
        async def work():
            await gate.wait()
            raise ValueError("unseen")
        observer = asyncio.ensure_future(ctx.local("k", work))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        observer.cancel()
        await asyncio.gather(observer, return_exceptions=True)
        gate.set()
        return ctx.complete(None)
    """
    assert "unseen" in await lab.refused(unseen)


@runtime_check("runtime-end/failed-handler", cites=["HLP-115", "HLP-116"])
async def test_failed_handler(lab: RuntimeLab) -> None:
    """A handler that raises cancels what runs, and waits for it; nothing of it is committed."""
    code = """
        memory["seen"] = []
        async def work():
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                memory["seen"].append("ended")
        ctx.local("a", work)
        ctx.local("b", work)
        await asyncio.sleep(0)
        raise ValueError("of the handler")
    """
    assert "of the handler" in await lab.refused(code)
    assert lab.requests == []
    assert await lab.output("return memory['seen']") == ["ended", "ended"]


@runtime_check("runtime-end/request-on-its-way", cites=["HLP-115", "RUN-075"], profile="core forks")
async def test_request_on_its_way(lab: RuntimeLab) -> None:
    """A request on its way is completed when the handler fails; queued ones are not sent; the stream stays clean."""
    code = (
        BRANCH
        + """
ctx.local("sent", add, x=1)
ctx.local("queued", add, x=2)
asyncio.ensure_future(ctx.fork("f", branches=[branch("b")]))
await asyncio.sleep(0)
await asyncio.sleep(0)
raise ValueError("of the handler")
"""
    )
    program = await lab.task_program()
    await program.send(program.invocation({"code": code}, payload=activation()))
    request = await program.frame()
    assert request is not None
    assert request["payload"]["key"] == "sent"
    assert await program.silent()
    await program.send(accepted(request))
    assert (await program.result())["status"] == "runtime_error"
    assert program.requests == []
    await lab.holds("return ctx.complete(1)", 1)
    assert await lab.task_program() is program


@runtime_check("runtime-end/nothing-outlives", cites=["HLP-116", "RUN-052", "HLP-037"])
async def test_nothing_outlives(lab: RuntimeLab) -> None:
    """Tasks of the controller are cancelled at its end; what they then try is refused."""
    code = """
        memory["seen"] = []
        async def controller():
            try:
                await asyncio.Event().wait()
            finally:
                memory["seen"].append(refused(ctx.local, "late", add, x=1))
                memory["seen"] += [refused(ctx.complete, None), refused(workflow_context)]
        asyncio.ensure_future(controller())
        await asyncio.sleep(0)
        return ctx.complete(None)
    """
    await lab.completed(code)
    assert lab.requests == []
    assert await lab.output("return memory['seen']") == [True, True, True]


@runtime_check("runtime-end/ends-of-the-process", cites=["RUN-058", "HLP-062"])
async def test_ends_of_the_process(lab: RuntimeLab) -> None:
    """In an activation too, what is no Exception ends the process without a result, from the handler or a step."""
    for code, exit_code in (
        ("raise SystemExit(5)", 5),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("raise asyncio.CancelledError", 1),
        ("def step():\n    raise SystemExit(6)\nawait ctx.local('k', step)", 6),
        ("def step():\n    raise asyncio.CancelledError\nreturn ctx.complete(await ctx.local('k', step))", 1),
    ):
        with lab.case(code):
            program = await lab.task_program()
            await program.send(program.invocation({"code": code}, payload=activation()))
            assert await program.ends() == exit_code
