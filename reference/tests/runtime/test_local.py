"""Local steps and operations (chapter 23, Local work)."""

import json

import pytest

FLOAT = 1e-07


def keys(lab):
    return [request["payload"]["key"] for request in lab.host.requests]


def record(key="k", name="program:add", given=None, output=1):
    return {"key": key, "callable": name, "input": {"x": 1} if given is None else given, "output": output}


def test_a_step_runs_at_the_next_turn_and_without_being_awaited(lab):
    """HLP-048, HLP-113; vector 'un-awaited local'."""
    code = """
        ctx.local("k", add, x=1)
        before = list(calls)
        await asyncio.sleep(0)
        return ctx.complete([before, len(calls)])
    """
    assert lab.completed(code) == [[], 1]
    assert keys(lab) == ["k"]
    lab.decision("ctx.local('k', add, x=1)\nreturn ctx.complete(None)")
    assert keys(lab) == ["k"]


@pytest.mark.parametrize("key", ["''", "'k' * 129", "'é' * 65", "'a\\n'", "'\\ud800'", "'\\ufffe'", "1", "None", "b'k'",
                                 "OperationKind.MODEL", "'_approval:'", "'_approval:x'"])  # fmt: skip
def test_keys_are_texts_without_the_reserved_prefix(lab, key):
    """HLP-049."""
    code = f"return ctx.complete([refused(ctx.local, {key}, add, x=1), len(calls)])"
    assert lab.completed(code) == [True, 0]


@pytest.mark.parametrize("key", ["'k' * 128", "'é' * 64", "' '", "'_approval'", "'\\u2028'"])
def test_all_other_texts_are_keys(lab, key):
    """HLP-049."""
    assert lab.completed(f"return ctx.complete(await ctx.local({key}, add, x=1))") == 1


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("add", "program:add"),
        ("lambda: 1", "program:controller.<locals>.<lambda>"),
        ("memory.keys", None),
        ("str.upper", None),
        ("Table().rows", "program:controller.<locals>.Table.rows"),
        ("Table", "program:controller.<locals>.Table"),
        ("__import__('functools').partial(add, 1)", None),
        ("CallableObject()", None),
        ("'add'", None),
        ("None", None),
        ("type('N', (), {'__call__': lambda self: 1, '__module__': '', '__qualname__': 'x'})()", None),
    ],
)
def test_the_recorded_name_is_module_and_qualified_name(lab, function, name):
    """HLP-050, HLP-051: also that bound objects are not part of the binding."""
    code = f"""
        class CallableObject:
            def __call__(self): return 1
        class Table(dict):
            def rows(self): return 1
        arguments = {{"x": 1}} if {function!r} == "add" else {{}}
        return ctx.complete(refused(ctx.local, "k", {function}, **arguments))
    """
    if name is None:
        assert lab.completed(code) is True
    elif name.endswith("Table"):
        assert lab.refused(code)  # an instance of a dict subclass is no output, but the step was started
    else:
        assert lab.completed(code) is False
        assert lab.host.requests[0]["payload"]["callable"] == name


def test_a_partial_is_refused_even_if_it_borrows_a_name(lab, own_helper):
    """HLP-050: its bound arguments would not be part of the binding."""
    if not own_helper:
        pytest.skip("the published helper refuses only partials without a name")
    code = """
        import functools
        named = functools.update_wrapper(functools.partial(add, 1), add)
        return ctx.complete(refused(ctx.local, "k", named))
    """
    assert lab.completed(code) is True


def test_the_recorded_name_has_at_most_512_bytes(lab):
    """HLP-050."""
    code = """
        def long(): return 1
        long.__qualname__ = "é" * ((512 - len("program:")) // 2)
        fits = refused(ctx.local, "k", long)
        long.__qualname__ += "x"
        return ctx.complete([fits, refused(ctx.local, "k2", long)])
    """
    assert lab.completed(code) == [False, True]


def test_the_arguments_are_bounded(lab):
    """HLP-051: 128 KiB of compact JSON."""
    code = """
        def size(value): return len(value)
        room = 128 * 1024 - len('{"value":""}')
        fits = refused(ctx.local, "small", size, value="x" * 1000)
        return ctx.complete([fits, refused(ctx.local, "k", size, value="x" * (room + 1))])
    """
    assert lab.completed(code) == [False, True]


