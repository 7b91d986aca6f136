"""Fatal acknowledgements, draining, and the end of an activation (chapter 23, The end of an activation)."""

import os

import pytest

BRANCH = 'branch = lambda key: ctx.branch(key, entrypoint="e", queue="q", data=None)\n'
CAUGHT = """
try:
    await ctx.local("k", add, x=1)
except WorkflowError:
    pass
"""


@pytest.fixture
def refusing(reply_to):
    """A host that acknowledges nothing."""
    return lambda request: reply_to(request, {"committed": False})


def keys(lab):
    return [request["payload"]["key"] for request in lab.host.requests]


@pytest.mark.parametrize(
    "operation",
    [
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
    ],
)
def test_after_a_failed_acknowledgement_every_operation_raises(lab, refusing, operation):
    """HLP-037, HLP-112."""
    code = CAUGHT + f"memory['refused'] = refused(lambda: {operation})\nreturn None"
    lab.refused(code, reply=refusing)
    assert lab.output("return memory.pop('refused')") is True


@pytest.mark.parametrize("made", ["ctx.complete(1)", "ctx.fail('k', 'm')", "ctx.suspend(continuation='c', state=None)"])
@pytest.mark.parametrize("how", ["refused", "closed"])
def test_a_decision_made_before_a_failed_acknowledgement_is_refused(lab, refusing, made, how):
    """HLP-112; vector 'caught fatal'; easily got wrong 1."""
    reply = refusing if how == "refused" else lambda request: None
    assert lab.refused(f"decision = {made}\n{CAUGHT}\nreturn decision", reply=reply)


def test_the_commit_of_a_step_that_ran_while_another_acknowledgement_failed(lab, refusing):
    """HLP-112, HLP-115: open, and lost with its activation either way. The published helper sends it, ours does not."""
    code = """
gate = asyncio.Event()
async def slow():
    await gate.wait()
    return 1
running = ctx.local("slow", slow)
await asyncio.sleep(0)
try:
    await ctx.local("k", add, x=1)
except WorkflowError:
    gate.set()
try:
    await running
except WorkflowError:
    pass
return 1
"""
    assert lab.refused(code, reply=refusing)
    assert keys(lab) == (["k", "slow"] if "PROTOCOL3_RUNTIME_BOOTSTRAP" in os.environ else ["k"])


def test_a_failed_acknowledgement_that_nobody_awaited_is_fatal_too(lab, refusing):
    """HLP-112, HLP-113."""
    assert lab.refused("ctx.local('k', add, x=1)\nreturn ctx.complete(None)", reply=refusing)


def test_a_failed_fork_acknowledgement_is_fatal(lab, refusing):
    """HLP-112."""
    code = BRANCH + "decision = ctx.complete(1)\nawait refused_later(ctx.fork('f', branches=[branch('b')]))\n"
    assert lab.refused(code + "return decision", reply=refusing)


def test_steps_and_forks_are_awaited_before_the_decision_is_checked(lab):
    """HLP-113: also those that controller tasks start meanwhile."""
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
    assert lab.completed(code) == "returned at once"
    assert keys(lab) == ["k3", "k2", "k1", "k0", "f"]


def test_a_command_staged_while_draining_invalidates_the_decision(lab):
    """HLP-113, HLP-124."""
    code = """
        async def controller():
            await ctx.local("k", add, x=1)
            ctx.task("late", program="p", version="1", queue="q", data=None)
        asyncio.ensure_future(controller())
        await asyncio.sleep(0)
        return ctx.continue_(continuation="c", state=None)
    """
    assert lab.refused(code)
    assert keys(lab) == ["k"]


def test_a_failure_that_no_one_awaited_fails_the_activation(lab):
    """HLP-114; vector 'unobserved failure'."""
    assert "boom" in lab.refused("ctx.local('k', boom)\nreturn ctx.complete(None)")


