"""Local steps and operations (chapter 23, Local work)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import accepted, activation
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.frames import Frame
from protocol3_conformance.wire.strict_json import compact_size, same

RECORD_BYTES, JOURNAL_BYTES = bound("LOCAL_RECORD_BYTES"), bound("LOCAL_LEDGER_BYTES")


def record(key: str = "k", name: str = "program:add", given: Any = None, output: Any = 1) -> Frame:
    return {"key": key, "callable": name, "input": {"x": 1} if given is None else given, "output": output}


@runtime_check("runtime-local/starts-by-itself", cites=["HLP-048", "HLP-113"])
async def test_starts_by_itself(lab: RuntimeLab) -> None:
    """A step is scheduled at the call and runs at the next turn, whether or not it is awaited."""
    code = """
        ctx.local("k", add, x=1)
        before = list(calls)
        await asyncio.sleep(0)
        return ctx.complete([before, len(calls)])
    """
    await lab.holds(code, [[], 1])
    assert lab.keys() == ["k"]
    await lab.completed("ctx.local('k', add, x=1)\nreturn ctx.complete(None)")
    assert lab.keys() == ["k"]


@runtime_check("runtime-local/keys", cites=["HLP-049", "HLP-023"])
async def test_keys(lab: RuntimeLab) -> None:
    """A key is a text of 1 to 128 bytes that does not begin with `_approval:`."""
    bad = ("''", "'k' * 129", "'é' * 64 + 'x'", "'a\\n'", "'\\ud800'", "'\\ufffe'", "1", "None", "b'k'",
           "OperationKind.MODEL", "'_approval:'", "'_approval:x'")  # fmt: skip
    await lab.raising(f"ctx.local({key}, add, x=1)" for key in bad)
    good = ("'k' * 127", "'k' * 128", "'é' * 64", "' '", "'_approval'", "'\\u2028'")
    await lab.passing(f"ctx.local({key}, add, x=1)" for key in good)
    assert len(lab.keys()) == len(good)


@runtime_check("runtime-local/callables", cites=["HLP-050", "HLP-051"])
async def test_callables(lab: RuntimeLab) -> None:
    """The recorded name is `module:qualname` of at most 512 bytes; what has none, and a partial, is refused."""
    await lab.raising(
        (
            "ctx.local('k', memory.keys)",
            "ctx.local('k', str.upper)",
            "ctx.local('k', __import__('functools').partial(add, 1))",
            "ctx.local('k', CallableObject())",
            "ctx.local('k', 'add')",
            "ctx.local('k', None)",
            "ctx.local('k', type('N', (), {'__call__': len, '__module__': '', '__qualname__': 'x'})())",
        ),
        before="class CallableObject:\n    def __call__(self): return 1\n",
    )
    code = """
        class Table:
            def rows(self): return 1
        def long(): return 1
        long.__qualname__ = "é" * ((512 - len("program:")) // 2)
        await ctx.gather(ctx.local("a", add, x=1), ctx.local("b", lambda: 1), ctx.local("c", Table().rows))
        fits = refused(ctx.local, "d", long)
        long.__qualname__ += "x"
        return ctx.complete([fits, refused(ctx.local, "e", long)])
    """
    await lab.holds(code, [False, True])
    names = [request["payload"]["callable"] for request in lab.requests]
    inside = "program:controller.<locals>"
    assert names[:3] == ["program:add", f"{inside}.<lambda>", f"{inside}.Table.rows"]
    assert len(names[3].encode()) == 512


@runtime_check("runtime-local/argument-bound", cites=["HLP-051", "HLP-058"])
async def test_argument_bound(lab: RuntimeLab) -> None:
    """Keyword arguments have at most 128 KiB of compact JSON; a larger one raises at the call."""
    room = RECORD_BYTES - compact_size({"value": ""})
    await lab.raising([f"ctx.local('k', identity, value='x' * {room + 1})"])
    await lab.raising([f"ctx.local('k', identity, **{{'value': 'x' * {room}, 'more': 1}})"])


@runtime_check("runtime-local/own-copies", cites=["HLP-052", "HLP-030"])
async def test_own_copies(lab: RuntimeLab) -> None:
    """The function gets a copy of its arguments, and may be asynchronous."""
    code = """
        value = {"b": [1], "a": 2}
        def change(value):
            value["b"].append(2)
            return list(value)
        async def change_later(value):
            await asyncio.sleep(0)
            return change(value)
        step = await ctx.local("k", change, value=value)
        return ctx.complete([step, await ctx.local("k2", change_later, value=value), value])
    """
    await lab.holds(code, [["a", "b"], ["a", "b"], {"b": [1], "a": 2}])


@runtime_check("runtime-local/after-the-acknowledgement", cites=["HLP-053", "RUN-079"])
async def test_after_the_acknowledgement(lab: RuntimeLab) -> None:
    """An observer goes on only after the acknowledgement; the result may be awaited again and by several."""
    code = """
        import os
        step = ctx.local("k", add, x=1)
        observer = asyncio.ensure_future(asyncio.gather(step, step))
        for _ in range(50):
            await asyncio.sleep(0)
        os.write(2, b"<early>" if observer.done() else b"<waits>")
        return ctx.complete([await observer, await step, len(calls)])
    """
    program = await lab.task_program()
    await program.send(program.invocation({"code": code}, payload=activation()))
    request = await program.frame()
    assert request is not None
    await program.process.until("the observer's look", lambda: "<" in program.process.stderr())
    assert "<waits>" in program.process.stderr()
    await program.send(accepted(request))
    assert (await program.result())["output"]["output"] == [[1, 1], 1, 1]


@runtime_check("runtime-local/same-binding", cites=["HLP-054"])
async def test_same_binding(lab: RuntimeLab) -> None:
    """The same key with the same binding is one execution and one record."""
    code = """
        first = await asyncio.gather(*[ctx.local("k", add, x=1) for _ in range(5)])
        return ctx.complete([first, await ctx.local("k", add, x=1), len(calls)])
    """
    await lab.holds(code, [[1] * 5, 1, 1])
    assert lab.keys() == ["k"]


@runtime_check("runtime-local/other-binding", cites=["HLP-055", "HLP-051"])
async def test_other_binding(lab: RuntimeLab) -> None:
    """The same key with another binding raises at the call, against running, finished and recorded steps."""
    others = ("add, x=2", "add, x=1.0", "add, x=True", "add, x=1, y=0", "later, value=1", "add")
    rows = "".join(f"    refused(ctx.local, key, {other}),\n" for other in others)
    code = f"""
def all_refused(key): return all([
{rows}])
running = ctx.local("new", add, x=1)
found = [all_refused("new"), all_refused("old")]
await running
return ctx.complete([*found, all_refused("new"), len(calls)])
"""
    await lab.holds(code, [True, True, True, 1], local_steps=[record("old")])


@runtime_check("runtime-local/replay", cites=["HLP-056", "HLP-069", "HLP-070", "RUN-062"])
async def test_replay(lab: RuntimeLab) -> None:
    """A recorded step gives its output without call or request; code around it runs again."""
    code = "memory['around'] = memory.get('around', 0) + 1\n"
    code += "return ctx.complete([await ctx.local('k', add, x=1), await ctx.local('k', add, x=1), len(calls)])"
    await lab.holds(code, [1, 1, 1])
    await lab.holds(code, [["recorded"], ["recorded"], 0], local_steps=[record(output=["recorded"])])
    assert lab.requests == []
    await lab.holds(code, [1, 1, 1], activation_id="task_2", invoke={"event": {"ldgtaskid": "task_2"}})
    assert await lab.output("return memory['around']") == 3
    await lab.raising(["ctx.local('k', add, x=1)"], local_steps=[record(given=[1])])


@runtime_check("runtime-local/128-keys", cites=["HLP-057"])
async def test_128_keys(lab: RuntimeLab) -> None:
    """An activation has at most 128 keys, recorded and new together; the 129th raises at the call."""
    half = bound("LOCAL_RECORDS") // 2
    code = f"""
        for n in range({half}):
            ctx.local(f"new{{n}}", add, x=n)
        found = refused(ctx.local, "one more", add, x=1)
        return ctx.complete([found, await ctx.local("new0", add, x=0), await ctx.local("old0", add, x=1)])
    """
    await lab.holds(code, [True, 0, 1], local_steps=[record(f"old{n}") for n in range(half)])
    assert len(lab.requests) == half
    await lab.holds(code, [False, 0, 1], local_steps=[record(f"old{n}") for n in range(half - 1)])


@runtime_check("runtime-local/record-bound", cites=["HLP-058"])
async def test_record_bound(lab: RuntimeLab) -> None:
    """A record of 128 KiB is sent; one byte more raises after the call, before any request, and is not fatal."""
    code = """
        def text(size):
            calls.append(size)
            return "x" * size
        found = [await refused_later(ctx.local(key, text, size=size)) for key, size in SIZES]
        return ctx.complete([found, len(calls), await ctx.local("next", add, x=1)])
    """
    empty = record("k", "program:controller.<locals>.text", {"size": 100_000}, "")
    room = RECORD_BYTES - compact_size(empty)
    sizes = [["k", room - 1], ["l", room], ["m", room + 1]]
    await lab.holds(code.replace("SIZES", repr(sizes[1:])), [[False, True], 2, 1])
    assert lab.keys() == ["l", "next"]
    assert compact_size(lab.requests[0]["payload"]) == RECORD_BYTES
    await lab.holds(code.replace("SIZES", repr(sizes[:1])), [[False], 1, 1])


@runtime_check("runtime-local/journal-bound", cites=["HLP-058", "JSON-063"])
async def test_journal_bound(lab: RuntimeLab) -> None:
    """All records of the activation together have at most 256 KiB, those of earlier attempts included."""
    code = """
        def text(size):
            return "x" * size
        fits = [await refused_later(ctx.local(f"k{n}", text, size=SIZE)) for n in range(3)]
        last = await refused_later(ctx.local("last", text, size=ROOM))
        return ctx.complete([fits, last, await refused_later(ctx.local("over", text, size=1))])
    """
    for earlier, size in (([], 70_000), ([record("old", output="x" * 100_000)], 50_000)):
        made = record("k0", "program:controller.<locals>.text", {"size": size}, "x" * size)
        room = JOURNAL_BYTES - compact_size([*earlier, made, made, made, made | {"key": "last", "output": ""}])
        for more in (0, 1):
            with lab.case(f"{len(earlier)} earlier, {more} too many"):
                sized = code.replace("SIZE", str(size)).replace("ROOM", str(room + more))
                found = await lab.completed(sized, local_steps=earlier)
                assert found[:2] == [[False] * 3, more == 1]
                assert more or found[2] is True


@runtime_check("runtime-local/functions-overlap", cites=["HLP-059", "HLP-052"])
async def test_functions_overlap(lab: RuntimeLab) -> None:
    """Functions may overlap, while commits are sent one at a time."""
    code = """
        order = []
        async def work(n):
            order.append(f"start{n}")
            for _ in range(5):
                await asyncio.sleep(0)
            order.append(f"end{n}")
            return n
        await ctx.gather(*(ctx.local(f"k{n}", work, n=n) for n in range(3)))
        return ctx.complete(order)
    """
    await lab.holds(code, ["start0", "start1", "start2", "end0", "end1", "end2"])
    code = """
        def scheduled():
            return asyncio.ensure_future(asyncio.sleep(0, "awaited"))
        return ctx.complete(await ctx.local("k", scheduled))
    """
    await lab.holds(code, "awaited")


@runtime_check("runtime-local/cancelled-observer", cites=["HLP-060"])
async def test_cancelled_observer(lab: RuntimeLab) -> None:
    """An observer that is cancelled or times out does not cancel the step."""
    code = """
        gate = asyncio.Event()
        async def work():
            calls.append("start")
            await gate.wait()
            return "done"
        step = ctx.local("k", work)
        found = []
        try:
            await asyncio.wait_for(step, 0.001)
        except TimeoutError:
            found.append("timed out")
        observer = asyncio.ensure_future(step)
        await asyncio.sleep(0)
        observer.cancel()
        await asyncio.gather(observer, return_exceptions=True)
        gate.set()
        return ctx.complete([*found, observer.cancelled(), await step, len(calls)])
    """
    await lab.holds(code, ["timed out", True, "done", 1])


@runtime_check("runtime-local/failures", cites=["HLP-061", "HLP-114"])
async def test_failures(lab: RuntimeLab) -> None:
    """A failure is raised to every observer and leaves no record; the function may run again in a later attempt."""
    code = """
        step = ctx.local("k", boom, message="no")
        found = []
        for awaitable in (step, step, ctx.local("k", boom, message="no")):
            try:
                await awaitable
            except ValueError as error:
                found.append(str(error))
        return ctx.complete([found, len(calls)])
    """
    for _ in range(2):
        await lab.holds(code, [["no"] * 3, 1])
        assert lab.requests == []


@runtime_check("runtime-local/raised-cancellations", cites=["HLP-062"])
async def test_raised_cancellations(lab: RuntimeLab) -> None:
    """A function that raises a cancellation fails the activation, even if an observer caught it."""
    code = """
        def raising():
            raise asyncio.CancelledError
        async def raising_later():
            await asyncio.sleep(0)
            raise asyncio.CancelledError
        async def raised_inside():
            task = asyncio.ensure_future(asyncio.sleep(10))
            task.cancel()
            await task
        try:
            await ctx.local("k", FUNCTION)
        except BaseException:
            pass
        return ctx.complete(None)
    """
    for function in ("raising", "raising_later", "raised_inside"):
        with lab.case(function):
            await lab.refused(code.replace("FUNCTION", function))


@runtime_check("runtime-local/gather", cites=["HLP-064"], profile="core forks")
async def test_gather(lab: RuntimeLab) -> None:
    """`gather` waits for all, keeps their order, takes 128, and does nothing until it is awaited."""
    code = """
        async def work(n):
            for _ in range(10 - n):
                await asyncio.sleep(0)
            return n
        branches = [ctx.branch("b1", entrypoint="e", queue="q", data=None)]
        mixed = [ctx.local("a", work, n=1), work(9), ctx.local("b", work, n=5), ctx.fork("f", branches=branches)]
        *found, fork = await ctx.gather(*mixed)
        return ctx.complete([found, fork.key, await ctx.gather()])
    """
    await lab.holds(code, [[1, 9, 5], "f", []])
    code = """
        steps = [ctx.local(f"k{n % 100}", add, x=n % 100) for n in range(129)]
        over = await refused_later(ctx.gather(*steps))
        never = ctx.gather(later(1))
        await asyncio.sleep(0)
        never.close()
        return ctx.complete([over, await ctx.gather(*steps[:128]) == [n % 100 for n in range(128)]])
    """
    await lab.holds(code, [True, True])


@runtime_check("runtime-local/gather-failures", cites=["HLP-064", "HLP-114"])
async def test_gather_failures(lab: RuntimeLab) -> None:
    """`gather` raises the first failure in the order of its arguments and has observed them all."""
    code = """
        async def late():
            for _ in range(20):
                await asyncio.sleep(0)
            raise KeyError("late")
        def early():
            raise ValueError("early")
        try:
            await ctx.gather(ctx.local("ok", add, x=1), ctx.local("late", late), ctx.local("early", early))
        except KeyError as error:
            return ctx.complete([error.args[0], len(calls)])
    """
    await lab.holds(code, ["late", 1])
    assert lab.keys() == ["ok"]


ASK = """
def ask(prompt, temperature=0.5, *, limit=10, **more):
    calls.append([prompt, temperature, limit, more])
    return "answer"
"""
CALL = "ctx.operation('k', ask, kind=OperationKind.MODEL, version='2024', arguments={'prompt': 'hi'})"
EFFECTIVE = {"prompt": "hi", "temperature": 0.5, "limit": 10}
OPERATION = record(
    "k",
    "model:program:controller.<locals>.ask",
    {"v": 1, "kind": "model", "version": "2024", "arguments": EFFECTIVE},
    "answer",
)


@runtime_check("runtime-operation/record", cites=["HLP-066", "HLP-067", "HLP-056", "HLP-068"])
async def test_operation_record(lab: RuntimeLab) -> None:
    """The record names kind and version and the effective arguments; it is replayed like any other."""
    code = ASK + f"return ctx.complete([await {CALL}, calls])"
    await lab.holds(code, ["answer", [["hi", 0.5, 10, {}]]])
    assert same(lab.requests[0]["payload"], OPERATION)
    await lab.holds(code, ["recorded", []], local_steps=[OPERATION | {"output": "recorded"}])
    same_call = CALL.replace("'hi'", "'hi', 'limit': 10, 'temperature': 0.5")
    await lab.holds(ASK + f"return ctx.complete([await {CALL}, await {same_call}, len(calls)])", ["answer"] * 2 + [1])
    more = CALL.replace("'hi'", "'hi', 'extra': 1")
    await lab.holds(ASK + f"await {more}\nreturn ctx.complete(calls)", [["hi", 0.5, 10, {"extra": 1}]])
    assert lab.requests[0]["payload"]["input"]["arguments"] == EFFECTIVE | {"extra": 1}


@runtime_check("runtime-operation/other-binding", cites=["HLP-055", "HLP-068"])
async def test_operation_other_binding(lab: RuntimeLab) -> None:
    """Operations share the keys of local steps; a plain step never matches one."""
    await lab.raising(
        (
            "ctx.local('k', ask, prompt='hi')",
            "ctx.local('k', ask, v=1, kind='model', version='2024', prompt='', arguments={})",
            CALL.replace("MODEL", "TOOL"),
            CALL.replace("2024", "2025"),
            CALL.replace("'hi'", "'hi', 'limit': 11"),
            CALL.replace("ask", "add").replace("prompt", "x"),
        ),
        before=ASK + CALL,
    )


@runtime_check("runtime-operation/arguments", cites=["HLP-065", "HLP-066"])
async def test_operation_arguments(lab: RuntimeLab) -> None:
    """Kind, version and arguments have their exact types; a call that does not bind is refused."""
    call = "ctx.operation('k', add, kind=KIND, version=VERSION, arguments=ARGUMENTS)"
    good = {"KIND": "OperationKind.TOOL", "VERSION": "'1'", "ARGUMENTS": "{'x': 1}"}
    bad = {
        "KIND": ("'model'", "None", "ApprovalStatus.PENDING", "OperationKind", "'tool'"),
        "VERSION": ("''", "None", "1", "'v' * 129", "'a\\n'", "OperationKind.MODEL"),
        "ARGUMENTS": ("[]", "None", "__import__('collections').OrderedDict(x=1)", "{1: 2}", "{'x': object()}"),
    }
    rows = []
    for name, values in bad.items():
        for value in values:
            row = call
            for place, usual in (good | {name: value}).items():
                row = row.replace(place, usual)
            rows.append(row)
    await lab.raising(rows)
    shapes = (
        ("x", "{}"),
        ("x", "{'y': 1}"),
        ("x", "{'x': 1, 'y': 1}"),
        ("x, /", "{'x': 1}"),
        ("x=1, /", "{}"),
        ("x, /, y", "{'x': 1, 'y': 1}"),
        ("x=object()", "{}"),
    )
    for signature, arguments in shapes:
        with lab.case(f"({signature}) with {arguments}"):
            named = call.replace("add", "fn")
            for place, usual in (good | {"ARGUMENTS": arguments}).items():
                named = named.replace(place, usual)
            await lab.raising([named], before=f"def fn({signature}): return 1\n")
    code = """
        def fn(*args, x): return [list(args), x]
        return ctx.complete(await ctx.operation("k", fn, kind=OperationKind.TOOL, version="1", arguments={"x": 1}))
    """
    await lab.holds(code, [[], 1])
