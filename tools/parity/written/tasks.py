"""Ordinary tasks: what a handler returns, raises and leaves behind (1.5)."""

from collections.abc import Iterator

from parity.case import Case, Step, invoke, task

ACCEPTED = {
    "none": "None",
    "true": "True",
    "text": "'text'",
    "empty": "['', [], {}, ()]",
    "unicode": "'äöü € 𝄞 \\u2028 \\x00 \\x7f \\ufeff \\uffff'",
    "escapes": "'\\\\ \" / \\b \\f \\n \\r \\t \\x1f'",
    "integers": "[0, -0, 2**63, -2**63, 2**64 - 1, 2**53 + 1]",
    "floats": "[0.0, -0.0, 1.0, 1e16, 1e-5, 1e-7, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 123456789012345680.0]",
    "tuple": "(1, (2, [3]))",
    "str-enum": "OperationKind.MODEL",
    "int-enum": "__import__('enum').IntEnum('N', 'A B').B",
    "ordered": "__import__('collections').OrderedDict(b=1, a=2)",
    "named-tuple": "__import__('collections').namedtuple('P', 'x y')(1, 2)",
    "default-dict": "__import__('collections').defaultdict(int, a=1)",
    "counter": "__import__('collections').Counter('aab')",
    "str-subclass-key": "{type('S', (str,), {})('k'): 1}",
    "float-subclass": "type('F', (float,), {})(1.5)",
    "int-subclass": "type('I', (int,), {})(7)",
    "bool-keys-like-text": "{'True': True, '1': 1}",
    "depth-64": "nested(64)",
    "depth-64-dicts": "__import__('functools').reduce(lambda value, _: {'a': value}, range(64), 1)",
    "shared": "(lambda part: [part, part, {'x': part}])([1])",
    "wide": "list(range(3000))",
    "decision-like": "{'v': 1, 'kind': 'complete', 'activation_id': 'act', 'revision': 0, 'output': 1}",
    "order": "{'b': 1, 'a': 2, 'B': 3}",
    "event": "event",
    "data": "data",
}

REFUSED = {
    "set": "{1}",
    "frozenset": "frozenset()",
    "bytes": "b'x'",
    "bytearray": "bytearray(b'x')",
    "object": "object()",
    "function": "add",
    "generator": "(x for x in [1])",
    "range": "range(3)",
    "nan": "float('nan')",
    "infinity": "[float('-inf')]",
    "integer-above": "2**64",
    "integer-below": "[-2**63 - 1]",
    "huge-integer": "10**5000",
    "surrogate": "'\\ud800'",
    "surrogate-key": "{'\\udfff': 1}",
    "integer-key": "{1: 1}",
    "none-key": "{None: 1}",
    "bool-key": "{True: 1}",
    "tuple-key": "{('a',): 1}",
    "depth-65": "nested(65)",
    "depth-3000": "nested(3000)",
    "decimal": "__import__('decimal').Decimal(1)",
    "fraction": "__import__('fractions').Fraction(1, 2)",
    "date": "__import__('datetime').date(2020, 1, 1)",
    "complex": "1j",
    "mapping-proxy": "__import__('types').MappingProxyType({})",
    "deque": "__import__('collections').deque()",
    "array": "__import__('array').array('i')",
    "enum": "__import__('enum').Enum('E', 'A').A",
    "memoryview": "memoryview(b'')",
    "type": "int",
    "ellipsis": "...",
    "exception": "ValueError('x')",
    "path": "__import__('pathlib').Path('x')",
}