@pytest.mark.parametrize(
    "observe",
    [
        "await asyncio.gather(ctx.local('k', boom), return_exceptions=True)",
        "await asyncio.wait([asyncio.ensure_future(ctx.local('k', boom))])",
        "try:\n    await ctx.local('k', boom)\nexcept ValueError: pass",
        "try:\n    await ctx.gather(ctx.local('k', boom))\nexcept ValueError: pass",
        "same = [ctx.local('k', boom), ctx.local('k', boom)]\nawait asyncio.gather(same[0], return_exceptions=True)",
    ],
)
def test_a_failure_that_was_awaited_and_caught_does_not(lab, observe):
    """HLP-114; vector 'observed failure'."""
    assert lab.completed(f"{observe}\nreturn ctx.complete('fine')") == "fine"


def test_a_failure_whose_observer_was_cancelled_before_fails_the_activation(lab):
    """HLP-060, HLP-114."""
    code = """
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
    assert "unseen" in lab.refused(code)


def test_a_failed_handler_cancels_what_runs_and_waits_for_it(lab):
    """HLP-115."""
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
    assert "of the handler" in lab.refused(code)
    assert lab.host.requests == []
    assert lab.output("return memory['seen']") == ["ended", "ended"]


def test_a_function_that_ignores_its_cancellation_is_not_committed(lab, own_helper):
    """HLP-115: it had not finished when the handler failed."""
    if not own_helper:
        pytest.skip("the published helper commits the value that such a function returns")
    code = """
        async def stubborn():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "value"
        ctx.local("a", stubborn)
        await asyncio.sleep(0)
        raise ValueError("of the handler")
    """
    assert "of the handler" in lab.refused(code)
    assert lab.host.requests == []


def test_a_request_on_the_wire_is_completed_when_the_handler_fails(lab, acknowledge):
    """HLP-115: the reply is read, so that the next invocation finds a clean stream; what is queued is not sent."""
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
    host = lab.host

    def late(request):
        assert host.silent(0.05)
        return acknowledge(request)

    assert "of the handler" in lab.refused(code, reply=late)
    assert keys(lab) == ["sent"]
    assert lab.completed("return ctx.complete(1)") == 1
    assert lab.host is host


def test_nothing_outlives_the_activation(lab):
    """HLP-116, RUN-052: controller tasks are cancelled; what they then try is refused."""
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
    lab.completed(code)
    assert lab.host.requests == []
    assert lab.output("return memory['seen']") == [True, True, True]


def test_a_thread_of_a_step_ends_with_the_activation(lab):
    """HLP-116, RUN-052."""
    code = """
        import time
        def slow():
            time.sleep(0.1)
            memory["thread"] = "done"
        memory["thread"] = "running"
        asyncio.ensure_future(asyncio.to_thread(slow))
        await asyncio.sleep(0)
        return ctx.complete(None)
    """
    lab.completed(code)
    assert lab.output("return memory['thread']") == "done"


def stderr_of_the_end(lab, code, activation):
    """Run a controller that ends its process; the exit code, and what the process wrote."""
    host = lab.host
    said = len(host.stderr())
    host.send(host.invoke_frame({"code": code}, payload=activation()))
    assert host.frame() is None
    return host.wait(), host.stderr()[said:]


@pytest.mark.parametrize(
    ("ending", "exit_code"),
    [("raise asyncio.CancelledError", 1), ("raise SystemExit(5)", 5), ("raise GeneratorExit", 1)],
)
def test_a_handler_that_ends_the_process_starts_no_step_any_more(lab, activation, ending, exit_code):
    """HLP-115, RUN-058: whatever it raised, what had not begun does not begin."""
    code = f"ctx.local('k', print, sep='', end='<<ran>>')\n{ending}"
    ended, said = stderr_of_the_end(lab, code, activation)
    assert ended == exit_code
    assert "<<ran>>" not in said


def test_a_step_that_ends_the_process_lets_the_handler_clean_up(lab, activation):
    """RUN-052, RUN-058: tasks left running are cancelled when the invocation ends, whichever way it ends."""
    code = """
        def leave():
            raise SystemExit(6)
        try:
            await ctx.local("k", leave)
        finally:
            await asyncio.sleep(0)
            print("<<cleaned>>", flush=True)
    """
    ended, said = stderr_of_the_end(lab, code, activation)
    assert ended == 6
    assert "<<cleaned>>" in said
