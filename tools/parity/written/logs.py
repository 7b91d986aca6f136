"""Log frames: contents, bounds, and when they come (1.10, 3.2)."""

from collections.abc import Iterator
from typing import Any

from parity.case import Case, Step, activation, invoke, program

HEAD = "import logging, threading\nfrom ledgence.worker import get_logger\nlog = get_logger('app')\n"
END = "def handle(event):\n    if event['data'] == 'end':\n        get_logger('end').info('end')\n        return 1\n"

BODIES = {
    "info": "log.info('hello %s', 'x')",
    "debug": "log.debug('hidden')",
    "levels": "for n in (0, 5, 10, 20, 25, 30, 40, 50, 99):\n        log.log(n, 'at %d', n)",
    "level-set": "log.setLevel(5)\n    log.log(5, 'low')",
    "custom-level": "logging.addLevelName(35, 'NOTICE')\n    log.log(35, 'custom')",
    "long-level": "logging.addLevelName(36, 'N' * 40)\n    log.log(36, 'custom')",
    "attributes": "log.info('m', extra={'attributes': {'b': 1, 'a': [1.5, None, True, 'x', {'y': 'z'}]}})",
    "attributes-tuple": "log.info('m', extra={'attributes': {'a': (1, 2)}})",
    "attributes-odd": "log.info('m', extra={'attributes': {'a': {1}, 'b': b'x', 'c': object(), 'd': len, 'e': 1j}})",
    "attributes-keys": "log.info('m', extra={'attributes': {1: 2, None: 3, 'x': {5: 6, 'y': 7}}})",
    "attributes-long-key": "log.info('m', extra={'attributes': {'k' * 256: 1, 'l' * 257: 2}})",
    "attributes-empty-key": "log.info('m', extra={'attributes': {'': 1}})",
    "attributes-deep": "log.info('m', extra={'attributes': {'a': {'b': {'c': {'d': {'e': 1}}}}}})",
    "attributes-deep-list": "log.info('m', extra={'attributes': {'a': [[[[1]]]]}})",
    "attributes-33": "log.info('m', extra={'attributes': {f'k{n:02}': n for n in range(40)}})",
    "attributes-list-33": "log.info('m', extra={'attributes': {'a': list(range(40))}})",
    "attributes-64": "log.info('m', extra={'attributes': {f'k{n}': list(range(20)) for n in range(10)}})",
    "attributes-text": "log.info('m', extra={'attributes': {'a': 'x' * 3000, 'b': 'y' * 3000, 'c': 'z'}})",
    "attributes-none": "log.info('m', extra={'attributes': None})",
    "attributes-list": "log.info('m', extra={'attributes': [1]})",
    "attributes-text-only": "log.info('m', extra={'attributes': 'x'})",
    "attributes-nan": "log.info('m', extra={'attributes': {'a': float('nan')}})\n    log.info('after')",
    "attributes-infinity": "log.info('m', extra={'attributes': {'a': [float('inf')]}})\n    log.info('after')",
    "attributes-surrogate": "log.info('m', extra={'attributes': {'a': '\\ud800'}})\n    log.info('after')",
    "attributes-big-integer": "log.info('m', extra={'attributes': {'a': 2 ** 64}})\n    log.info('after')",
    "attributes-integers": "log.info('m', extra={'attributes': {'a': 2 ** 64 - 1, 'b': -2 ** 63}})",
    "attributes-cycle": "a = {}\n    a['a'] = a\n    log.info('m', extra={'attributes': a})\n    log.info('after')",
    "attributes-subclass": "import collections, enum\n    log.info('m', extra={'attributes': collections.OrderedDict(a=enum.IntEnum('E', 'X').X, b=enum.StrEnum('S', 'Y').Y)})",
    "attributes-later": "a = {'x': [1]}\n    log.info('m', extra={'attributes': a})\n    a['x'].append(2)",
    "attributes-missing": "log.info('m', extra={'other': 1})",
    "message-long": "log.info('x' * 5000)",
    "message-4096": "log.info('ä' * 4096)",
    "message-unicode": "log.info('ä€𝄞 \\x00 \\n \\u2028 \"')",
    "message-surrogate": "log.info('\\ud800')\n    log.info('after')",
    "message-bad-format": "log.info('%d', 'x')\n    log.info('after')",
    "message-missing-argument": "log.info('%s %s', 1)\n    log.info('after')",
    "message-object": "log.info(5)\n    log.info(None)\n    log.info(['x'])",
    "message-raises": "class C:\n        def __str__(self):\n            raise ValueError\n    log.info(C())\n    log.info('%s', C())\n    log.info('after')",
    "message-empty": "log.info('')",
    "message-percent": "log.info('100%')",
    "message-dict": "log.info('%(a)s', {'a': 5})",
    "exception": "try:\n        1 / 0\n    except ZeroDivisionError:\n        log.exception('failed')",
    "stack": "log.info('m', stack_info=True)",
    "logger-long": "get_logger('n' * 300).info('m')",
    "logger-root": "get_logger('').info('m')",
    "logger-none": "get_logger(None).info('m')",
    "logger-unicode": "get_logger('ä𝄞').info('m')",
    "logger-child": "get_logger('app.child').info('once')",
    "logger-child-plain": "logging.getLogger('app.plain').info('through the parent')\n    logging.getLogger('app.plain').warning('louder')",
    "logger-other": "logging.getLogger('other').warning('not ours')",
    "logger-type": "try:\n        get_logger(5)\n    except Exception as e:\n        return type(e).__name__",
    "logger-twice": "get_logger('app')\n    get_logger('app')\n    log.info('m')\n    return len(log.handlers)",
    "logger-state": "l = get_logger('fresh')\n    k = logging.getLogger('kept')\n    k.setLevel(40)\n    get_logger('kept')\n    return [l.level, l.propagate, k.level, logging.getLogger().level, len(logging.getLogger().handlers), type(l).__name__]",
    "logger-disabled": "log.disabled = True\n    log.error('m')\n    log.disabled = False",
    "logging-disabled": "logging.disable(50)\n    log.error('m')\n    logging.disable(0)",
    "filter": "log.addFilter(lambda record: 'no' not in record.msg)\n    log.info('no')\n    log.info('yes')",
    "handled-again": "r = log.makeRecord('app', 20, 'f', 1, 'again', (), None)\n    log.handle(r)\n    log.handle(r)",
    "equal-twice": "log.info('m')\n    log.info('m')",
    "record-by-hand": "log.handle(logging.makeLogRecord({'msg': 'made', 'levelno': 30, 'levelname': 'WARNING', 'name': 'hand'}))",
    "adapter": "logging.LoggerAdapter(log, {'attributes': {'a': 1}}).info('m')",
    "thread": "t = threading.Thread(target=log.info, args=('thread',))\n    t.start()\n    t.join()",
    "thread-context": "import contextvars\n    t = threading.Thread(target=contextvars.copy_context().run, args=(log.info, 'thread'))\n    t.start()\n    t.join()",
    "frame-long": "log.info('x' * 4096, extra={'attributes': {'a': '\\x00' * 4000}})",
    "frame-longer": "log.info('\\x00' * 4096, extra={'attributes': {'a': 1}})",
    "many": "for n in range(40):\n        log.info('%d', n)",
    "before-failure": "log.info('m')\n    raise ValueError('said: x')",
    "after-output": "import sys\n    print('<<out>>', flush=True)\n    log.info('m')",
    "captured-warning": "logging.captureWarnings(True)\n    import warnings\n    warnings.formatwarning = lambda message, *more: str(message)\n    get_logger('py.warnings')\n    warnings.warn('w')",
    "event-changed": "event.clear()\n    log.info('m')",
    "time": "r = []\n    log.addFilter(lambda record: setattr(record, 'created', 0.0) or True)\n    log.info('m')",
    "time-far": "log.addFilter(lambda record: setattr(record, 'created', 1e300) or True)\n    log.info('m')\n    return 'on'",
}

