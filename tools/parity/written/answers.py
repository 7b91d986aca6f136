"""Right and wrong replies to requests, and what the activation makes of them (1.7, 3.12)."""

from collections.abc import Iterator

from parity.case import Case, Frame, controller

PRINTS = "print('<<' + str(await refused_later(ctx.local('k', add, x=1))) + '>>', flush=True)\n"
ANSWERS: dict[str, Frame] = {
    "true": {"result": {"committed": True}},
    "one": {"result": {"committed": 1}},
    "false": {"result": {"committed": False}},
    "null": {"result": None},
    "extra": {"result": {"committed": True, "x": 1}},
    "empty": {"result": {}},
    "list": {"result": [True]},
    "id-2": {"change": {"id": 2}},
    "id-float": {"change": {"id": 1.0}},
    "id-true": {"change": {"id": True}},
    "id-text": {"change": {"id": "1"}},
    "v-float": {"change": {"v": 3.0}},
    "v-2": {"change": {"v": 2}},
    "event-id": {"change": {"event_id": "other"}},
    "attempt-id": {"change": {"attempt_id": "other"}},
    "event-id-list": {"change": {"event_id": ["ev"]}},
    "type": {"change": {"type": "invoke"}},
    "extra-member": {"change": {"x": 1}},
    "no-result": {"drop": ["result"]},
    "no-id": {"drop": ["id"]},
    "eof": {"eof": True},
    "empty-line": {"raw": "\n"},
    "no-json": {"raw": "reply\n"},
    "array": {"raw": "[]\n"},
    "duplicate": {
        "raw": '{"v":3,"v":3,"type":"runtime_reply","event_id":"ev","attempt_id":"at","id":1,"result":{"committed":true}}\n'
    },
    "duplicate-deep": {
        "raw": '{"v":3,"type":"runtime_reply","event_id":"ev","attempt_id":"at","id":1,"result":{"committed":true,"committed":true}}\n'
    },
    "nan": {"raw": '{"v":3,"type":"runtime_reply","event_id":"ev","attempt_id":"at","id":1,"result":NaN}\n'},
    "spaced": {
        "raw": '  {"v": 3, "type": "runtime_reply", "event_id": "ev", "attempt_id": "at", "id": 1, "result": {"committed": true}} \n'
    },
    "escaped": {
        "raw": '{"v":3,"type":"runtime_reply","event_id":"\\u0065v","attempt_id":"at","id":1,"result":{"committed":true}}\n'
    },
    "bom": {
        "raw": '\ufeff{"v":3,"type":"runtime_reply","event_id":"ev","attempt_id":"at","id":1,"result":{"committed":true}}\n'
    },
    "bad-utf-8": {"raw": '{"v":3,"type":"runtime_reply","event_id":"ev","attempt_id":"at","id":1,"result":"\udcff"}\n'},
}
AFTER = {
    "raised": "return ctx.complete(await ctx.local('k', add, x=1))",
    "caught": PRINTS + "return ctx.complete(1)",
    "before": "d = ctx.complete(1)\n" + PRINTS + "return d",
    "unseen": "ctx.local('k', add, x=1)\nreturn ctx.complete(1)",
    "retried": PRINTS + "print('<<' + str(refused(ctx.local, 'l', add, x=1)) + '>>', flush=True)\nreturn None",
}
FORK_ANSWERS = {
    "reversed": {"committed": True, "key": "f", "branch_keys": ["y", "x"]},
    "missing": {"committed": True, "key": "f", "branch_keys": ["x"]},
    "extra": {"committed": True, "key": "f", "branch_keys": ["x", "y", "z"]},
    "duplicate": {"committed": True, "key": "f", "branch_keys": ["x", "x"]},
    "number": {"committed": True, "key": "f", "branch_keys": ["x", 1]},
    "one": {"committed": 1, "key": "f", "branch_keys": ["x", "y"]},
    "key": {"committed": True, "key": "g", "branch_keys": ["x", "y"]},
    "member": {"committed": True, "key": "f", "branch_keys": ["x", "y"], "z": 1},
    "no-keys": {"committed": True, "key": "f"},
    "bare": {"committed": True},
    "null-keys": {"committed": True, "key": "f", "branch_keys": None},
    "object-keys": {"committed": True, "key": "f", "branch_keys": {"x": 1, "y": 2}},
}


def cases() -> Iterator[Case]:
    for name, answer in ANSWERS.items():
        for after, body in AFTER.items():
            if after in ("raised", "caught") or name in ("one", "eof", "id-2"):
                yield controller(f"answer/{name}/{after}", body, answers=(answer,))
    two = "b = [ctx.branch(k, entrypoint='e', queue='q', data=None) for k in 'xy']\n"
    for name, result in FORK_ANSWERS.items():
        body = (
            two
            + "print('<<' + str(await refused_later(ctx.fork('f', branches=b))) + '>>', flush=True)\nreturn ctx.complete(1)"
        )
        yield controller(f"answer/fork-{name}", body, answers=({"result": result},))
    queued = two + (
        "r = ctx.local('k', add, x=1)\nf = asyncio.create_task(ctx.fork('f', branches=b))\n"
        "found = await asyncio.gather(r, f, return_exceptions=True)\nreturn ctx.complete(1)"
    )
    yield controller("answer/fork-queued-behind-failure", queued, answers=({"result": {"committed": 1}},))
    second = "a = await ctx.local('a', add, x=1)\nreturn ctx.complete(await ctx.local('b', add, x=2))"
    yield controller("answer/second-fails", second, answers=({}, {"change": {"id": 1}}))
