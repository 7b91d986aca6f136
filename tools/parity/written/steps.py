"""Local steps, gathers, operations, forks: when they run, what they bind, how they fail (3.7, 3.11)."""

from collections.abc import Iterator

from parity.case import Case, controller

BRANCH = "ctx.branch('b', entrypoint='e', queue='q', data=[1])"
BRANCHES = "[ctx.branch(k, entrypoint='e', queue='q', data=k) for k in 'xyz']"

BODIES = {
    "awaited": "return ctx.complete(await ctx.local('k', add, x=1, y=2))",
    "awaited-twice": "r = ctx.local('k', add, x=1)\nreturn ctx.complete([await r, await r])",
    "unawaited": "ctx.local('k', add, x=1)\nreturn ctx.complete(calls)",
    "unawaited-failing": "ctx.local('k', boom)\nreturn ctx.complete(1)",
    "unawaited-failing-later": (
        "async def f():\n    await asyncio.sleep(0)\n    raise ValueError('said: f')\nctx.local('k', f)\nreturn ctx.complete(1)"
    ),
    "failing-caught": "try:\n    await ctx.local('k', boom)\nexcept ValueError as e:\n    return ctx.complete(str(e))",
    "failing-raised": "await ctx.local('k', boom, message='said: boom')",
    "failing-seen-by-two": (
        "r = ctx.local('k', boom)\nfound = await asyncio.gather(r, ctx.local('k', boom), return_exceptions=True)\n"
        "return ctx.complete([str(e) for e in found] + calls)"
    ),
    "same-key-same-binding": (
        "a, b = ctx.local('k', add, x=1), ctx.local('k', add, x=1)\nreturn ctx.complete([await a, await b, len(calls)])"
    ),
    "same-key-after": "a = await ctx.local('k', add, x=1)\nreturn ctx.complete([a, await ctx.local('k', add, x=1), len(calls)])",
    "same-key-other-argument": "ctx.local('k', add, x=1)\nreturn ctx.complete(refused(ctx.local, 'k', add, x=2))",
    "same-key-other-function": "ctx.local('k', add, x=1)\nreturn ctx.complete(refused(ctx.local, 'k', identity, x=1))",
    "same-key-after-failure": (
        "try:\n    await ctx.local('k', boom)\nexcept ValueError:\n    pass\n"
        "try:\n    await ctx.local('k', boom)\nexcept ValueError as e:\n    return ctx.complete([str(e), len(calls)])"
    ),
    "number-identity": (
        "ctx.local('k', identity, value=1)\n"
        "return ctx.complete([refused(ctx.local, 'k', identity, value=v) for v in (1.0, True, -0.0, '1', 1)])"
    ),
    "member-order": (
        "ctx.local('k', identity, value={'a': 1, 'b': (2,)})\n"
        "return ctx.complete(refused(ctx.local, 'k', identity, value={'b': [2], 'a': 1}))"
    ),
    "sorted-copies": "v = await ctx.local('k', lambda: {'b': (1,), 'a': 2, 'ä': 3})\nreturn ctx.complete([list(v), v])",
    "sorted-arguments": (
        "def f(**given):\n    return [list(given), list(given['o'])]\n"
        "return ctx.complete(await ctx.local('k', f, b=1, a=2, o={'z': 1, 'y': 2}))"
    ),
    "arguments-are-copies": (
        "given = [1]\nr = ctx.local('k', identity, value=given)\ngiven.append(2)\nreturn ctx.complete(await r)"
    ),
    "results-are-copies": (
        "r = ctx.local('k', lambda: [1])\n(await r).append(2)\nreturn ctx.complete([await r, await ctx.local('k2', len, obj=[])])".replace(
            "len, obj", "identity, value"
        )
    ),
    "lambda": "return ctx.complete(await ctx.local('k', lambda: 1))",
    "nested-function": "def f(x):\n    return x\nreturn ctx.complete(await ctx.local('k', f, x='a'))",
    "method": "return ctx.complete(await ctx.local('k', 'text'.upper))",
    "bound-method": (
        "class C:\n    def m(self, x):\n        return x\nreturn ctx.complete(await ctx.local('k', C().m, x=1))"
    ),
    "class": "return ctx.complete(await ctx.local('k', dict, a=1))",
    "builtin": "return ctx.complete(await ctx.local('k', print, sep='', end='<<printed>>\\n', flush=True))",
    "partial": "import functools\nreturn ctx.complete(refused(ctx.local, 'k', functools.partial(add, 1)))",
    "partial-with-name": (
        "import functools\np = functools.update_wrapper(functools.partial(add, 1), add)\n"
        "return ctx.complete(refused(ctx.local, 'k', p))"
    ),
    "instance": (
        "class C:\n    def __call__(self):\n        return 1\nreturn ctx.complete(refused(ctx.local, 'k', C()))"
    ),
    "named-instance": (
        "class C:\n    __qualname__ = 'C'\n    def __call__(self):\n        return 1\nc = C()\nc.__qualname__ = 'q'\n"
        "return ctx.complete(await ctx.local('k', c))"
    ),
    "empty-module": "def f():\n    return 1\nf.__module__ = ''\nreturn ctx.complete(refused(ctx.local, 'k', f))",
    "none-module": "def f():\n    return 1\nf.__module__ = None\nreturn ctx.complete(refused(ctx.local, 'k', f))",
    "odd-qualname": "def f():\n    return 1\nf.__qualname__ = 'a b:c ä'\nreturn ctx.complete(await ctx.local('k', f))",
    "control-qualname": "def f():\n    return 1\nf.__qualname__ = 'a\\nb'\nreturn ctx.complete(refused(ctx.local, 'k', f))",
    "long-qualname": (
        "def f():\n    return 1\nf.__module__ = 'm'\nf.__qualname__ = 'q' * 510\nctx.local('k', f)\n"
        "f.__qualname__ = 'q' * 511\nreturn ctx.complete(refused(ctx.local, 'l', f))"
    ),
    "not-callable": "return ctx.complete(refused(ctx.local, 'k', 5))",
    "wrong-arguments": "try:\n    await ctx.local('k', add)\nexcept TypeError:\n    return ctx.complete('type')",
    "positional": "try:\n    ctx.local('k', add, 1)\nexcept TypeError:\n    return ctx.complete('type')",
    "argument-called-key": (
        "def f(key, fn):\n    return [key, fn]\ntry:\n    return ctx.complete(await ctx.local('k', f, **{'key': 1, 'fn': 2}))\n"
        "except TypeError:\n    return ctx.complete('type')"
    ),
    "argument-called-self": (
        "def f(**given):\n    return given\ntry:\n    return ctx.complete(await ctx.local('k', f, **{'self': 1}))\n"
        "except TypeError:\n    return ctx.complete('type')"
    ),
    "arguments-named-inside": (
        "def f(**given):\n    return given\nnames = ['name', 'kwargs', 'arguments', 'binding', 'kind', 'version', 'ctx', 'context']\n"
        "return ctx.complete(await ctx.local('k', f, **{name: 1 for name in names}))"
    ),
    "unicode-argument": "return ctx.complete(await ctx.local('ä𝄞', identity, value='ä\\u2028𝄞'))",
    "async": "return ctx.complete(await ctx.local('k', later, value=3, turns=4))",
    "awaitable": (
        "class A:\n    def __await__(self):\n        yield from asyncio.sleep(0).__await__()\n        return 9\n"
        "return ctx.complete(await ctx.local('k', lambda: A()))"
    ),
    "async-generator": "async def f():\n    yield 1\nreturn ctx.complete(await refused_later(ctx.local('k', f)))",
    "bad-output": "return ctx.complete(await refused_later(ctx.local('k', lambda: {1})))",
    "bad-output-unseen": "ctx.local('k', lambda: {1})\nreturn ctx.complete(1)",
    "record-bytes": (
        "found = []\nfor n in (130980, 131000, 131072):\n"
        "    found.append(await refused_later(ctx.local(f'k{n}', lambda n=n: 'x' * n)))\nreturn ctx.complete(found)"
    ),
    "record-edge": (
        "def f():\n    return 'x'\nf.__module__, f.__qualname__ = 'm', 'f'\nfound = []\n"
        'base = len(\'{"callable":"m:f","input":{},"key":"a","output":""}\')\n'
        "for key, n in (('a', 131072 - base), ('b', 131073 - base)):\n"
        "    def g(n=n):\n        return 'x' * n\n    g.__module__, g.__qualname__ = 'm', 'f'\n"
        "    found.append(await refused_later(ctx.local(key, g)))\nreturn ctx.complete(found)"
    ),
    "journal-bytes": (
        "found = []\nfor n in range(4):\n    found.append(await refused_later(ctx.local(f'k{n}', lambda: 'x' * 80000)))\n"
        "return ctx.complete(found)"
    ),
    "journal-129": (
        "found = []\nfor n in range(130):\n    try:\n        ctx.local(f'k{n}', add, x=n)\n"
        "    except Exception as e:\n        found.append([n, type(e).__name__])\nreturn ctx.complete(found)"
    ),
    "argument-bytes": (
        "return ctx.complete([refused(ctx.local, f'k{n}', identity, value='x' * n) for n in (131000, 131060, 131061, 131072)])"
    ),
    "inside-local": (
        "def f():\n    found = []\n    for action in (\n        lambda: ctx.local('x', add, x=1), lambda: ctx.complete(1),\n"
        "        lambda: ctx.continue_(continuation='c', state=None), lambda: ctx.fail('k', 'm'), lambda: ctx.get_result('x'),\n"
        "        lambda: ctx.task('t', program='p', version='1', queue='q', data=1), lambda: ctx.branch('b', entrypoint='e', queue='q', data=1),\n"
        "        lambda: ctx.sleep('s', 1, continuation='c', state=None), lambda: ctx.suspend(continuation='c', state=None),\n"
        "        lambda: ctx.wait_event('w', continuation='c', state=None), lambda: ctx.state, lambda: ctx.inputs, lambda: ctx.wake,\n"
        "        lambda: ctx.revision, lambda: ctx.entrypoint, lambda: ctx.approval, lambda: workflow_context() is ctx,\n"
        "        lambda: ctx.operation('o', add, kind=OperationKind.TOOL, version='1', arguments={'x': 1}),\n"
        "        lambda: ctx.approved_local(add, version='1'),\n"
        "    ):\n        try:\n            value = action()\n            found.append(value if value is None or value in (True, False, 0) or isinstance(value, (str, dict)) else 'object')\n"
        "        except Exception as e:\n            found.append(type(e).__name__)\n    return found\n"
        "return ctx.complete(await ctx.local('k', f))"
    ),
    "inside-local-gather": (
        "async def f():\n    return [await refused_later(ctx.gather()), await refused_later(ctx.fork('f', branches=()))]\n"
        "return ctx.complete(await ctx.local('k', f))"
    ),
    "inside-local-task": (
        "async def f():\n    async def g():\n        return refused(ctx.complete, 1)\n    return await asyncio.create_task(g())\n"
        "return ctx.complete(await ctx.local('k', f))"
    ),
    "inside-local-thread": (
        "async def f():\n    return await asyncio.to_thread(lambda: refused(ctx.complete, 1))\n"
        "return ctx.complete(await ctx.local('k', f))"
    ),
    "from-thread": (
        "return ctx.complete(await asyncio.to_thread(lambda: [refused(ctx.complete, 1), refused(ctx.local, 'k', add, x=1), ctx.state]))"
    ),
    "from-other-loop": (
        "def f():\n    async def g():\n        return [refused(ctx.complete, 1), refused(ctx.local, 'k', add, x=1)]\n    return asyncio.run(g())\n"
        "return ctx.complete(await asyncio.to_thread(f))"
    ),
    "cancelled-observer": (
        "async def watch():\n    return await r\nr = ctx.local('k', later, value=1, turns=5)\nt = asyncio.create_task(watch())\n"
        "await asyncio.sleep(0)\nt.cancel()\nfound = await asyncio.gather(t, return_exceptions=True)\n"
        "return ctx.complete([type(found[0]).__name__, await r])"
    ),
    "timed-out-observer": (
        "async def f():\n    await go.wait()\n    return 2\ngo = asyncio.Event()\nr = ctx.local('k', f)\n"
        "try:\n    await asyncio.wait_for(r, 0.001)\nexcept TimeoutError:\n    go.set()\n    return ctx.complete(await r)"
    ),
    "step-raises-cancelled": (
        "def f():\n    raise asyncio.CancelledError\ntry:\n    await ctx.local('k', f)\n"
        "except asyncio.CancelledError:\n    return ctx.complete('caught')"
    ),
    "step-raises-cancelled-unseen": "def f():\n    raise asyncio.CancelledError\nctx.local('k', f)\nreturn ctx.complete(1)",
    "step-raises-cancelled-gathered": (
        "def f():\n    raise asyncio.CancelledError\nfound = await asyncio.gather(ctx.local('k', f), return_exceptions=True)\n"
        "return ctx.complete(1)"
    ),
    "step-raises-timeout": (
        "def f():\n    raise TimeoutError('said: t')\ntry:\n    await ctx.local('k', f)\nexcept TimeoutError as e:\n    return ctx.complete(str(e))"
    ),
    "step-raises-workflow-error": (
        "def f():\n    raise workflow.WorkflowError('said: w')\nr = await refused_later(ctx.local('k', f))\n"
        "return ctx.complete([r, await ctx.local('l', add, x=1)])"
    ),
    "handler-raises-with-steps": (
        "async def f():\n    try:\n        await asyncio.Event().wait()\n    finally:\n        print('<<stopped>>', flush=True)\n"
        "ctx.local('k', f)\nawait asyncio.sleep(0)\nawait asyncio.sleep(0)\nraise ValueError('said: h')"
    ),
    "handler-raises-step-not-begun": "ctx.local('k', add, x=1)\nraise ValueError('said: h')",
    "handler-raises-step-stubborn": (
        "async def f():\n    try:\n        await asyncio.Event().wait()\n    except asyncio.CancelledError:\n        return 1\n"
        "ctx.local('k', f)\nawait asyncio.sleep(0)\nawait asyncio.sleep(0)\nraise ValueError('said: h')"
    ),
    "started-while-draining": (
        "async def more():\n    await asyncio.sleep(0)\n    ctx.local('l', add, x=2)\n"
        "async def f():\n    for _ in range(10):\n        await asyncio.sleep(0)\n    return 1\n"
        "ctx.local('k', f)\nmemory['t'] = asyncio.create_task(more())\nreturn ctx.complete(1)"
    ),
    "used-after-end": "memory['ctx'] = ctx\nreturn ctx.complete(1)",
    "gather": "return ctx.complete(await ctx.gather(ctx.local('a', later, value=1, turns=3), later(2), ctx.local('b', add, x=3)))",
    "gather-empty": "return ctx.complete(await ctx.gather())",
    "gather-fails": (
        "try:\n    await ctx.gather(ctx.local('a', later, value=1, turns=9), ctx.local('b', boom, message='said: b'), ctx.local('c', boom, message='said: c'))\n"
        "except ValueError as e:\n    return ctx.complete(str(e))"
    ),
    "gather-fails-first-in-order": (
        "async def slow():\n    for _ in range(5):\n        await asyncio.sleep(0)\n    raise KeyError('slow')\n"
        "try:\n    await ctx.gather(ctx.local('a', slow), ctx.local('b', boom))\nexcept Exception as e:\n    return ctx.complete(type(e).__name__)"
    ),
    "gather-128": "return ctx.complete(await ctx.gather(*[later(n) for n in range(128)]))",
    "gather-129": (
        "many = [later(n) for n in range(129)]\nfound = await refused_later(ctx.gather(*many))\nfor one in many:\n    one.close()\nreturn ctx.complete(found)"
    ),
    "gather-no-awaitable": "try:\n    await ctx.gather(1)\nexcept Exception as e:\n    return ctx.complete(type(e).__name__)",
    "gather-unawaited": "c = ctx.gather(later(1))\nc.close()\nreturn ctx.complete(1)",
    "gather-same": "r = ctx.local('k', add, x=1)\nreturn ctx.complete(await ctx.gather(r, r, ctx.local('k', add, x=1)))",
    "gather-cancelled-member": (
        "async def f():\n    raise asyncio.CancelledError\ntry:\n    await ctx.gather(f())\nexcept asyncio.CancelledError:\n    return ctx.complete('cancelled')"
    ),
    "gather-nested": "return ctx.complete(await ctx.gather(ctx.gather(later(1), later(2)), ctx.gather()))",
    "asyncio-gather": (
        "return ctx.complete(await asyncio.gather(*[ctx.local(f'k{n}', later, value=n, turns=5 - n) for n in range(5)]))"
    ),
    "overlap": (
        "order = []\nasync def f(n):\n    for _ in range(n):\n        await asyncio.sleep(0)\n    order.append(n)\n    return n\n"
        "await ctx.gather(*[ctx.local(f'k{n}', f, n=n) for n in (9, 6, 3)])\nreturn ctx.complete(order)"
    ),
    "operation": "return ctx.complete(await ctx.operation('k', add, kind=OperationKind.MODEL, version='v', arguments={'x': 1}))",
    "operation-default-added": "return ctx.complete(await ctx.operation('k', add, kind=OperationKind.TOOL, version='v', arguments={'x': 1}))",
    "operation-kinds": (
        "def go(kind):\n    return refused(ctx.operation, 'k', add, kind=kind, version='v', arguments={'x': 1})\n"
        "class Other(__import__('enum').StrEnum):\n    MODEL = 'model'\n"
        "return ctx.complete([go('model'), go(Other.MODEL), go(None), go(OperationKind.MODEL)])"
    ),
    "operation-arguments": (
        "keys = []\ndef go(fn, arguments):\n    try:\n        keys.append(1)\n        ctx.operation(f'k{len(keys)}', fn, kind=OperationKind.TOOL, version='v', arguments=arguments)\n"
        "        return True\n    except Exception as e:\n        return type(e).__name__\n"
        "def po(a, /):\n    return a\ndef va(*a):\n    return list(a)\ndef kw(a, **more):\n    return [a, more]\ndef ko(*, a=1):\n    return a\n"
        "class D(dict):\n    pass\n"
        "found = [go(fn, arguments) for fn in (add, po, va, kw, ko, dict, later, 'text'.split) for arguments in ({}, {'a': 1}, {'x': 1}, {'x': 1, 'z': 2}, [], None, D(), {1: 2})]\n"
        "return ctx.fail('seen', 'said: ' + repr(found))"
    ),
    "operation-then-local": (
        "ctx.operation('k', add, kind=OperationKind.TOOL, version='v', arguments={'x': 1})\n"
        "return ctx.complete([refused(ctx.local, 'k', add, x=1), refused(ctx.operation, 'k', add, kind=OperationKind.TOOL, version='w', arguments={'x': 1}),"
        " refused(ctx.operation, 'k', add, kind=OperationKind.MODEL, version='v', arguments={'x': 1}), refused(ctx.operation, 'k', add, kind=OperationKind.TOOL, version='v', arguments={'x': 1, 'y': 0})])"
    ),
    "operation-extra": (
        "def f(a, b=2, *, c=3, **more):\n    return [a, b, c, more]\n"
        "return ctx.complete(await ctx.operation('k', f, kind=OperationKind.TOOL, version='v', arguments={'a': 1, 'z': 9, 'b': 5}))"
    ),
    "operation-bad-default": (
        "def f(a={1}):\n    return 1\nreturn ctx.complete(refused(ctx.operation, 'k', f, kind=OperationKind.TOOL, version='v', arguments={}))"
    ),
    "operation-var-keyword-name": (
        "def f(**more):\n    return more\nreturn ctx.complete(await ctx.operation('k', f, kind=OperationKind.TOOL, version='v', arguments={'more': 1, 'self': 2}))"
    ),
    "fork": f"f = await ctx.fork('f', branches={BRANCHES})\nreturn ctx.join(f, resume='r', state=list(f.branch_keys))",
    "fork-tuple": f"f = await ctx.fork('f', branches=tuple({BRANCHES}))\nreturn ctx.complete([f.key, list(f.branch_keys), type(f.branch_keys).__name__])",
    "fork-unawaited": f"c = ctx.fork('f', branches=[{BRANCH}])\nc.close()\nreturn ctx.complete(1)",
    "fork-as-task": f"memory['t'] = asyncio.create_task(ctx.fork('f', branches=[{BRANCH}]))\nawait asyncio.sleep(0)\nreturn ctx.complete(1)",
    "fork-as-task-not-begun": f"memory['t'] = asyncio.create_task(ctx.fork('f', branches=[{BRANCH}]))\nreturn ctx.complete(1)",
    "fork-twice": f"a = await ctx.fork('f', branches=[{BRANCH}])\nb = await ctx.fork('f', branches=[{BRANCH}])\nreturn ctx.complete(a is b)",
    "fork-at-once-twice": f"a, b = await asyncio.gather(ctx.fork('f', branches=[{BRANCH}]), ctx.fork('f', branches=[{BRANCH}]))\nreturn ctx.complete(a is b)",
    "fork-changed": (
        f"await ctx.fork('f', branches={BRANCHES})\n"
        "other = [[ctx.branch(k, entrypoint='e', queue='q', data=k) for k in keys] for keys in ('xy', 'zyx', 'xyzw', 'xyz')]\n"
        "return ctx.complete([await refused_later(ctx.fork('f', branches=b)) for b in other])"
    ),
    "fork-shapes": (
        f"one = {BRANCH}\n"
        "found = []\nfor branches in ([], (), [one, one], None, one, {one.key: one}, [1], ['b'], [one] * 65, iter([one]), [one]):\n"
        "    try:\n        await ctx.fork('f', branches=branches)\n        found.append('ok')\n    except Exception as e:\n        found.append(type(e).__name__)\n"
        "return ctx.complete(found)"
    ),
    "fork-64": "f = await ctx.fork('f', branches=[ctx.branch(f'b{n}', entrypoint='e', queue='q', data=None) for n in range(64)])\nreturn ctx.complete(len(f.branch_keys))",
    "fork-bytes": (
        "found = []\nfor n in (130000, 130900, 131000, 131072, 140000):\n    try:\n        b = ctx.branch(f'b{n}', entrypoint='e', queue='q', data='x' * n)\n"
        "        await ctx.fork(f'f{n}', branches=[b])\n        found.append('ok')\n    except Exception as e:\n        found.append(type(e).__name__)\nreturn ctx.complete(found)"
    ),
    "fork-key-is-task": (
        f"ctx.task('b', program='p', version='1', queue='q', data=1)\nfound = await refused_later(ctx.fork('f', branches=[{BRANCH}]))\nreturn ctx.fail('k', 'said: ' + str(found))"
    ),
    "task-key-is-branch": f"await ctx.fork('f', branches=[{BRANCH}])\nreturn ctx.complete(refused(ctx.task, 'b', program='p', version='1', queue='q', data=1))",
    "branch-in-two-forks": f"await ctx.fork('f', branches=[{BRANCH}])\nreturn ctx.complete(await refused_later(ctx.fork('g', branches=[{BRANCH}])))",
    "fork-and-local": f"r = ctx.local('k', add, x=1)\nf = await ctx.fork('f', branches=[{BRANCH}])\nreturn ctx.join(f, resume='r', state=await r)",
    "local-and-fork-at-once": f"a, b = await ctx.gather(ctx.local('k', add, x=1), ctx.fork('f', branches=[{BRANCH}]))\nreturn ctx.complete([a, b.key])",
    "fork-observer-cancelled": (
        f"t = asyncio.create_task(ctx.fork('f', branches=[{BRANCH}]))\nawait asyncio.sleep(0)\nt.cancel()\n"
        f"await asyncio.gather(t, return_exceptions=True)\nf = await ctx.fork('f', branches=[{BRANCH}])\nreturn ctx.complete(f.key)"
    ),
    "branch-settings": (
        "found = []\nfor given in ({'attempt_timeout_ms': 60000}, {'attempt_timeout_ms': 59999}, {'attempt_timeout_ms': True}, {'retry_policy': {'max_attempts': 1, 'retry_delay_ms': 0}},\n"
        "        {'retry_policy': {'max_attempts': 1}}, {'retry_policy': {}}, {'attempt_timeout_ms': None}, {'retry_policy': []}):\n"
        "    found.append(refused(ctx.branch, 'b', entrypoint='e', queue='q', data=None, **given))\nreturn ctx.complete(found)"
    ),
    "branch-is-frozen": (
        f"b = {BRANCH}\ntry:\n    b.key = 'x'\nexcept Exception as e:\n    return ctx.complete([type(e).__name__, b.key])"
    ),
    "fork-is-frozen": (
        f"f = await ctx.fork('f', branches=[{BRANCH}])\ntry:\n    f.key = 'x'\nexcept Exception as e:\n    return ctx.complete([type(e).__name__, f.key, refused(ctx.complete, f)])"
    ),
    "join-foreign": (
        f"f = await ctx.fork('f', branches=[{BRANCH}])\nfake = ForkRef('f', ('b',), ctx)\n"
        "return ctx.complete([refused(ctx.join, fake, resume='r', state=None), refused(ctx.join, 'f', resume='r', state=None), refused(ctx.join, None, resume='r', state=None), refused(ctx.join, f, resume='r', state=None)])"
    ),
}


