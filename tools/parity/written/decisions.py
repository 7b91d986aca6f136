"""Staging, decisions and what becomes of them on return (3.8, 3.9, 3.13)."""

from collections.abc import Iterator

from parity.case import Case, controller

TASK = "ctx.task('t', program='p', version='1', queue='q', data={'b': (1,), 'a': 1.0})"
ACTION = "ApprovalAction('a', version='1', arguments={'x': 1})"
SUSPEND = f"r = {TASK}\nd = ctx.suspend(continuation='c', state={{'s': 1}}, until=[r])\n"

BODIES = {
    "complete": "return ctx.complete({'b': 1, 'a': (2.0, None)})",
    "complete-none": "return ctx.complete(None)",
    "complete-staged": f"{TASK}\nreturn ctx.fail('k', 'said: ' + str(refused(ctx.complete, 1)))",
    "fail": "return ctx.fail('kind', 'a message ä')",
    "fail-empty": "return ctx.fail('kind', '')",
    "fail-staged": f"{TASK}\nreturn ctx.fail('k', 'm')",
    "fail-message-bytes": "return ctx.complete([refused(ctx.fail, 'k', m) for m in ('x' * 4096, 'x' * 4097, 'ä' * 2048, 'ä' * 2049, 1, None, b'x')])",
    "fail-message-controls": "return ctx.fail('k', 'a\\x00\\n\\x7f\\ufdd0\\uffff')",
    "continue": "return ctx.continue_(continuation='c', state=[1, {'z': 1, 'a': 2}])",
    "continue-staged": f"{TASK}\nctx.workflow('w', program='p', version='2', queue='q', data=None)\nreturn ctx.continue_(continuation='c', state=None)",
    "suspend": f"{SUSPEND}return d",
    "suspend-empty": "return ctx.suspend(continuation='c', state=None)",
    "suspend-tuple": "return ctx.suspend(continuation='c', state=None, until=('x', 'y'))",
    "suspend-reference-and-key": f"r = {TASK}\nreturn ctx.complete(refused(ctx.suspend, continuation='c', state=None, until=[r, 't'])) if False else ctx.suspend(continuation='c', state=None, until=[r, 'other'])",
    "suspend-shapes": (
        "found = []\nfor until in (['a', 'a'], 'a', {'a'}, {'a': 1}, None, [1], [None], ['a'] * 65, [str(n) for n in range(64)], [str(n) for n in range(65)], iter(['a']), ('a',)):\n"
        "    try:\n        found.append(len(ctx.suspend(continuation='c', state=None, until=until)['until']))\n    except Exception as e:\n        found.append(type(e).__name__)\nreturn ctx.complete(found)"
    ),
    "suspend-duplicate-reference": f"r = {TASK}\nreturn ctx.fail('k', 'said: ' + str(refused(ctx.suspend, continuation='c', state=None, until=[r, 't'])))",
    "wait-event": "return ctx.wait_event('w', continuation='c', state=1)",
    "wait-event-timeout": "return ctx.wait_event('w', continuation='c', state=1, timeout_ms=0)",
    "wait-event-staged": f"{TASK}\nreturn ctx.wait_event('w', continuation='c', state=1, timeout_ms=31536000000)",
    "sleep": "return ctx.sleep('s', 5, continuation='c', state=1)",
    "times": (
        "found = []\nfor ms in (0, 1, 31536000000, 31536000001, -1, 1.0, True, None, '1', 2**70):\n"
        "    found.append([refused(ctx.sleep, 's', ms, continuation='c', state=1), refused(ctx.wait_event, 's', continuation='c', state=1, timeout_ms=ms),\n"
        f"        refused(ctx.request_approval, 'a', action={ACTION}, state=None, timeout_ms=ms, continuation='c')])\nreturn ctx.complete(found)"
    ),
    "approval": f"return ctx.request_approval('a', action={ACTION}, state=1, timeout_ms=5, continuation='c')",
    "approval-resume": f"return ctx.request_approval('a', action={ACTION}, state=1, timeout_ms=5, resume='c', proposed_arguments={{'b': 1, 'a': 2}})",
    "approval-alias": f"return ctx.wait_approval('a', action={ACTION}, state=1, timeout_ms=5, continuation='c')",
    "approval-dict": "return ctx.request_approval('a', action={'name': 'n', 'version': '1', 'arguments': {}}, state=1, timeout_ms=5, continuation='c')",
    "approval-targets": (
        f"found = []\nfor targets in ({{}}, {{'continuation': 'c', 'resume': 'c'}}, {{'continuation': None, 'resume': 'r'}}, {{'continuation': 1}}):\n"
        f"    found.append(refused(ctx.request_approval, 'a', action={ACTION}, state=1, timeout_ms=5, **targets))\nreturn ctx.complete(found)"
    ),
    "approval-actions": (
        "found = []\nfor action in (None, 'a', {}, {'name': 'n', 'version': '1'}, {'name': 'n', 'version': '1', 'arguments': {}, 'x': 1}, {'name': 'n', 'version': '1', 'arguments': []}, {'name': '', 'version': '1', 'arguments': {}}):\n"
        "    found.append(refused(ctx.request_approval, 'a', action=action, state=1, timeout_ms=5, continuation='c'))\nreturn ctx.complete(found)"
    ),
    "approval-proposed": (
        f"found = []\nfor given in (None, {{}}, [], 'x', {{'a': {{1}}}}, {{'a': 'x' * 32760}}, {{'a': 'x' * 32761}}):\n"
        f"    found.append(refused(ctx.request_approval, 'a', action={ACTION}, state=1, timeout_ms=5, continuation='c', proposed_arguments=given))\nreturn ctx.complete(found)"
    ),
    "action-bytes": "return ctx.complete([refused(ApprovalAction, 'a', version='1', arguments={'a': 'x' * n}) for n in (32000, 32700, 32720, 32721, 32722, 32723, 32724, 32725, 32726, 32727, 32760, 32768)])",
    "action-name-bytes": "return ctx.complete([refused(ApprovalAction, 'a' * n, version='1', arguments={}) for n in (512, 513)])",
    "action-arguments": "return ctx.complete([refused(ApprovalAction, 'a', version='1', arguments=a) for a in (None, [], (), __import__('collections').OrderedDict(), {1: 1}, {})])",
    "action-for-callable": "a = ApprovalAction.for_callable(add, version='1', arguments={'x': 1})\nreturn ctx.complete([a.name, a.version, a.arguments, a.to_dict(), list(a.to_dict())])",
    "action-for-partial": "import functools\nreturn ctx.complete(refused(ApprovalAction.for_callable, functools.partial(add, 1), version='1', arguments={}))",
    "action-equality": f"return ctx.complete([{ACTION} == {ACTION}, hash({ACTION}) == hash({ACTION}), {ACTION} == {ACTION}.to_dict(), {ACTION}.arguments is {ACTION}.arguments])",
    "action-repr-type": f"return ctx.complete(type(repr({ACTION})).__name__)",
    "action-frozen": f"a = {ACTION}\ntry:\n    a.name = 'b'\nexcept Exception as e:\n    return ctx.complete([type(e).__name__, isinstance(e, AttributeError)])",
    "action-new-attribute": f"a = {ACTION}\ntry:\n    a.other = 'b'\nexcept Exception as e:\n    return ctx.complete([isinstance(e, (AttributeError, TypeError))])",
    "action-copies": f"a = {ACTION}\na.arguments['x'] = 2\na.to_dict()['name'] = 'b'\nreturn ctx.complete(a.to_dict())",
    "approved-local-without": "return ctx.complete(refused(ctx.approved_local, add, version='1'))",
    "staged-order": "for k in 'cab':\n    ctx.task(k, program='p', version='1', queue='q', data=k)\nreturn ctx.continue_(continuation='c', state=None)",
    "staged-same": f"a, b = {TASK}, {TASK}\nreturn ctx.fail('k', 'said: ' + str([a is b, a == b, a.key, type(a).__name__]))",
    "staged-same-once": f"{TASK}\n{TASK}\nreturn ctx.continue_(continuation='c', state=None)",
    "staged-other": f"{TASK}\nfound = [refused(ctx.workflow, 't', program='p', version='1', queue='q', data={{'b': [1], 'a': 1.0}}), refused(ctx.task, 't', program='p', version='1', queue='q', data={{'b': [1], 'a': 1}}), refused(ctx.task, 't', program='p', version='2', queue='q', data={{'b': [1], 'a': 1.0}}), refused(ctx.task, 't', program='p', version='1', queue='q', data={{'a': 1.0, 'b': [1]}})]\nreturn ctx.fail('k', 'said: ' + str(found))",
    "staged-65": "found = [refused(ctx.task, f't{n}', program='p', version='1', queue='q', data=n) for n in range(66)]\nreturn ctx.continue_(continuation='c', state=[n for n, bad in enumerate(found) if bad])",
    "staged-bytes": "found = [refused(ctx.task, f't{n}', program='p', version='1', queue='q', data='x' * 100000) for n in range(4)]\nreturn ctx.continue_(continuation='c', state=found)",
    "staged-bytes-one": "found = [refused(ctx.task, f't{n}', program='p', version='1', queue='q', data='x' * n) for n in (262000, 262144)]\nreturn ctx.fail('k', 'said: ' + str(found))",
    "staged-settings": (
        "found = []\nfor n, given in enumerate([{'attempt_timeout_ms': v} for v in (59999, 60000, 86400000, 86400001, True, 60000.0, None, '60000')]\n"
        "    + [{'retry_policy': {'max_attempts': a, 'retry_delay_ms': d}} for a, d in ((1, 0), (0, 0), (1000, 86400000), (1001, 0), (1, 86400001), (True, 0), (1, 1.0), (1, -1))]\n"
        "    + [{'retry_policy': v} for v in (None, {}, {'max_attempts': 1}, {'max_attempts': 1, 'retry_delay_ms': 1, 'x': 1}, [], 'x')]):\n"
        "    found.append(refused(ctx.task, f't{n}', program='p', version='1', queue='q', data=None, **given))\nreturn ctx.fail('k', 'said: ' + repr(found))"
    ),
    "staged-default-written-out": "ctx.task('t', program='p', version='1', queue='q', data=1)\nreturn ctx.fail('k', 'said: ' + str(refused(ctx.task, 't', program='p', version='1', queue='q', data=1, retry_policy={'retry_delay_ms': 5000, 'max_attempts': 3}, attempt_timeout_ms=300000)))",
    "staged-data-copied": "data = [1]\nctx.task('t', program='p', version='1', queue='q', data=data)\ndata.append(2)\nreturn ctx.continue_(continuation='c', state=None)",
    "staged-missing-argument": "try:\n    ctx.task('t', program='p', version='1', queue='q')\nexcept TypeError:\n    return ctx.complete('type')",
    "reference-awaited": f"r = {TASK}\ntry:\n    await r\nexcept TypeError:\n    return ctx.fail('k', 'said: type')",
    "reference-in-state": f"r = {TASK}\nreturn ctx.fail('k', 'said: ' + str(refused(ctx.continue_, continuation='c', state=r)))",
    "reference-result": f"r = {TASK}\nreturn ctx.fail('k', 'said: ' + str(refused(ctx.get_result, r)))",
    "reference-made": "r = TaskRef('t', ctx)\nreturn ctx.complete([refused(ctx.get_result, r), r.key])",
    "reference-made-until": "r = TaskRef('t', ctx)\ntry:\n    return ctx.suspend(continuation='c', state=None, until=[r])\nexcept workflow.WorkflowError:\n    return ctx.complete('refused')",
    "late-staging": f"d = ctx.continue_(continuation='c', state=None)\n{TASK}\nreturn d",
    "late-staging-same": f"{TASK}\nd = ctx.continue_(continuation='c', state=None)\n{TASK}\nreturn d",
    "late-staging-complete": f"d = ctx.complete(1)\n{TASK}\nreturn d",
    "late-staging-fail": f"d = ctx.fail('k', 'm')\n{TASK}\nreturn d",
    "late-fork": "d = ctx.complete(1)\nawait ctx.fork('f', branches=[ctx.branch('b', entrypoint='e', queue='q', data=1)])\nreturn d",
    "late-local": "d = ctx.complete(1)\nawait ctx.local('k', add, x=1)\nreturn d",
    "two-decisions": "ctx.fail('k', 'm')\nreturn ctx.complete(1)",
    "state-bytes": "return ctx.complete([refused(ctx.continue_, continuation='c', state='x' * n) for n in (65534, 65535)])",
    "decision-bytes": "return ctx.complete([refused(ctx.complete, 'x' * n) for n in (262000, 262050, 262060, 262064, 262065, 262066, 262067, 262068, 262069, 262070, 262071, 262072, 262073, 262074, 262144)])",
    "decision-bytes-returned": "return ctx.complete('x' * 262000)",
    "floats": "return ctx.complete([1e-05, 1e22, 0.1, -0.0, 1e16, 123456789.125])",
    "depth": "return ctx.complete([refused(ctx.complete, nested(n)) for n in (63, 64, 65)] + [refused(ctx.continue_, continuation='c', state=nested(n)) for n in (64, 65)])",
    "depth-returned": "return ctx.complete(nested(64))",
    "none": "return None",
    "nothing": "pass",
    "text": "return 'complete'",
    "list": "return [ctx.complete(1)]",
    "manual": "return {'v': 1, 'activation_id': 'act', 'revision': 0, 'kind': 'complete', 'output': 1}",
    "manual-fail": "return {'v': 1, 'activation_id': 'act', 'revision': 0, 'kind': 'fail', 'error': {'kind': 'k', 'message': 'm'}}",
    "manual-wait": "return {'v': 1, 'activation_id': 'act', 'revision': 0, 'kind': 'wait', 'continuation': 'c', 'state': 1, 'commands': [], 'wait': {'kind': 'timer', 'key': 'k', 'delay_ms': 1}}",
    "subclass": "class D(dict):\n    pass\nreturn D(ctx.complete(1))",
    "ordered-dict": "import collections\nreturn collections.OrderedDict(ctx.complete(1))",
    "copy": "import copy\nreturn copy.deepcopy(ctx.continue_(continuation='c', state={'a': [1]}))",
    "through-json": "import json\nreturn json.loads(json.dumps(ctx.continue_(continuation='c', state={'a': [1]})))",
    "state-changed-after": "s = [1]\nd = ctx.continue_(continuation='c', state=s)\ns.append(2)\nreturn d",
    "state-changed-within": "d = ctx.continue_(continuation='c', state=[1])\nd['state'].append((2, {'b': 1, 'a': 2}))\nreturn d",
    "awaitable": "async def f():\n    return ctx.complete(1)\nreturn f()",
    "types": "return ctx.complete([type(ctx.complete(1)).__name__, sorted(ctx.complete(1)), sorted(ctx.sleep('s', 1, continuation='c', state=1))])",
    "key-order": "return ctx.complete([list(d) for d in (ctx.complete(1), ctx.fail('k', 'm'), ctx.suspend(continuation='c', state=1))])",
}

