"""Branches, forks and joins (chapter 23, Forks)."""

import json

import pytest

BRANCH = 'branch = lambda key, **more: ctx.branch(key, **({"entrypoint": "e", "queue": "q", "data": None} | more))\n'


def forks(lab):
    return [request["payload"]["key"] for request in lab.host.requests if request["operation"] == "workflow.fork"]


def test_a_branch_schedules_nothing_and_does_not_block_complete(lab):
    """HLP-104."""
    assert lab.completed(BRANCH + "return ctx.complete(branch('b').key)") == "b"
    assert lab.host.requests == []


def test_a_fork_does_nothing_until_it_is_awaited(lab):
    """HLP-105; vector 'un-awaited fork'; easily got wrong 2."""
    code = BRANCH + "never = ctx.fork('f', branches=[branch('b')])\nawait asyncio.sleep(0)\nnever.close()\n"
    assert lab.completed(code + "return ctx.complete(None)") is None
    assert lab.host.requests == []


@pytest.mark.parametrize("key", ["''", "'f' * 129", "None", "1", "'a\\n'"])
def test_the_key_of_a_fork_is_a_text(lab, key):
    """HLP-105."""
    code = BRANCH + f"return ctx.complete(await refused_later(ctx.fork({key}, branches=[branch('b')])))"
    assert lab.completed(code) is True
    assert lab.host.requests == []


@pytest.mark.parametrize(
    "branches",
    [
        "[]",
        "()",
        "None",
        "{}",
        "{branch('b')}",
        "iter([branch('b')])",
        "[branch('b'), branch('b')]",
        "[branch(f'b{n}') for n in range(65)]",
        "['b']",
        "[{'key': 'b', 'entrypoint': 'e', 'queue': 'q', 'data': None}]",
        "[memory['branch']]",
        "[ctx.task('b', program='p', version='1', queue='q', data=None)]",
        "[branch(f'b{n}', data='x' * 70000) for n in range(2)]",
        "branch('b')",
    ],
)
def test_what_a_fork_refuses_before_any_request(lab, branches):
    """HLP-105."""
    lab.completed(BRANCH + "memory['branch'] = branch('b')\nreturn ctx.complete(None)")
    code = BRANCH + f"return ctx.fail('k', str(await refused_later(ctx.fork('f', branches={branches}))))"
    assert lab.decision(code)["error"]["message"] == "True"
    assert lab.host.requests == []


def test_64_branches_in_a_request_of_128_kib_are_accepted(lab):
    """HLP-105: all bounds inclusive."""
    code = BRANCH + "fork = await ctx.fork('f', branches=tuple(branch(f'b{n}', data=DATA) for n in range(64)))\n"
    code += "return ctx.complete(list(fork.branch_keys))"
    keys = [f"b{n}" for n in range(64)]
    assert lab.completed(code.replace("DATA", "''")) == keys
    empty = len(json.dumps(lab.host.requests[0]["payload"], separators=(",", ":")))
    spare = 128 * 1024 - empty
    filled = code.replace("DATA", f"'x' * ({spare // 64} + (n < {spare % 64}))")
    assert lab.completed(filled) == keys
    assert len(json.dumps(lab.host.requests[0]["payload"], separators=(",", ":"))) == 128 * 1024
    assert lab.refused(filled.replace(f"(n < {spare % 64})", f"(n <= {spare % 64})"))


def test_the_activation_goes_on_after_the_acknowledgement(lab, acknowledge):
    """HLP-106."""
    code = (
        BRANCH
        + """
before = ctx.revision, ctx.activation_id
fork = await ctx.fork("f", branches=[branch("b"), branch("a")])
assert before == (ctx.revision, ctx.activation_id)
return ctx.complete([fork.key, list(fork.branch_keys), type(fork.branch_keys).__name__, await ctx.local("k", add, x=1)])
"""
    )
    assert lab.completed(code) == ["f", ["b", "a"], "tuple", 1]


def test_the_same_fork_is_registered_once(lab):
    """HLP-107: concurrently and later."""
    code = (
        BRANCH
        + """
make = lambda: ctx.fork("f", branches=[branch("a", data={"x": 1, "y": 2}), branch("b")])
first, second = await asyncio.gather(make(), make())
third = await ctx.fork("f", branches=(branch("a", data={"y": 2, "x": 1}, attempt_timeout_ms=300000), branch("b")))
return ctx.complete([first is second, second is third])
"""
    )
    assert lab.completed(code) == [True, True]
    assert forks(lab) == ["f"]