def cases() -> Iterator[Case]:
    for name, body in BODIES.items():
        yield controller(f"step/{name}", body)
    yield from _recorded()
    yield from _observed()


def _recorded() -> Iterator[Case]:
    """Replays of an earlier attempt's journal (HLP-056)."""
    name = "program:add"
    record = {"key": "k", "callable": name, "input": {"x": 1}, "output": {"b": [1.0], "a": "old"}}
    operation = {"v": 1, "kind": "tool", "version": "v", "arguments": {"x": 1, "y": 0}}
    bodies = {
        "replayed": "return ctx.complete([await ctx.local('k', add, x=1), calls])",
        "other-argument": "return ctx.complete(refused(ctx.local, 'k', add, x=2))",
        "other-type": "return ctx.complete(refused(ctx.local, 'k', add, x=1.0))",
        "other-function": "return ctx.complete(refused(ctx.local, 'k', identity, x=1))",
        "unused": "return ctx.complete(await ctx.local('l', add, x=1))",
        "unawaited": "ctx.local('k', add, x=1)\nreturn ctx.complete(calls)",
        "twice": "return ctx.complete(await ctx.gather(ctx.local('k', add, x=1), ctx.local('k', add, x=1)))",
        "sorted": "return ctx.complete(list(await ctx.local('k', add, x=1)))",
        "as-operation": "return ctx.complete(refused(ctx.operation, 'k', add, kind=OperationKind.TOOL, version='v', arguments={'x': 1}))",
        "observed": "await ctx.local('k', add, x=1)\nreturn ctx.complete(1)",
        "inside": "def f():\n    return refused(ctx.local, 'k', add, x=1)\nreturn ctx.complete(await ctx.local('l', f))",
    }
    for title, body in bodies.items():
        yield controller(f"recorded/{title}", body, local_steps=[record], frame={"observe": title == "observed"})
    kept = {"key": "k", "callable": f"tool:{name}", "input": operation, "output": 5}
    body = (
        "return ctx.complete(await ctx.operation('k', add, kind=OperationKind.TOOL, version='v', arguments={'x': 1}))"
    )
    yield controller("recorded/operation", body, local_steps=[kept])
    floats = {"key": "k", "callable": name, "input": {"x": 1e-7}, "output": [1e-05, 1e22, 5e-324, -0.0]}
    yield controller("recorded/floats", "return ctx.complete(await ctx.local('k', add, x=1e-7))", local_steps=[floats])
    full = [{"key": f"k{n}", "callable": name, "input": {"x": n}, "output": n} for n in range(128)]
    body = "return ctx.complete([refused(ctx.local, 'new', add, x=1), await ctx.local('k5', add, x=5)])"
    yield controller("recorded/full", body, local_steps=full)
    listed = {"key": "k", "callable": name, "input": [1], "output": None}
    yield controller(
        "recorded/odd-input", "return ctx.complete(refused(ctx.local, 'k', add, x=1))", local_steps=[listed]
    )


