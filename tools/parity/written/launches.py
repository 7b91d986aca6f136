"""Command lines and packages: what starts, and what ends before `ready` (1.1, 1.4)."""

from collections.abc import Iterator

from parity.case import Case, Step, invoke, program

GOOD = "def handle(event):\n    return 'good'\n"

ARGUMENTS: dict[str, dict[str, str | None]] = {
    "no-root": {"--package-root": None},
    "no-handler": {"--handler": None},
    "no-python": {"--python-version": None},
    "no-limits": {"--max-input-bytes": None, "--max-output-bytes": None},
    "unknown": {"--unknown": "1"},
    "abbreviated": {"--max-input-bytes": None, "--max-in": "300000"},
    "input-text": {"--max-input-bytes": "x"},
    "input-float": {"--max-input-bytes": "300.0"},
    "input-spaced": {"--max-input-bytes": " 3000 "},
    "input-underscore": {"--max-input-bytes": "3_000"},
    "input-negative": {"--max-input-bytes": "-1"},
    "input-255": {"--max-input-bytes": "255"},
    "output-255": {"--max-output-bytes": "255"},
    "output-256": {"--max-output-bytes": "256"},
    "protocol-0": {"--protocol-version": "0"},
    "protocol-4": {"--protocol-version": "4"},
    "protocol-text": {"--protocol-version": "x"},
    "python-other": {"--python-version": "3.9"},
    "python-full": {"--python-version": "3.11.7"},
    "python-empty": {"--python-version": ""},
    "root-missing": {"--package-root": "/no/such/folder"},
    "root-file": {"--package-root": "/etc/hosts"},
    "handler-empty": {"--handler": ""},
    "handler-no-colon": {"--handler": "program"},
    "handler-two-colons": {"--handler": "program:handle:x"},
    "handler-no-function": {"--handler": "program:"},
    "handler-no-module": {"--handler": ":handle"},
    "handler-dotted-function": {"--handler": "program:a.b"},
    "handler-dash": {"--handler": "pro-gram:handle"},
    "handler-dots": {"--handler": "program..x:handle"},
    "handler-relative": {"--handler": ".program:handle"},
    "handler-space": {"--handler": "program :handle"},
    "handler-keyword": {"--handler": "class:handle"},
    "handler-unicode": {"--handler": "prögram:handle"},
    "handler-missing": {"--handler": "program:missing"},
    "handler-missing-module": {"--handler": "other:handle"},
    "handler-stdlib": {"--handler": "json:dumps"},
    "handler-stdlib-unloaded": {"--handler": "wave:open"},
    "handler-os": {"--handler": "os:getcwd"},
    "handler-builtins": {"--handler": "builtins:print"},
    "handler-main": {"--handler": "__main__:main"},
    "handler-ledgence": {"--handler": "ledgence:handle"},
    "handler-worker": {"--handler": "ledgence.worker:current_invocation"},
    "handler-asyncio": {"--handler": "asyncio:run"},
    "handler-private": {"--handler": "program:_private"},
    "handler-dunder": {"--handler": "program:__name__"},
}

