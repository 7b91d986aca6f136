"""Handlers that end their process, close its pipes, or leave things running (1.5, 1.12, HLP-008)."""

from collections.abc import Iterator

from parity.case import Case, Step, activation, invoke, program

ENDS = {
    "sys-exit-0": "sys.exit(0)",
    "sys-exit-5": "sys.exit(5)",
    "sys-exit-text": "sys.exit('<<text>>')",
    "sys-exit-none": "sys.exit()",
    "sys-exit-256": "sys.exit(256)",
    "sys-exit-negative": "sys.exit(-1)",
    "os-exit": "os._exit(7)",
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminate": "os.kill(os.getpid(), signal.SIGTERM)",
    "abort": "os.abort()",
    "interrupt": "raise KeyboardInterrupt",
    "interrupt-signal": "os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(5)",
    "generator-exit": "raise GeneratorExit",
    "base-exception": "raise BaseException('x')",
    "cancelled": "raise asyncio.CancelledError",
    "base-group": "raise BaseExceptionGroup('x', [KeyboardInterrupt()])",
    "exit-in-thread": "t = threading.Thread(target=lambda: sys.exit(5))\n    t.start()\n    t.join()\n    return 'on'",
    "os-exit-in-thread": "t = threading.Thread(target=lambda: os._exit(5))\n    t.start()\n    t.join()\n    return 'on'",
    "close-1": "os.close(1)\n    return 'on'",
    "close-stdout": "sys.stdout.close()\n    return 'on'",
    "close-2": "os.close(2)\n    return 'on'",
    "close-stdout-and-fail": "sys.stdout.close()\n    raise ValueError('said: x')",
    "stderr-none": "sys.stderr = None\n    raise ValueError('said: x')",
    "stdout-none": "sys.stdout = None\n    return 'on'",
    "dunder-stdout": "sys.__stdout__.write('<<dunder>>\\n')\n    sys.__stdout__.flush()\n    return 'on'",
    "close-dunder-stdout": "sys.__stdout__.close()\n    return 'on'",
    "replaced-stdout": "sys.stdout = open(os.devnull, 'w')\n    print('lost')\n    return 'on'",
    "dup2-over-1": "d = os.open(os.devnull, os.O_WRONLY)\n    os.dup2(d, 1)\n    os.write(1, b'lost')\n    return 'on'",
    "non-blocking-1": "os.set_blocking(1, False)\n    return 'x' * 500000",
    "non-blocking-2": "os.set_blocking(2, False)\n    return 'on'",
    "fork-child": "if os.fork() == 0:\n        os._exit(3)\n    return os.wait()[1] >> 8",
    "subprocess-exit": "return subprocess.run([sys.executable, '-I', '-S', '-c', 'import sys; print(\"<<sub>>\", flush=True); sys.exit(4)']).returncode",
    "subprocess-output": "return subprocess.run(['echo', 'text'], capture_output=True).stdout.decode()",
    "daemon-thread": "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    return 'on'",
    "thread-ends-later": "threading.Thread(target=time.sleep, args=(0.2,)).start()\n    return 'on'",
    "atexit": "import atexit\n    atexit.register(lambda: print('<<atexit>>', flush=True))\n    return 'on'",
    "chdir": "os.chdir('/')\n    return os.getcwd()",
    "path-cleared": "sys.path.clear()\n    return 'on'",
    "modules-removed": "for name in [n for n in sys.modules if n.startswith('ledgence')]:\n        del sys.modules[name]\n    return 'on'",
    "json-patched": "import json\n    json.dumps = None\n    return {'a': [1]}",
    "excepthook": "sys.excepthook = lambda *a: print('<<hook>>', flush=True)\n    raise ValueError('said: x')",
    "recursion-lowered": "sys.setrecursionlimit(150)\n    return [[1]]",
    "signal-set": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    return 'on'",
    "environment": "return sorted(os.environ)",
    "gc-frozen": "import gc\n    gc.disable()\n    return 'on'",
    "class-with-del": "class D:\n        def __del__(self):\n            print('<<del>>', flush=True)\n    D()\n    return 'on'",
    "warnings-as-errors": "import warnings\n    warnings.simplefilter('error')\n    return 'on'",
    "stack-overflow-repr": "class R(ValueError):\n        def __str__(self):\n            return str(self)\n    raise R",
    "exception-str-exits": "class R(ValueError):\n        def __str__(self):\n            raise SystemExit(9)\n    raise R",
    "read-stdin": "return sys.stdin.read()",
    "read-0": "return os.read(0, 10).decode()",
    "close-stdin": "sys.stdin.close()\n    return 'on'",
}
HEAD = "import asyncio, os, signal, subprocess, sys, threading, time\n"
STDIN = ("read-stdin", "read-0", "close-stdin")