BODIES = {
    "cycle": "value = []\nvalue.append(value)\nreturn value",
    "cycle-of-dicts": "value = {}\nvalue['a'] = {'b': value}\nreturn value",
    "raises": "raise ValueError('said: no')",
    "raises-empty": "raise ValueError",
    "raises-key-error": "return {}['said: x']",
    "raises-unicode": "raise ValueError('said: ä€𝄞\\x00\\u2028')",
    "raises-surrogate": "raise ValueError('said: \\ud800 end')",
    "raises-long": "raise ValueError('said: ' + 'x' * 1000)",
    "raises-long-astral": "raise ValueError('said: ' + '𝄞' * 1000)",
    "raises-without-text": "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "raises-text-no-string": "raise type('E', (Exception,), {'__str__': lambda self: 5})()",
    "raises-text-exits": "raise type('E', (Exception,), {'__repr__': lambda self: 1 / 0})('said: x')",
    "raises-group": "raise ExceptionGroup('said: group', [ValueError('a'), TypeError('b')])",
    "raises-chained": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('said: after') from error",
    "raises-stop-iteration": "raise StopIteration('said: stop')",
    "raises-timeout": "raise TimeoutError('said: late')",
    "raises-memory": "raise MemoryError('said: memory')",
    "raises-recursion": "def again():\n    again()\nagain()",
    "raises-import": "import no_such_module_anywhere",
    "raises-os-error": "open('/no/such/file')",
    "raises-unicode-error": "'\\ud800'.encode()",
    "raises-system-error": "raise SystemError('said: system')",
    "raises-workflow-error": "raise workflow.WorkflowError('said: own')",
    "raises-args": "raise ValueError('said: a', 1)",
    "syntax": "exec('said: (')",
    "mutates-event": "event.clear()\nevent['id'] = 'other'\nreturn event",
    "changes-identity": "event['ldgattemptid'] = 'other'\nraise ValueError('said: x')",
    "no-workflow-context": "try:\n    workflow_context()\nexcept Exception as error:\n    return type(error).__name__",
    "no-workflow-context-alias": "return refused(workflow.get_workflow_context)",
    "same-function": "return workflow.get_workflow_context is workflow.workflow_context",
    "prints": "print('<<out>>', flush=True)\nreturn 1",
    "prints-error": "import sys\nprint('<<err>>', file=sys.stderr, flush=True)\nreturn 1",
    "writes-descriptor-1": "import os\nos.write(1, b'<<native>>\\n')\nreturn 1",
    "writes-like-a-frame": (
        'import os\nos.write(1, b\'{"v":3,"type":"result"}\\n<<end>>\')\nprint(\'<<p>>\', flush=True)\nreturn 1'
    ),
    "writes-sys-dunder-stdout": "import sys\nreturn [sys.stdout is sys.stderr, sys.stdout.fileno()]",
    "subprocess-prints": "import subprocess\nsubprocess.run(['echo', '<<child>>'])\nreturn 1",
    "thread-prints": (
        "import threading\nt = threading.Thread(target=print, args=('<<thread>>',), kwargs={'flush': True})\n"
        "t.start()\nt.join()\nreturn 1"
    ),
    "thread-identity": (
        "import threading, contextvars\nfrom ledgence.worker import current_invocation\nfound = []\n"
        "def look():\n    try:\n        found.append(current_invocation().event_id)\n"
        "    except RuntimeError:\n        found.append('none')\n"
        "for target in (look, lambda: context.run(look)):\n    context = contextvars.copy_context()\n"
        "    t = threading.Thread(target=target)\n    t.start()\n    t.join()\nreturn found"
    ),
    "thread-raises": ("import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()\nreturn 'on'"),
    "own-loop": "import asyncio\nreturn 'running' if asyncio._get_running_loop() else 'none'",
    "modules": "import sys\nreturn [name in sys.modules for name in ('asyncio', 'ledgence.worker', 'opentelemetry')]",
    "site-packages": "import sys\nreturn any('site-packages' in path for path in sys.path[:1])",
    "directory": "import os, sys\nreturn [sys.path[0] == os.getcwd(), sys.flags.isolated, sys.dont_write_bytecode]",
    "recursion-limit": "import sys\nreturn sys.getrecursionlimit()",
    "argv-length": "import sys\nreturn type(sys.argv).__name__",
    "signal-handlers": (
        "import signal\nreturn [str(signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)]"
    ),
    "gc": "import gc\nreturn gc.isenabled()",
    "warning": "import warnings\nwarnings.warn('<<warned>>')\nreturn 1",
}