SOURCES = {
    "not-callable": "handle = 5\n",
    "none": "handle = None\n",
    "class": "class handle:\n    def __init__(self, event):\n        pass\n",
    "class-dict": "handle = dict\n",
    "instance": "class C:\n    def __call__(self, event):\n        return 'instance'\nhandle = C()\n",
    "lambda": "handle = lambda event: 'lambda'\n",
    "builtin": "handle = len\n",
    "partial": "import functools\nhandle = functools.partial(lambda a, event: a, 5)\n",
    "method": "class C:\n    def m(self, event):\n        return 'method'\nhandle = C().m\n",
    "coroutine": "async def handle(event):\n    return 'coroutine'\n",
    "partial-coroutine": "import functools\nasync def f(a, event):\n    return a\nhandle = functools.partial(f, 6)\n",
    "async-call": "class C:\n    async def __call__(self, event):\n        return 'call'\nhandle = C()\n",
    "async-generator": "async def handle(event):\n    yield 1\n",
    "generator": "def handle(event):\n    yield 1\n",
    "no-parameter": "def handle():\n    return 1\n",
    "two-parameters": "def handle(event, ctx):\n    return 1\n",
    "keyword-only": "def handle(*, event):\n    return 1\n",
    "named-otherwise": "def handle(anything, more=1):\n    return more\n",
    "module-getattr": "def __getattr__(name):\n    if name == 'handle':\n        return lambda event: 'made'\n    raise AttributeError(name)\n",
    "syntax-error": "def handle(event:\n",
    "raises": "raise ValueError('x')\n",
    "import-error": "import no_such_module_anywhere\n",
    "exits": "import sys\nsys.exit(3)\n",
    "exits-0": "import sys\nsys.exit(0)\n",
    "exits-text": "import sys\nsys.exit('<<bye>>')\n",
    "os-exits": "import os\nos._exit(4)\n",
    "interrupts": "raise KeyboardInterrupt\n",
    "cancels": "import asyncio\nraise asyncio.CancelledError\n",
    "base-exception": "raise BaseException('x')\n",
    "prints": f"import os\nprint('<<import>>', flush=True)\nos.write(1, b'<<native>>\\n')\n{GOOD}",
    "prints-and-raises": "print('<<import>>', flush=True)\nraise ValueError\n",
    "reads-invocation": "from ledgence.worker import current_invocation\ntry:\n    current_invocation()\nexcept RuntimeError:\n    handle = lambda event: 'none'\n",
    "reads-context": "from ledgence.worker.workflow import workflow_context, WorkflowError\ntry:\n    workflow_context()\nexcept WorkflowError:\n    handle = lambda event: 'none'\n",
    "runs-loop": "import asyncio\nasync def f():\n    return 'loop'\nvalue = asyncio.run(f())\nhandle = lambda event: value\n",
    "name": "handle = lambda event: [__name__, __spec__.name, __package__]\n",
    "file": "import os\nhandle = lambda event: [os.path.basename(__file__), os.path.basename(os.path.dirname(__file__))]\n",
    "bytecode": "import os\nhandle = lambda event: sorted(os.listdir(os.path.dirname(__file__)))\n",
    "removes-itself": "import sys\ndel sys.modules['program']\nhandle = lambda event: 'gone'\n",
    "replaces-itself": "import sys, types\nm = types.ModuleType('program')\nm.handle = lambda event: 'replaced'\nsys.modules['program'] = m\n",
    "replaces-itself-inside": "import sys, types\nm = types.ModuleType('program')\nm.__file__ = __file__\nm.handle = lambda event: 'replaced'\nsys.modules['program'] = m\n",
    "moves-file": "__file__ = '/etc/hosts'\nhandle = lambda event: 'moved'\n",
    "thread": "import threading\nt = threading.Thread(target=lambda: None)\nt.start()\nt.join()\nhandle = lambda event: 'on'\n",
    "future-annotations": "from __future__ import annotations\ndef handle(event: Missing) -> Missing:\n    return 'on'\n",
    "encoding": "# -*- coding: latin-1 -*-\nhandle = lambda event: 'on'\n",
    "empty": "",
    "null-byte": "handle = 1\x00\n",
}