CHANGES = {
    "extra": "d['x'] = 1",
    "removed-v": "del d['v']",
    "removed-until": "del d['until']",
    "removed-commands": "del d['commands']",
    "v-true": "d['v'] = True",
    "v-float": "d['v'] = 1.0",
    "v-2": "d['v'] = 2",
    "revision-true": "d['revision'] = False",
    "revision-float": "d['revision'] = 0.0",
    "revision-1": "d['revision'] = 1",
    "activation": "d['activation_id'] = 'other'",
    "kind": "d['kind'] = 'continue'",
    "kind-unknown": "d['kind'] = 'stop'",
    "kind-none": "d['kind'] = None",
    "kind-list": "d['kind'] = []",
    "commands-empty": "d['commands'] = []",
    "commands-tuple": "d['commands'] = tuple(d['commands'])",
    "commands-same": "d['commands'] = [dict(d['commands'][0])]",
    "commands-reordered": "d['commands'] = [dict(reversed(d['commands'][0].items()))]",
    "command-changed": "d['commands'][0]['queue'] = 'other'",
    "command-number": "d['commands'][0]['data']['a'] = 1",
    "command-twice": "d['commands'] *= 2",
    "state-set": "d['state'] = {1}",
    "state-bytes": "d['state'] = 'x' * 65535",
    "state-deep": "d['state'] = nested(65)",
    "state-enum": "d['state'] = OperationKind.MODEL",
    "state-nan": "d['state'] = float('nan')",
    "continuation-empty": "d['continuation'] = ''",
    "continuation-number": "d['continuation'] = 1",
    "continuation-enum": "d['continuation'] = OperationKind.MODEL",
    "continuation-other": "d['continuation'] = 'z'",
    "until-other": "d['until'] = ['z']",
    "until-empty": "d['until'] = []",
    "until-none": "d['until'] = None",
    "until-text": "d['until'] = 't'",
    "until-number": "d['until'] = [1]",
    "until-twice": "d['until'] = ['t', 't']",
    "until-65": "d['until'] = [str(n) for n in range(65)]",
    "until-tuple": "d['until'] = ('t',)",
    "until-empty-key": "d['until'] = ['']",
    "until-reference": "d['until'] = [r]",
}