ASYNC = {
    "awaited": "async def f():\n    await asyncio.sleep(0)\n    return 5\nreturn f()",
    "awaits-awaitable": "class A:\n    def __await__(self):\n        yield from asyncio.sleep(0).__await__()\n        return 6\nreturn A()",
    "future": (
        "future = asyncio.get_running_loop().create_future()\nasyncio.get_running_loop().call_soon(future.set_result, 7)\n"
        "return future"
    ),
    "task": "return asyncio.create_task(later(8))",
    "returns-coroutine": "async def f():\n    return later(1)\nreturn f()",
    "raises-later": "async def f():\n    await asyncio.sleep(0)\n    raise ValueError('said: later')\nreturn f()",
    "async-generator": "async def f():\n    yield 1\nreturn f()",
    "bad-output-later": "return later({1})",
    "unawaited-coroutine": "later(1)\nreturn 1",
    "left-running": (
        "async def run():\n    try:\n        await asyncio.Event().wait()\n    finally:\n        print('<<ended>>', flush=True)\n"
        "async def f():\n    memory['t'] = asyncio.create_task(run())\n    await asyncio.sleep(0)\n    return 1\nreturn f()"
    ),
    "left-running-raises": (
        "async def run():\n    try:\n        await asyncio.Event().wait()\n    finally:\n        raise ValueError('x')\n"
        "async def f():\n    memory['t'] = asyncio.create_task(run())\n    await asyncio.sleep(0)\n    return 1\nreturn f()"
    ),
    "left-running-not-begun": "async def f():\n    memory['t'] = asyncio.create_task(later(1))\n    return 1\nreturn f()",
    "left-running-behind-failure": (
        "async def run():\n    try:\n        await asyncio.Event().wait()\n    finally:\n        print('<<ended>>', flush=True)\n"
        "async def f():\n    memory['t'] = asyncio.create_task(run())\n    await asyncio.sleep(0)\n    raise ValueError('said: x')\n"
        "return f()"
    ),
    "generator-closed": (
        "async def numbers():\n    try:\n        yield 1\n        yield 2\n    finally:\n        print('<<closed>>', flush=True)\n"
        "async def f():\n    memory['g'] = g = numbers()\n    return await g.__anext__()\nreturn f()"
    ),
    "to-thread": "import os\nreturn asyncio.to_thread(lambda: 3)",
    "to-thread-identity": (
        "from ledgence.worker import current_invocation\nreturn asyncio.to_thread(lambda: current_invocation().task_id)"
    ),
    "task-identity": (
        "from ledgence.worker import current_invocation\nasync def f():\n    return current_invocation().attempt_no\n"
        "return asyncio.create_task(f())"
    ),
    "cancel-caught": (
        "async def f():\n    asyncio.current_task().cancel()\n    try:\n        await asyncio.sleep(0)\n"
        "    except asyncio.CancelledError:\n        return 'caught'\nreturn f()"
    ),
    "cancelled-child": (
        "async def f():\n    t = asyncio.create_task(later(1))\n    t.cancel()\n    try:\n        await t\n"
        "    except asyncio.CancelledError:\n        return 'seen'\nreturn f()"
    ),
    "task-group": (
        "async def f():\n    async with asyncio.TaskGroup() as group:\n        a = group.create_task(later(1))\n"
        "        b = group.create_task(later(2, 3))\n    return [a.result(), b.result()]\nreturn f()"
    ),
    "task-group-fails": (
        "async def bad():\n    raise ValueError('x')\n"
        "async def f():\n    async with asyncio.TaskGroup() as group:\n        group.create_task(bad())\nreturn f()"
    ),
    "timeout": (
        "async def f():\n    async with asyncio.timeout(0.001):\n        await asyncio.Event().wait()\nreturn f()"
    ),
    "timeout-caught": (
        "async def f():\n    try:\n        await asyncio.wait_for(asyncio.Event().wait(), 0.001)\n"
        "    except TimeoutError:\n        return 'late'\nreturn f()"
    ),
    "run-in-loop": "return asyncio.run(later(1))",
    "debug": "return asyncio.get_running_loop().get_debug()",
    "task-name": "return type(asyncio.current_task()).__name__",
    "second-await": "c = later(1)\nasync def f():\n    await c\n    return await c\nreturn f()",
    "context-variable": (
        "import contextvars\nvariable = memory.setdefault('v', contextvars.ContextVar('v'))\nold = variable.get(None)\n"
        "variable.set(1)\nreturn old"
    ),
    "context-variable-again": (
        "import contextvars\nvariable = memory.setdefault('v', contextvars.ContextVar('v'))\nreturn variable.get('empty')"
    ),
}