PACKAGES: dict[str, tuple[dict[str, str], str]] = {
    "package": ({"app/__init__.py": GOOD}, "app:handle"),
    "sub-module": ({"app/__init__.py": "", "app/main.py": GOOD}, "app.main:handle"),
    "namespace": ({"app/main.py": GOOD}, "app.main:handle"),
    "namespace-deep": ({"a/b/c/main.py": GOOD}, "a.b.c.main:handle"),
    "namespace-itself": ({"app/main.py": GOOD}, "app:handle"),
    "module-is-no-package": ({"app.py": GOOD, "main.py": GOOD}, "app.main:handle"),
    "relative-import": (
        {"app/__init__.py": "", "app/main.py": "from .other import handle\n", "app/other.py": GOOD},
        "app.main:handle",
    ),
    "sibling-import": ({"program.py": "from other import handle\n", "other.py": GOOD}, "program:handle"),
    "circular": (
        {"program.py": "import other\nhandle = other.handle\n", "other.py": f"import program\n{GOOD}"},
        "program:handle",
    ),
    "shadows-json": (
        {"program.py": "import json\nhandle = lambda event: hasattr(json, 'dumps')\n", "json.py": "x = 1\n"},
        "program:handle",
    ),
    "shadows-json-handler": ({"json.py": "def dumps(event):\n    return 1\n"}, "json:dumps"),
    "shadows-wave": (
        {"program.py": "import wave\nhandle = lambda event: wave.x\n", "wave.py": "x = 'ours'\n"},
        "program:handle",
    ),
    "shadows-wave-handler": ({"wave.py": GOOD}, "wave:handle"),
    "shadows-logging": (
        {
            "program.py": "from ledgence.worker import get_logger\nget_logger('x')\n" + GOOD,
            "token.py": "raise ValueError\n",
        },
        "program:handle",
    ),
    "shadows-random": (
        {"program.py": "import random\nhandle = lambda event: random.x\n", "random.py": "x = 5\n"},
        "program:handle",
    ),
    "ledgence-client": (
        {
            "program.py": "import ledgence.client\nhandle = lambda event: ledgence.client.x\n",
            "ledgence/client.py": "x = 'client'\n",
        },
        "program:handle",
    ),
    "ledgence-worker": (
        {
            "program.py": "import ledgence.worker\nhandle = lambda event: hasattr(ledgence.worker, 'own')\n",
            "ledgence/worker/__init__.py": "own = 1\n",
        },
        "program:handle",
    ),
    "ledgence-other-handler": ({"ledgence/app.py": GOOD}, "ledgence.app:handle"),
    "init-raises": ({"app/__init__.py": "raise ValueError\n", "app/main.py": GOOD}, "app.main:handle"),
    "init-imports": ({"app/__init__.py": "from . import main\n", "app/main.py": GOOD}, "app.main:handle"),
    "init-sets-path": ({"app/__init__.py": "__path__.append('/etc')\n", "app/main.py": GOOD}, "app.main:handle"),
    "init-clears-path": ({"app/__init__.py": "__path__.clear()\n", "app/main.py": GOOD}, "app.main:handle"),
    "package-over-module": ({"app/__init__.py": GOOD, "app.py": "x = 1\n"}, "app:handle"),
    "site-file": (
        {"program.py": GOOD, "sitecustomize.py": "print('<<site>>')\n", "x.pth": "import nothing\n"},
        "program:handle",
    ),
    "unicode-module": ({"prögram.py": GOOD}, "prögram:handle"),
    "unicode-function": ({"program.py": "def hänøle(event):\n    return 'good'\n"}, "program:hänøle"),
    "keyword-module": ({"class.py": GOOD}, "class:handle"),
    "spaces": ({"a b.py": GOOD}, "a b:handle"),
    "main": ({"__main__.py": GOOD}, "__main__:handle"),
    "init-file": ({"__init__.py": GOOD}, "__init__:handle"),
    "leaves": ({"program.py": "import sys\nsys.path.remove(sys.path[0])\n" + GOOD, "later.py": ""}, "program:handle"),
}


# Modules that a helper itself may come to need; the package has its own under these names.
SHADOWING = {
    f"{name}.py": "raise RuntimeError('of the package')\n"
    for name in ("token", "copy", "inspect", "string", "contextlib", "hashlib", "threading", "dataclasses")
}
USING = (
    "from ledgence.worker import InvocationContext, current_invocation, get_logger\ndef handle(event):\n"
    "    get_logger('x').debug('hidden')\n    return isinstance(current_invocation(), InvocationContext)\n"
)


def cases() -> Iterator[Case]:
    for protocol in (1, 2, 3):
        name = f"package/v{protocol}/shadows-many"
        yield program(name, USING, Step(line=invoke(1, protocol=protocol)), protocol=protocol, files=SHADOWING)
    for name, arguments in ARGUMENTS.items():
        yield program(f"launch/{name}", GOOD + "_private = handle\n", Step(line=invoke(1)), arguments=arguments)
    for name, source in SOURCES.items():
        for protocol in (1, 2, 3):
            if protocol == 2 and name not in (
                "coroutine",
                "partial-coroutine",
                "async-call",
                "prints",
                "reads-context",
            ):
                continue
            step = Step(line=invoke({"a": 1}, protocol=protocol))
            yield program(f"load/v{protocol}/{name}", source, step, protocol=protocol)
    for name, (files, handler) in PACKAGES.items():
        step = Step(line=invoke(1))
        yield Case(name=f"package/{name}", files=files, arguments={"--handler": handler}, steps=(step,))
    yield Case(
        name="package/v1/asyncio",
        protocol=1,
        files={"asyncio.py": GOOD},
        arguments={"--handler": "asyncio:handle"},
        steps=(Step(line=invoke(1, protocol=1)),),
    )
    yield Case(
        name="package/v3/asyncio",
        files={"asyncio.py": GOOD},
        arguments={"--handler": "asyncio:handle"},
        steps=(Step(line=invoke(1)),),
    )