@pytest.mark.parametrize(
    "branches",
    [
        "[branch('b'), branch('a')]",
        "[branch('a')]",
        "[branch('a'), branch('b'), branch('c')]",
        "[branch('a'), branch('c')]",
        "[branch('a', entrypoint='f'), branch('b')]",
        "[branch('a', queue='r'), branch('b')]",
        "[branch('a', data=0), branch('b')]",
        "[branch('a', retry_policy={'max_attempts': 1, 'retry_delay_ms': 0}), branch('b')]",
        "[branch('a', attempt_timeout_ms=60000), branch('b')]",
    ],
)
def test_another_fork_under_the_key_raises(lab, branches):
    """HLP-107."""
    code = (
        BRANCH
        + f"""
await ctx.fork("f", branches=[branch("a"), branch("b")])
return ctx.complete(await refused_later(ctx.fork("f", branches={branches})))
"""
    )
    assert lab.completed(code) is True
    assert forks(lab) == ["f"]


def test_a_refused_fork_leaves_its_keys_free(lab):
    """HLP-105, HLP-108."""
    code = (
        BRANCH
        + """
await ctx.fork("f", branches=[branch("a")])
found = [await refused_later(ctx.fork("g", branches=[branch("b"), branch("a")]))]
found.append(await refused_later(ctx.fork("g", branches=[branch("b")])))
return ctx.complete(found)
"""
    )
    assert lab.completed(code) == [True, False]


def test_a_cancelled_observer_does_not_cancel_the_registration(lab, acknowledge):
    """HLP-109, HLP-113: its acknowledgement is awaited before the decision is checked."""
    code = (
        BRANCH
        + """
observer = asyncio.ensure_future(ctx.fork("f", branches=[branch("a")]))
await asyncio.sleep(0)
await asyncio.sleep(0)
observer.cancel()
await asyncio.gather(observer, return_exceptions=True)
return ctx.complete(observer.cancelled())
"""
    )
    assert lab.completed(code) is True
    assert forks(lab) == ["f"]


def test_a_registration_behind_a_failed_acknowledgement_is_not_sent(lab, reply_to):
    """HLP-109, HLP-112."""
    code = (
        BRANCH
        + """
await asyncio.gather(ctx.local("k", add, x=1), *(ctx.fork(f"f{n}", branches=[branch(f"b{n}")]) for n in range(3)),
    return_exceptions=True)
return 1
"""
    )
    lab.refused(code, reply=lambda request: reply_to(request, {"committed": False}))
    assert len(lab.host.requests) == 1


def test_join_is_a_suspension_on_the_branches_in_order(lab):
    """HLP-110."""
    code = (
        BRANCH
        + """
ctx.task("staged", program="p", version="1", queue="q", data=None)
fork = await ctx.fork("f", branches=[branch("b"), branch("a")])
return ctx.join(fork, resume="next", state=[1])
"""
    )
    decision = lab.decision(code, revision=3)
    command = decision["commands"].pop()
    assert command["key"] == "staged"
    assert decision == {
        "v": 1,
        "activation_id": "act",
        "revision": 3,
        "kind": "suspend",
        "continuation": "next",
        "state": [1],
        "commands": [],
        "until": ["b", "a"],
    }


@pytest.mark.parametrize(
    "fork",
    [
        "memory['fork']",
        "ForkRef('f', ('b',), ctx)",
        "__import__('copy').copy(fork)",
        "__import__('dataclasses').replace(fork)",
        "'f'",
        "None",
        "branch('b')",
    ],
)
def test_join_takes_only_what_fork_returned(lab, fork):
    """HLP-110."""
    code = BRANCH + "fork = await ctx.fork('f', branches=[branch('b')])\n"
    lab.completed(code + "memory['fork'] = fork\nreturn ctx.complete(None)")
    code += f"held = refused(ctx.join, {fork}, resume='c', state=None)\n"
    code += "return ctx.complete([held, ctx.join(fork, resume='c', state=1)['until']])"
    assert lab.completed(code) == [True, ["b"]]


def test_references_are_immutable(lab):
    """HLP-111."""
    code = (
        BRANCH
        + """
made = branch("b")
fork = await ctx.fork("f", branches=[made])
found = []
for item, name in ((made, "key"), (fork, "key"), (fork, "branch_keys")):
    try:
        setattr(item, name, "x")
    except (AttributeError, TypeError):  # a frozen class with slots raises either
        found.append(name)
return ctx.complete(found)
"""
    )
    assert lab.completed(code) == ["key", "key", "branch_keys"]


def test_a_later_activation_suspends_on_the_durable_keys(lab):
    """HLP-111, HLP-119."""
    decision = lab.decision("return ctx.suspend(continuation='c', state=None, until=('a', 'b'))", revision=5)
    assert decision["until"] == ["a", "b"]