DATA = {
    "null": None,
    "numbers": [0, 1, -1, 1.0, 0.5, 1e100, 2**64 - 1, -(2**63), 1e-7],
    "text": "ä€𝄞\u2028\x00\ufffe",
    "object": {"b": {"": []}, "a": {"ä": None}},
    "deep": [[[[[[[[[[{"x": [1]}]]]]]]]]]],
}


def cases() -> Iterator[Case]:
    for name, expression in {**ACCEPTED, **REFUSED}.items():
        yield task(f"task/value/{name}", f"return {expression}")
    for protocol in (1, 2, 3):
        for name, body in BODIES.items():
            yield task(f"task/v{protocol}/{name}", body, protocol=protocol)
        for name, body in ASYNC.items():
            if protocol == 3 or name in ("awaited", "awaits-awaitable", "returns-coroutine", "async-generator"):
                yield task(f"task/v{protocol}/async/{name}", body, protocol=protocol)
    for name, data in DATA.items():
        code = "return [data, repr(data), type(data).__name__]"
        yield task(f"task/data/{name}", code, data)
        yield task(f"task/data/v1/{name}", code, data, protocol=1)
    yield from _observed()
    yield from _identities()


def _observed() -> Iterator[Case]:
    for protocol in (1, 2, 3):
        for name, body in {"success": "return 1", "error": "raise ValueError('said: x')", "bad": "return {1}"}.items():
            yield task(f"observe/v{protocol}/{name}", body, protocol=protocol, observe=True)
        members: list[object] = [1, 0, "true", None, False, [], 1.0]
        for value in members:
            yield task(f"observe/v{protocol}/member/{value!r}", "return 1", protocol=protocol, observe=value)
    yield task("observe/children", "import subprocess\nsubprocess.run(['true'])\nreturn 1", observe=True)


def _identities() -> Iterator[Case]:
    show = "import dataclasses\nfrom ledgence.worker import current_invocation\nreturn dataclasses.asdict(current_invocation())"
    carrier = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    for protocol in (1, 2, 3):
        yield task(f"identity/v{protocol}/plain", show, protocol=protocol)
        yield task(f"identity/v{protocol}/traced", show, protocol=protocol, processing_context=carrier)
        bare = dict.fromkeys(("source", "ldgtenantid", "ldgnamespace", "ldgrunid", "ldgtaskid", "ldgattemptno"), ...)
        yield task(f"identity/v{protocol}/bare", show, protocol=protocol, event=bare)
        odd = {"ldgtaskid": 5, "ldgattemptno": "1", "source": None, "ldgworkflowid": ["x"]}
        yield task(f"identity/v{protocol}/odd", show, protocol=protocol, event=odd)
        inside = {"ldgworkflowid": "w", "ldgactivationid": "a", "ldgrootworkflowid": "r", "ldgparentworkflowid": "p"}
        yield task(f"identity/v{protocol}/workflow", show, protocol=protocol, event={"ldgworkflowid": "w"})
        if protocol == 1:
            yield task(
                "identity/v1/nested", show, protocol=1, event={"ldgrunid": None, **inside, "ldgactivationid": ...}
            )
    null_root = {"ldgworkflowid": "w", "ldgrootworkflowid": None}
    yield task("identity/null-root", show, event=null_root)
    traced = [
        {"traceparent": carrier["traceparent"], "tracestate": state} for state in (None, "", "a=1,b@c=2", " a=1 ,")
    ]
    for index, context in enumerate(traced):
        yield task(f"identity/trace-state/{index}", show, processing_context=context)
    two = [
        invoke({"code": "calls.append(1)\nmemory['n'] = memory.get('n', 0) + 1\nreturn memory['n']"}) for _ in range(2)
    ]
    yield Case(
        name="task/twice", arguments={"--handler": "program:handle"}, steps=tuple(Step(line=line) for line in two)
    )