CONTROLLER = {
    "sys-exit": "sys.exit(5)",
    "sys-exit-in-step": "def f():\n        sys.exit(6)\n    await ctx.local('k', f)",
    "sys-exit-in-step-unseen": "def f():\n        sys.exit(6)\n    ctx.local('k', f)\n    return ctx.complete(1)",
    "os-exit-in-step": "def f():\n        os._exit(8)\n    await ctx.local('k', f)",
    "interrupt-in-step": "def f():\n        raise KeyboardInterrupt\n    await ctx.local('k', f)",
    "cancelled": "raise asyncio.CancelledError",
    "cancelled-by-step": "def f():\n        raise asyncio.CancelledError\n    return ctx.complete(await ctx.local('k', f))",
    "cancels-itself": "asyncio.current_task().cancel()\n    await asyncio.sleep(0)",
    "cancels-itself-and-decides": "asyncio.current_task().cancel()\n    return ctx.complete(1)",
    "cancels-itself-before-drain": "ctx.local('k', asyncio.sleep, delay=0)\n    asyncio.current_task().cancel()\n    return ctx.complete(1)",
    "generator-exit": "raise GeneratorExit",
    "cancelled-with-step": "def f():\n        print('<<ran>>', flush=True)\n    ctx.local('k', f)\n    raise asyncio.CancelledError",
    "sys-exit-with-step": "def f():\n        print('<<ran>>', flush=True)\n    ctx.local('k', f)\n    sys.exit(5)",
    "interrupt-with-step": "def f():\n        print('<<ran>>', flush=True)\n    ctx.local('k', f)\n    raise KeyboardInterrupt",
    "cancelled-with-running-step": "async def f():\n        try:\n            await asyncio.Event().wait()\n        finally:\n            print('<<stopped>>', flush=True)\n    ctx.local('k', f)\n    await asyncio.sleep(0)\n    await asyncio.sleep(0)\n    raise asyncio.CancelledError",
    "sys-exit-with-running-step": "async def f():\n        try:\n            await asyncio.Event().wait()\n        finally:\n            print('<<stopped>>', flush=True)\n    ctx.local('k', f)\n    await asyncio.sleep(0)\n    await asyncio.sleep(0)\n    sys.exit(5)",
    "sys-exit-with-task": "async def f():\n        try:\n            await asyncio.Event().wait()\n        finally:\n            print('<<stopped>>', flush=True)\n    keep.append(asyncio.create_task(f()))\n    await asyncio.sleep(0)\n    sys.exit(5)",
    "sys-exit-in-step-cleaned-up": "def f():\n        sys.exit(6)\n    try:\n        await ctx.local('k', f)\n    finally:\n        await asyncio.sleep(0)\n        print('<<cleaned>>', flush=True)",
    "close-1": "os.close(1)\n    return ctx.complete(await ctx.local('k', len, obj=[])) if False else ctx.complete(1)",
    "task-left": "async def f():\n        try:\n            await asyncio.Event().wait()\n        finally:\n            print('<<left>>', flush=True)\n    keep.append(asyncio.create_task(f()))\n    await asyncio.sleep(0)\n    return ctx.complete(1)",
    "task-left-raises": "async def f():\n        raise ValueError('x')\n    keep.append(asyncio.create_task(f()))\n    await asyncio.sleep(0)\n    return ctx.complete(1)",
    "task-left-uses-context": "async def f():\n        try:\n            await asyncio.Event().wait()\n        finally:\n            try:\n                ctx.complete(1)\n            except Exception as e:\n                print('<<' + type(e).__name__ + '>>', flush=True)\n    keep.append(asyncio.create_task(f()))\n    await asyncio.sleep(0)\n    return ctx.complete(1)",
    "thread-left": "keep.append(asyncio.create_task(asyncio.to_thread(time.sleep, 0.1)))\n    await asyncio.sleep(0)\n    return ctx.complete(1)",
    "loop-stopped": "asyncio.get_running_loop().stop()\n    return ctx.complete(1)",
    "loop-closed": "asyncio.get_running_loop().close()\n    return ctx.complete(1)",
    "coroutine-unawaited": "asyncio.sleep(0)\n    return ctx.complete(1)",
}