WAITS = {
    "kind": "d['wait']['kind'] = 'event'",
    "delay": "d['wait']['delay_ms'] = -1",
    "delay-true": "d['wait']['delay_ms'] = True",
    "delay-none": "d['wait']['delay_ms'] = None",
    "key": "d['wait']['key'] = ''",
    "extra": "d['wait']['x'] = 1",
    "none": "d['wait'] = None",
    "list": "d['wait'] = []",
    "as-event": "d['wait'] = {'kind': 'event', 'key': 'k', 'timeout_ms': None}",
    "as-event-without": "d['wait'] = {'kind': 'event', 'key': 'k'}",
    "as-approval": "d['wait'] = {'kind': 'approval', 'key': 'k', 'action': {'name': 'n', 'version': '1', 'arguments': {}}, 'timeout_ms': 1}",
    "as-approval-proposed-none": "d['wait'] = {'kind': 'approval', 'key': 'k', 'action': {'name': 'n', 'version': '1', 'arguments': {}}, 'timeout_ms': 1, 'proposed_arguments': None}",
    "as-approval-proposed": "d['wait'] = {'kind': 'approval', 'key': 'k', 'action': {'name': 'n', 'version': '1', 'arguments': {}}, 'timeout_ms': 1, 'proposed_arguments': {'a': 1}}",
    "as-approval-null-timeout": "d['wait'] = {'kind': 'approval', 'key': 'k', 'action': {'name': 'n', 'version': '1', 'arguments': {}}, 'timeout_ms': None}",
    "as-approval-bad-action": "d['wait'] = {'kind': 'approval', 'key': 'k', 'action': {'name': 'n', 'version': '1', 'arguments': []}, 'timeout_ms': 1}",
    "subclass": "d['wait'] = __import__('collections').OrderedDict(d['wait'])",
}