IMPORTS = {
    "import": "log.info('while importing')\n",
    "import-many": "for n in range(70):\n    log.info('%d', n)\n",
    "import-bytes": "for n in range(64):\n    log.info('x' * 4000)\n",
    "import-fails": "log.info('while importing')\nraise ValueError\n",
    "import-print": "print('<<p>>', flush=True)\nlog.info('while importing')\n",
}


def cases() -> Iterator[Case]:
    for name, body in BODIES.items():
        yield program(f"log/{name}", f"{HEAD}{END}    {body}\n", Step(line=invoke(1)), _end(3))
    for name, source in IMPORTS.items():
        for protocol in (1, 2, 3):
            first = Step(
                line=invoke(1, protocol=protocol), until_log="63" if name == "import-many" and protocol > 1 else None
            )
            yield program(f"log/v{protocol}/{name}", f"{HEAD}{source}{END}", first, _end(protocol), protocol=protocol)
    yield from _identities()


def _end(protocol: int) -> Step:
    """Logs its last record, behind which nothing is missing any more; protocol 1 has no log frames."""
    return Step(line=invoke("end", protocol=protocol), until_log="end" if protocol > 1 else None)


def _identities() -> Iterator[Case]:
    source = f"{HEAD}{END}    log.info('m')\n    log.info('n', extra={{'attributes': {{'a': 1}}}})\n    return 1\n"
    carrier = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    events: dict[str, dict[str, Any]] = {
        "plain": {},
        "bare": dict.fromkeys(("source", "ldgtenantid", "ldgnamespace", "ldgrunid", "ldgtaskid", "ldgattemptno"), ...),
        "workflow": {"ldgworkflowid": "w", "ldgactivationid": "a"},
        "nested": {"ldgworkflowid": "w", "ldgactivationid": "a", "ldgparentworkflowid": "p", "ldgrootworkflowid": "r"},
        "root-only": {"ldgworkflowid": "w", "ldgrootworkflowid": "r"},
        "odd": {"ldgtaskid": 5, "ldgattemptno": "x"},
    }
    for protocol in (2, 3):
        for name, event in events.items():
            for title, context in {"": None, "-traced": carrier}.items():
                frame = invoke(1, protocol=protocol, event=event, processing_context=context)
                case = f"log/v{protocol}/identity/{name}{title}"
                yield program(case, source, Step(line=frame), _end(protocol), protocol=protocol)
    controller = (
        f"{HEAD}from ledgence.worker.workflow import workflow_context\nasync def work(ctx):\n    log.info('handler')\n"
        "    def step():\n        log.info('step')\n        return 1\n    await ctx.local('k', step)\n    return ctx.complete(1)\n"
        f"{END}    return work(workflow_context())\n"
    )
    for name, payload in {
        "root": activation(),
        "nested": activation(parent_workflow_id="p", root_workflow_id="r"),
    }.items():
        yield program(f"log/activation/{name}", controller, Step(line=invoke(1, payload=payload)), _end(3))
    long = f"{HEAD}{END}    log.info('x' * 2000, extra={{'attributes': {{'a': 1}}}})\n    return 1\n"
    for limit in (700, 1000, 2300, 2500):
        arguments: dict[str, str | None] = {"--max-output-bytes": str(limit)}
        yield program(f"log/limit/{limit}", long, Step(line=invoke(1)), _end(3), arguments=arguments)