SHUTDOWNS = {
    "order": "for n in range(3):\n    register_shutdown(lambda n=n: print(f'<<{n}>>', flush=True))\n",
    "raises": "register_shutdown(lambda: 1 / 0)\nregister_shutdown(lambda: print('<<second>>', flush=True))\n",
    "twice": "def f():\n    print('<<once>>', flush=True)\nregister_shutdown(f)\nregister_shutdown(f)\n",
    "equal": "class C:\n    def f(self):\n        print('<<method>>', flush=True)\nc = C()\nregister_shutdown(c.f)\nregister_shutdown(c.f)\n",
    "not-callable": "try:\n    register_shutdown(1)\nexcept TypeError:\n    print('<<type>>', flush=True)\n",
    "exits": "register_shutdown(lambda: sys.exit(4))\nregister_shutdown(lambda: print('<<second>>', flush=True))\n",
    "registers": "register_shutdown(lambda: register_shutdown(lambda: print('<<late>>', flush=True)))\n",
    "prints-result": "register_shutdown(lambda: os.write(1, b'<<x>>\\n'))\n",
    "no-invocation": "from ledgence.worker import current_invocation\ndef f():\n    try:\n        current_invocation()\n    except RuntimeError:\n        print('<<none>>', flush=True)\nregister_shutdown(f)\n",
}


def cases() -> Iterator[Case]:
    for name, body in ENDS.items():
        source = f"{HEAD}def handle(event):\n    {body}\n"
        for protocol in (1, 2, 3):
            if protocol != 3 and name in ("class-with-del", "gc-frozen", "signal-set", "chdir", "atexit"):
                continue
            steps = [Step(line=invoke(1, protocol=protocol), close=name in STDIN)]
            steps += [] if name in STDIN else [Step(line=invoke(2, protocol=protocol))]
            yield program(f"end/v{protocol}/{name}", source, *steps, protocol=protocol)
    for name, body in CONTROLLER.items():
        source = f"{HEAD}from ledgence.worker.workflow import workflow_context\nkeep = []\nasync def handle(event):\n    ctx = workflow_context()\n    {body}\n"
        step = Step(line=invoke(1, payload=activation()))
        yield program(f"end/controller/{name}", source, step, step)
        if "ctx" not in body:  # an ordinary task as well
            yield program(
                f"end/async-task/{name}", source.replace("ctx = workflow_context()", "pass"), Step(line=invoke(1))
            )
    used = "from ledgence.worker.workflow import WorkflowError, workflow_context\nkept = []\nasync def handle(event):\n    if kept:\n        found = []\n        for f in (lambda: kept[0].complete(1), lambda: kept[0].state, lambda: kept[0].local('k', print), workflow_context):\n            try:\n                f()\n                found.append('ok')\n            except Exception as e:\n                found.append(type(e).__name__)\n        return found\n    kept.append(workflow_context())\n    return kept[0].complete(1)\n"
    yield program("end/context-kept", used, Step(line=invoke(1, payload=activation())), Step(line=invoke(2)))
    for name, registrations in SHUTDOWNS.items():
        head = "import os, sys\nfrom ledgence.worker import register_shutdown\n"
        source = f"{head}{registrations}def handle(event):\n    return 1\n"
        for protocol in (1, 2, 3):
            shutdown = Step(line=f'{{"v":{protocol},"type":"shutdown"}}\n')
            yield program(f"shutdown/v{protocol}/{name}", source, shutdown, protocol=protocol)