def test_the_function_gets_its_own_copy_and_may_be_asynchronous(lab):
    """HLP-052, HLP-030."""
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
    assert lab.completed(code) == [["a", "b"], ["a", "b"], {"b": [1], "a": 2}]


def test_a_result_is_there_only_after_the_acknowledgement(lab, acknowledge):
    """HLP-053: the host answers when the observer has had every chance to go on."""
    code = """
        step = ctx.local("k", add, x=1)
        async def watch():
            for _ in range(50):
                await asyncio.sleep(0)
            memory["early"] = observer.done()
        observer = asyncio.ensure_future(asyncio.gather(step, step))
        await watch()
        first = await observer
        return ctx.complete([memory["early"], first, await step, len(calls)])
    """
    host = lab.host

    def late(request):
        assert host.silent(0.02)
        return acknowledge(request)

    assert lab.completed(code, reply=late) == [False, [1, 1], 1, 1]
    assert keys(lab) == ["k"]


def test_the_same_binding_runs_once(lab):
    """HLP-054."""
    code = """
        steps = [ctx.local("k", add, x=1) for _ in range(5)]
        first = await asyncio.gather(*steps)
        return ctx.complete([first, await ctx.local("k", add, x=1), len(calls)])
    """
    assert lab.completed(code) == [[1] * 5, 1, 1]
    assert keys(lab) == ["k"]


@pytest.mark.parametrize("other", ["add, x=2", "add, x=1.0", "add, x=True", "add, x=1, y=0", "later, value=1", "add"])
def test_another_binding_raises_at_the_call(lab, other):
    """HLP-055: against running, finished and recorded steps."""
    code = f"""
        running = ctx.local("new", add, x=1)
        found = [refused(ctx.local, "new", {other})]
        await running
        found += [refused(ctx.local, "new", {other}), refused(ctx.local, "old", {other})]
        return ctx.complete(found + [len(calls)])
    """
    assert lab.completed(code, local_steps=[record("old")]) == [True, True, True, 1]


def test_a_recorded_step_is_replayed(lab):
    """HLP-056: without a call and without a request, as often as it is asked for."""
    code = "return ctx.complete([await ctx.local('k', add, x=1), await ctx.local('k', add, x=1), len(calls)])"
    assert lab.completed(code, local_steps=[record(output=["recorded"])]) == [["recorded"], ["recorded"], 0]
    assert lab.host.requests == []


def test_a_recorded_input_need_not_be_an_object(lab):
    """RUN-062: it only never matches a call."""
    code = "return ctx.complete(refused(ctx.local, 'k', add, x=1))"
    assert lab.completed(code, local_steps=[record(given=[1])]) is True


def test_an_activation_has_128_steps(lab):
    """HLP-057: recorded and new together."""
    code = """
        for n in range(64):
            ctx.local(f"new{n}", add, x=n)
        for n in range(64):
            ctx.local(f"old{n}", add, x=1)
        return ctx.complete([refused(ctx.local, "one more", add, x=1), await ctx.local("new0", add, x=0)])
    """
    assert lab.completed(code, local_steps=[record(f"old{n}") for n in range(64)]) == [True, 0]


def test_a_record_of_128_kib_is_the_longest(lab):
    """HLP-058: the function has run, nothing is sent, and the activation goes on."""
    code = """
        def text(size):
            calls.append(size)
            return "x" * size
        name = "program:controller.<locals>.text"
        room = 128 * 1024 - len('{"callable":"","input":{"size":100000},"key":"k","output":""}') - len(name)
        assert len(str(room)) == 6
        fits = await refused_later(ctx.local("k", text, size=room))
        return ctx.complete([fits, await refused_later(ctx.local("l", text, size=room + 1)), len(calls)])
    """
    assert lab.completed(code) == [False, True, 2]
    assert keys(lab) == ["k"]
    assert len(json.dumps(lab.host.requests[0]["payload"], separators=(",", ":"))) == 128 * 1024