def _observed() -> Iterator[Case]:
    """What the observations of an activation say of its steps (RUN-090 … RUN-095)."""
    bodies = {
        "states": (
            "def f():\n    raise asyncio.CancelledError\nctx.local('a', add, x=1)\nr = ctx.local('b', boom)\nctx.local('c', later, value=1, turns=2)\n"
            "await asyncio.gather(r, return_exceptions=True)\nreturn ctx.complete(1)"
        ),
        "cancelled": "def f():\n    raise asyncio.CancelledError\nctx.local('a', f)\nreturn ctx.complete(1)",
        "failed": "raise ValueError('said: x')",
        "bad-value": "await refused_later(ctx.local('a', lambda: {1}))\nreturn ctx.complete(1)",
        "too-long": "await refused_later(ctx.local('a', lambda: 'x' * 140000))\nreturn ctx.complete(1)",
        "shared": "await ctx.gather(ctx.local('a', add, x=1), ctx.local('a', add, x=1))\nreturn ctx.complete(1)",
        "fork": f"await ctx.fork('f', branches=[{BRANCH}])\nreturn ctx.complete(1)",
        "many": "for n in range(128):\n    ctx.local(f'k{n}', add, x=n)\nreturn ctx.complete(1)",
        "operation": "await ctx.operation('k', add, kind=OperationKind.TOOL, version='v', arguments={'x': 1})\nreturn ctx.complete(1)",
        "not-begun": "ctx.local('a', add, x=1)\nraise ValueError('said: x')",
        "begun": "ctx.local('a', later, value=1, turns=9)\nawait asyncio.sleep(0)\nawait asyncio.sleep(0)\nraise ValueError('said: x')",
        "refused-call": "refused(ctx.local, '', add)\nreturn ctx.complete(1)",
    }
    for name, body in bodies.items():
        yield controller(f"observe/step/{name}", body, frame={"observe": True})
    failed = {"result": {"committed": 1}}
    body = "return ctx.complete(await ctx.local('a', add, x=1))"
    yield controller("observe/step/not-acknowledged", body, frame={"observe": True}, answers=(failed,))