ENDS = {
    "fail-kind": "d = ctx.fail('k', 'm')\nd['error']['kind'] = ''",
    "fail-message": "d = ctx.fail('k', 'm')\nd['error']['message'] = 'x' * 4097",
    "fail-extra": "d = ctx.fail('k', 'm')\nd['error']['x'] = 1",
    "fail-message-none": "d = ctx.fail('k', 'm')\nd['error']['message'] = None",
    "fail-commands": "d = ctx.fail('k', 'm')\nd['commands'] = []",
    "fail-error-text": "d = ctx.fail('k', 'm')\nd['error'] = 'x'",
    "complete-other": "d = ctx.complete(1)\nd['output'] = (2, {'b': 1, 'a': 2})",
    "complete-set": "d = ctx.complete(1)\nd['output'] = {1}",
    "complete-deep": "d = ctx.complete(1)\nd['output'] = nested(65)",
    "complete-long": "d = ctx.complete(1)\nd['output'] = 'x' * 262144",
    "complete-commands": "d = ctx.complete(1)\nd['commands'] = []",
    "complete-state": "d = ctx.complete(1)\nd['state'] = None",
}


def cases() -> Iterator[Case]:
    for name, body in BODIES.items():
        yield controller(f"decision/{name}", body)
    for name, change in CHANGES.items():
        yield controller(f"changed/{name}", f"{SUSPEND}{change}\nreturn d")
    for name, change in WAITS.items():
        yield controller(
            f"changed/wait/{name}", f"d = ctx.sleep('k', 1, continuation='c', state=1)\n{change}\nreturn d"
        )
    for name, body in ENDS.items():
        yield controller(f"changed/{name}", f"{body}\nreturn d")
    yield controller("changed/revision", "return ctx.complete(1)", revision=2**64 - 1)
    same = (
        "d = ctx.complete(1)\nd['activation_id'], d['revision'] = str(d['activation_id']), int(d['revision'])\nreturn d"
    )
    yield controller("changed/equal", same, revision=9)
    subclass = "d = ctx.complete(1)\nd['activation_id'] = type('S', (str,), {})('act')\nreturn d"
    yield controller("changed/activation-subclass", subclass)
    kept = "memory['d'] = ctx.complete(1)\nreturn memory['d']"
    yield controller("changed/kept", kept, revision=3)
