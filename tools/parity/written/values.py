"""Values of workflows, whose rules are by exact type (3.4), at every place that takes one."""

from collections.abc import Iterator

from parity.case import Case, controller
from parity.written.tasks import ACCEPTED, REFUSED

# Each place keeps going after a refusal and says what kind it was.
ATTEMPT = """
async def attempt(action):
    try:
        value = action()
        if asyncio.iscoroutine(value) or hasattr(value, "__await__"):
            value = await value
        return ["ok", value if isinstance(value, (dict, list, str, int, float, type(None))) else "object"]
    except Exception as error:
        return ["refused", type(error).__name__]
"""

PLACES = {
    "argument": "ctx.local('k', identity, value=value)",
    "output": "ctx.local('k', lambda: value)",
    "state": "ctx.continue_(continuation='c', state=value)['state']",
    "data": "ctx.task('t', program='p', version='1', queue='q', data=value)",
    "complete": "ctx.complete(value)['output']",
}

MORE = {
    "string-1": "'x' * 65534",
    "string-2": "'x' * 65535",
    "string-3": "'x' * 131072",
    "string-4": "'ä' * 32767",
    "string-5": "'\\x00' * 11000",
    "string-6": "'x' * 262000",
    "string-7": "'x' * 262144",
    "many-floats": "[1e-05] * 5000",
    "long-floats": "[0.1234567890123456] * 4000",
    "nan-subclass": "type('F', (float,), {})('nan')",
    "bool-subclass-none": "[True, None, False]",
    "dict-subclass": "type('D', (dict,), {})(a=1)",
    "list-subclass": "type('L', (list,), {})([1])",
    "deep-tuple": "__import__('functools').reduce(lambda value, _: (value,), range(64), 1)",
    "task-reference": "ctx.task('ref', program='p', version='1', queue='q', data=1)",
    "branch": "ctx.branch('b', entrypoint='e', queue='q', data=1)",
    "context": "ctx",
}


def cases() -> Iterator[Case]:
    for name, expression in {**ACCEPTED, **REFUSED, **MORE}.items():
        if "event" in name or name == "data":
            continue
        body = f"{ATTEMPT}\nvalue = {expression}\nfound = [\n"
        body += "".join(
            f"    await attempt(lambda: {place}),\n" for place in PLACES.values() if "ctx.task" not in place
        )
        body += f"    await attempt(lambda: {PLACES['data']}),\n]\n"
        body += "return ctx.fail('seen', 'said: ' + repr([f[0] if len(repr(f)) > 60 else f for f in found]))"
        yield controller(f"value/{name}", body.replace("'k', lambda", "'l', lambda"))
    yield from _texts()


TEXTS = {
    "empty": "''",
    "one": "'x'",
    "spaces": "' '",
    "128": "'x' * 128",
    "129": "'x' * 129",
    "128-two": "'ä' * 64",
    "130-two": "'ä' * 65",
    "control": "'a\\x1fb'",
    "c1": "'a\\x85b'",
    "delete": "'\\x7f'",
    "non-character": "'\\ufdd0'",
    "non-character-high": "'\\U0001ffff'",
    "astral": "'𝄞'",
    "line-separator": "'\\u2028'",
    "surrogate": "'\\ud800'",
    "private": "'\\ue000'",
    "integer": "1",
    "none": "None",
    "bytes": "b'k'",
    "str-subclass": "type('S', (str,), {})('k')",
    "str-enum": "OperationKind.TOOL",
    "approval": "'_approval:x'",
    "approval-bare": "'_approval'",
    "path": "'a.b_c-d'",
    "upper": "'A'",
    "dot": "'.'",
    "dots": "'..'",
    "slash": "'a/b'",
    "start": "'start'",
}

TEXT_PLACES = {
    "local": "ctx.local(text, add, x=1)",
    "operation": "ctx.operation(text, add, kind=OperationKind.TOOL, version='1', arguments={'x': 1})",
    "operation version": "ctx.operation('o', add, kind=OperationKind.TOOL, version=text, arguments={'x': 1})",
    "task": "ctx.task(text, program='p', version='1', queue='q', data=None)",
    "program": "ctx.task('t1', program=text, version='1', queue='q', data=None)",
    "version": "ctx.task('t2', program='p', version=text, queue='q', data=None)",
    "queue": "ctx.workflow('t3', program='p', version='1', queue=text, data=None)",
    "branch": "ctx.branch(text, entrypoint='e', queue='q', data=None)",
    "branch entrypoint": "ctx.branch('b', entrypoint=text, queue='q', data=None)",
    "fork": "ctx.fork(text, branches=[ctx.branch(f'b{number}', entrypoint='e', queue='q', data=None)])",
    "get_result": "ctx.get_result(text)",
    "continuation": "ctx.continue_(continuation=text, state=None)",
    "until": "ctx.suspend(continuation='c', state=None, until=[text])",
    "event key": "ctx.wait_event(text, continuation='c', state=None)",
    "sleep key": "ctx.sleep(text, 1, continuation='c', state=None)",
    "fail kind": "ctx.fail(text, 'm')",
    "fail message": "ctx.fail('k', text)",
    "action": "ApprovalAction(text, version='1', arguments={})",
    "action version": "ApprovalAction('a', version=text, arguments={})",
    "approval key": (
        "ctx.request_approval(text, action=ApprovalAction('a', version='1', arguments={}), state=None, timeout_ms=1,"
        " continuation='c')"
    ),
}


def _texts() -> Iterator[Case]:
    for place, action in TEXT_PLACES.items():
        lines = [ATTEMPT, "found = {}"]
        for number, (name, text) in enumerate(TEXTS.items()):
            if name == "surrogate" and place == "fail message":
                continue
            lines.append(f"text, number = {text}, {number}")
            lines.append(f"found[{name!r}] = (await attempt(lambda: {action}))[0]")
        lines.append("return ctx.fail('seen', 'said: ' + repr(found))")
        yield controller(f"text/{place.replace(' ', '-')}", "\n".join(lines))
    lone = (
        "try:\n    ctx.fail('k', '\\ud800')\nexcept Exception as error:\n    return ctx.complete(type(error).__name__)"
    )
    yield controller("text/fail-message-surrogate", lone)