@pytest.mark.parametrize("earlier", [[], [record("old", output="x" * 100_000)]])
def test_a_journal_of_256_kib_is_the_longest(lab, earlier):
    """HLP-058, LIM-012: counted as a JSON array of all records, those of earlier attempts included."""
    code = """
        def text(size):
            return "x" * size
        fits = [await refused_later(ctx.local(f"k{n}", text, size=SIZE)) for n in range(3)]
        last = await refused_later(ctx.local("last", text, size=ROOM))
        return ctx.complete([fits, last, await refused_later(ctx.local("over", text, size=1))])
    """
    size = 50_000 if earlier else 70_000
    frame = {"key": "k0", "callable": "program:controller.<locals>.text", "input": {"size": size}, "output": "x" * size}
    records = [*earlier, frame, frame, frame, frame | {"key": "last", "output": ""}]
    room = 256 * 1024 - len(json.dumps(records, separators=(",", ":")))
    assert len(str(room)) == 5 == len(str(size))
    exact = code.replace("SIZE", str(size)).replace("ROOM", str(room))
    assert lab.completed(exact, local_steps=earlier) == [[False] * 3, False, True]
    beyond = code.replace("SIZE", str(size)).replace("ROOM", str(room + 1))
    assert lab.completed(beyond, local_steps=earlier)[1] is True


def test_functions_overlap_while_commits_do_not(lab):
    """HLP-059."""
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
    assert lab.completed(code) == ["start0", "start1", "start2", "end0", "end1", "end2"]


def test_a_cancelled_observer_does_not_cancel_the_step(lab):
    """HLP-060."""
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
    assert lab.completed(code) == ["timed out", True, "done", 1]


def test_a_failure_is_raised_to_every_observer_and_leaves_no_record(lab):
    """HLP-061; vector 'observed failure'."""
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
        assert lab.completed(code) == [["no"] * 3, 1]
        assert lab.host.requests == []


@pytest.mark.parametrize("function", ["raising", "raising_later", "raised_inside"])
def test_a_function_that_raises_a_cancellation_fails_the_activation(lab, function):
    """HLP-062: whether or not an observer catches it."""
    code = f"""
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
            await ctx.local("k", {function})
        except BaseException:
            pass
        return ctx.complete(None)
    """
    assert lab.refused(code)


def test_gather_waits_for_all_and_keeps_their_order(lab):
    """HLP-064."""
    code = """
        async def work(n):
            for _ in range(10 - n):
                await asyncio.sleep(0)
            return n
        mixed = [ctx.local("a", work, n=1), work(9), ctx.local("b", work, n=5), ctx.fork("f", branches=[
            ctx.branch("b1", entrypoint="e", queue="q", data=None)])]
        *found, fork = await ctx.gather(*mixed)
        return ctx.complete([found, fork.key, await ctx.gather()])
    """
    assert lab.completed(code) == [[1, 9, 5], "f", []]


def test_gather_raises_the_first_failure_in_order_and_has_seen_them_all(lab):
    """HLP-064, HLP-114."""
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
    assert lab.completed(code) == ["late", 1]
    assert keys(lab) == ["ok"]


def test_gather_takes_128_awaitables_and_does_nothing_until_awaited(lab):
    """HLP-064; easily got wrong 2."""
    code = """
        steps = [ctx.local(f"k{n % 100}", add, x=n % 100) for n in range(129)]
        over = await refused_later(ctx.gather(*steps))
        never = ctx.gather(later(1))
        await asyncio.sleep(0)
        never.close()
        return ctx.complete([over, await ctx.gather(*steps[:128]) == [n % 100 for n in range(128)]])
    """
    assert lab.completed(code) == [True, True]


def test_steps_are_scoped_to_one_activation(lab):
    """HLP-069."""
    for _ in range(2):
        assert lab.completed("return ctx.complete([await ctx.local('k', add, x=1), len(calls)])") == [1, 1]
        assert keys(lab) == ["k"]


def test_code_around_steps_runs_on_every_attempt(lab):
    """HLP-070."""
    code = "calls.append('around')\nreturn ctx.complete([await ctx.local('k', add, x=1), len(calls)])"
    assert lab.completed(code) == [1, 2]
    assert lab.completed(code, local_steps=[record()]) == [1, 1]
