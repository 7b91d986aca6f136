"""Child tasks and workflows, branches, forks and joins (chapter 23, Children and Forks)."""

from __future__ import annotations

from collections.abc import Iterator

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import accepted, activation, refusing
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.scenarios.runtime.payloads import inputs, task_outcome, workflow_outcome
from protocol3_conformance.wire.strict_json import compact_size, same

TASK = "ctx.task('k', program='p', version='1', queue='q', data=None)"
BRANCH = 'branch = lambda key, **more: ctx.branch(key, **({"entrypoint": "e", "queue": "q", "data": None} | more))\n'
DEFAULTS = {"retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000}, "attempt_timeout_ms": 300_000}
POLICY = "{{'max_attempts': {}, 'retry_delay_ms': {}}}"
GOOD = {
    "key": ("'k' * 127", "'k' * 128", "'_approval:x'", "' '"),
    "program": ("'p' * 128", "'a-b_c.0'", "'...'"),
    "version": ("'1' * 128",),
    "queue": ("'é' * 64",),
    "data": ("None", "'x' * 100000"),
    "retry_policy": ("None", POLICY.format(1, 0), POLICY.format(1000, 86400000)),
    "attempt_timeout_ms": ("60000", "60001", "86399999", "86400000"),
}
BAD = {
    "key": ("''", "'k' * 129", "1", "None", "'a\\x7f'", "OperationKind.MODEL"),
    "program": ("''", "'.'", "'..'", "'P'", "'a b'", "'p' * 129", "'é'", "None", "'p\\n'"),
    "version": ("''", "'.'", "'..'", "'1+2'", "1"),
    "queue": ("''", "'q' * 129", "None", "'\\ud800'"),
    "data": ("object()", "nested(65)", "'x' * (256 * 1024)"),
    "retry_policy": (
        "{}",
        "[]",
        "{'max_attempts': 1}",
        POLICY.format(0, 0),
        POLICY.format(1001, 0),
        POLICY.format(True, 0),
        POLICY.format(1.0, 0),
        POLICY.format(1, -1),
        POLICY.format(1, 86400001),
        "{'max_attempts': 1, 'retry_delay_ms': 0, 'extra': 1}",
    ),
    "attempt_timeout_ms": ("59999", "86400001", "60000.0", "True", "None", "'60000'"),
}


def calls(method: str, table: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """A call of the method for every value of the table, the other arguments as usual."""
    own = ("entrypoint",) if method == "branch" else ("program", "version")
    usual = {"program": "'p'", "version": "'1'", "entrypoint": "'e'", "queue": "'q'", "data": "None"}
    for name, values in table.items():
        if name in ("program", "version") and name not in own:
            continue
        for number, value in enumerate(values):
            settings = {place: text for place, text in usual.items() if place in (*own, "queue", "data")}
            settings |= {} if name == "key" else {name: value}
            key = value if name == "key" else f"'{name}{number}'"
            yield f"ctx.{method}({key}, {', '.join(f'{place}={text}' for place, text in settings.items())})"


@runtime_check("runtime-children/commands", cites=["HLP-072", "HLP-074", "HLP-117"])
async def test_commands(lab: RuntimeLab) -> None:
    """Commands have this form, keep the order of the calls, and send nothing; those of no decision are gone."""
    await lab.decision(f"{TASK}\nreturn ctx.fail('k', 'm')")
    code = """
        ctx.task("b", program="p", version="1", queue="q", data={"x": 1})
        ctx.workflow("a", program="flow", version="2.0", queue="é", data=None,
                     retry_policy={"max_attempts": 1000, "retry_delay_ms": 0}, attempt_timeout_ms=86400000)
        return ctx.suspend(continuation="c", state=None)
    """
    first = {"key": "b", "program": {"id": "p", "version": "1"}, "queue": "q", "data": {"x": 1}} | DEFAULTS
    second = {
        "kind": "workflow",
        "key": "a",
        "program": {"id": "flow", "version": "2.0"},
        "queue": "é",
        "data": None,
        "retry_policy": {"max_attempts": 1000, "retry_delay_ms": 0},
        "attempt_timeout_ms": 86_400_000,
    }
    assert same((await lab.decision(code))["commands"], [first, second])
    assert lab.requests == []


@runtime_check("runtime-children/arguments", cites=["HLP-073", "HLP-104", "HLP-023"], profile="core forks")
async def test_arguments(lab: RuntimeLab) -> None:
    """All bounds are inclusive; a violation raises at the call and stages nothing."""
    for method in ("task", "workflow", "branch"):
        for call in calls(method, GOOD):
            with lab.case(call):
                await lab.passing([call])
        await lab.raising(calls(method, BAD))
        assert (await lab.decision("return ctx.suspend(continuation='c', state=None)"))["commands"] == []
    most = bound("FORK_REQUEST_BYTES")
    branch = "ctx.branch('k', entrypoint='e', queue='q', data='x' * {})"
    await lab.passing([branch.format(most - 1000)])  # what lies between is open: no request could carry it
    await lab.raising([branch.format(most - 1)])


@runtime_check("runtime-children/same-key", cites=["HLP-075", "HLP-029"])
async def test_same_key(lab: RuntimeLab) -> None:
    """The identical command is staged once; under the same key every other one raises."""
    code = """
        first = ctx.task("k", program="p", version="1", queue="q", data={"a": 1, "b": (2,)})
        second = ctx.task("k", program="p", version="1", queue="q", data={"b": [2], "a": 1}, retry_policy=
            {"retry_delay_ms": 5000, "max_attempts": 3}, attempt_timeout_ms=300000)
        return ctx.suspend(continuation="c", state=[first.key, second.key, type(second).__name__], until=[second])
    """
    decision = await lab.decision(code)
    assert [len(decision["commands"]), decision["state"], decision["until"]] == [1, ["k", "k", "TaskRef"], ["k"]]
    changes = {
        "task": "workflow",
        "'p'": "'other'",
        "'1'": "'2'",
        "'q'": "'other'",
        "None": "0",
        "None)": "None, attempt_timeout_ms=300001)",
        "None) ": "",
    }
    others = [TASK.replace(old, new) for old, new in changes.items() if new]
    others.append(TASK.replace("None", f"None, retry_policy={POLICY.format(3, 5001)}"))
    await lab.raising(others, before=TASK)


@runtime_check("runtime-children/one-name-space", cites=["HLP-076", "HLP-108"], profile="core forks")
async def test_one_name_space(lab: RuntimeLab) -> None:
    """Keys of branches and commands are one name space; fork keys are another."""
    code = (
        BRANCH
        + """
ctx.task("staged", program="p", version="1", queue="q", data=None)
await ctx.fork("f", branches=[branch("forked")])
found = [
    refused(ctx.task, "forked", program="p", version="1", queue="q", data=None),
    refused(ctx.workflow, "forked", program="p", version="1", queue="q", data=None),
    await refused_later(ctx.fork("g", branches=[branch("staged")])),
    await refused_later(ctx.fork("g", branches=[branch("forked")])),
    await refused_later(ctx.fork("g", branches=[branch("free"), branch("forked")])),
]
await ctx.fork("g", branches=[branch("free"), branch("f")])
ctx.task("g", program="p", version="1", queue="q", data=None)
return ctx.suspend(continuation="c", state=found)
"""
    )
    assert (await lab.decision(code))["state"] == [True] * 5
    assert lab.keys() == ["f", "g"]


@runtime_check("runtime-children/how-many", cites=["HLP-077"])
async def test_how_many(lab: RuntimeLab) -> None:
    """64 commands and 256 KiB of them can be staged; the one that is too much raises at the call."""
    most = bound("COMMANDS")
    code = f"""
        stage = lambda n: ctx.task(f"k{{n}}", program="p", version="1", queue="q", data=None)
        for n in range({most}):
            stage(n)
        return ctx.suspend(continuation="c", state=[refused(stage, {most}), refused(stage, 0)])
    """
    decision = await lab.decision(code)
    assert [len(decision["commands"]), decision["state"]] == [most, [True, False]]
    code = """
        stage = lambda n: ctx.task(f"k{n}", program="p", version="1", queue="q", data="x" * 65000)
        return ctx.suspend(continuation="c", state=[refused(stage, n) for n in range(5)])
    """
    decision = await lab.decision(code)
    assert [len(decision["commands"]), decision["state"]] == [4, [False] * 4 + [True]]


@runtime_check("runtime-children/references", cites=["HLP-078", "HLP-111", "HLP-110"], profile="core forks")
async def test_references(lab: RuntimeLab) -> None:
    """References are neither awaitable nor JSON; branches and forks are immutable."""
    code = (
        BRANCH
        + """
task = ctx.task("t", program="p", version="1", queue="q", data=None)
flow = ctx.workflow("w", program="p", version="1", queue="q", data=None)
made = branch("b")
fork = await ctx.fork("f", branches=[made])
found = []
for item in (task, flow, made, fork):
    try:
        await item
    except TypeError:
        state = refused(ctx.continue_, continuation="c", state=item)
        found.append([item.key, state, refused(ctx.local, "l", identity, value=item)])
for item, name in ((made, "key"), (fork, "key"), (fork, "branch_keys")):
    try:
        setattr(item, name, "x")
    except (AttributeError, TypeError):
        found.append(name)
return ctx.continue_(continuation="c", state=found)
"""
    )
    expected = [*([key, True, True] for key in ("t", "w", "b", "f")), "key", "key", "branch_keys"]
    assert (await lab.decision(code))["state"] == expected


@runtime_check("runtime-children/results", cites=["HLP-079", "HLP-080"])
async def test_results(lab: RuntimeLab) -> None:
    """`get_result` gives the output of a child that succeeded, by key or reference, and raises otherwise."""
    code = """
        staged = [
            ctx.task("task", program="p", version="1", queue="q", data=None),
            ctx.workflow("flow", program="p", version="1", queue="q", data=None),
        ]
        return ctx.fail("k", repr([ctx.get_result(item) for item in ["task", "flow", *staged]]))
    """
    ended = inputs(task=task_outcome(output={"x": [1]}), flow=workflow_outcome(output=2))
    expected = repr([{"x": [1]}, 2, {"x": [1]}, 2])
    assert (await lab.decision(code, **ended))["error"]["message"] == expected
    await lab.holds("return ctx.complete([ctx.get_result('task'), ctx.get_result('flow')])", [{"x": [1]}, 2], **ended)
    for outcome in (
        task_outcome("cancelled"),
        task_outcome("failed"),
        workflow_outcome("failed"),
        workflow_outcome("cancelled"),
    ):
        with lab.case(repr(outcome)):
            await lab.raising(["ctx.get_result('k')"], **inputs(k=outcome))
    await lab.decision(f"memory['ref'] = {TASK}\nreturn ctx.suspend(continuation='c', state=None)")
    refs = ("'absent'", "''", "None", "1", "'k' * 129", "memory['ref']", "kind", "OperationKind.TOOL")
    await lab.raising(
        [f"ctx.get_result({ref})" for ref in refs],
        before="kind = ctx.workflow('task', program='p', version='1', queue='q', data=None)",
        **inputs(task=task_outcome(), k=task_outcome()),
    )


@runtime_check("runtime-forks/nothing-until-awaited", cites=["HLP-104", "HLP-105"], profile="core forks")
async def test_nothing_until_awaited(lab: RuntimeLab) -> None:
    """A branch schedules nothing and does not stand in the way of `complete`; nor does a fork that is not awaited."""
    await lab.holds(BRANCH + "return ctx.complete(branch('b').key)", "b")
    code = BRANCH + "never = ctx.fork('f', branches=[branch('b')])\nawait asyncio.sleep(0)\nnever.close()\n"
    await lab.holds(code + "return ctx.complete(None)", None)
    assert lab.requests == []


@runtime_check("runtime-forks/arguments", cites=["HLP-105"], profile="core forks")
async def test_fork_arguments(lab: RuntimeLab) -> None:
    """Key and branches are checked before any request."""
    await lab.completed(BRANCH + "memory['branch'] = branch('b')\nreturn ctx.complete(None)")
    keys = ("''", "'f' * 129", "None", "1", "'a\\n'")
    branches = (
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
    )
    forks = [f"ctx.fork({key}, branches=[branch('b')])" for key in keys]
    forks += [f"ctx.fork('f', branches={given})" for given in branches]
    for fork in forks:
        with lab.case(fork):
            code = BRANCH + f"return ctx.fail('k', str(await refused_later({fork})))"
            assert (await lab.decision(code))["error"]["message"] == "True"
            assert lab.requests == []


@runtime_check("runtime-forks/bounds", cites=["HLP-105", "RUN-072"], profile="core forks")
async def test_fork_bounds(lab: RuntimeLab) -> None:
    """64 branches and a request of 128 KiB are accepted, one byte more is not."""
    most = bound("FORK_REQUEST_BYTES")
    code = BRANCH + "fork = await ctx.fork('f', branches=tuple(branch(f'b{n}', data=DATA) for n in range(64)))\n"
    code += "return ctx.complete(list(fork.branch_keys))"
    keys = [f"b{n}" for n in range(64)]
    await lab.holds(code.replace("DATA", "''"), keys)
    spare = most - compact_size(lab.requests[0]["payload"])
    for more, size in ((0, most), (-1, most - 1)):
        filled = f"'x' * ({spare // 64} + (n < {spare % 64 + more}))"
        await lab.holds(code.replace("DATA", filled), keys)
        assert compact_size(lab.requests[0]["payload"]) == size
    await lab.refused(code.replace("DATA", f"'x' * ({spare // 64} + (n < {spare % 64 + 1}))"))
    assert lab.requests == []


@runtime_check("runtime-forks/goes-on", cites=["HLP-106", "HLP-110"], profile="core forks")
async def test_fork_goes_on(lab: RuntimeLab) -> None:
    """The activation goes on after the acknowledgement: same activation, revision and process."""
    code = (
        BRANCH
        + """
before = ctx.revision, ctx.activation_id
fork = await ctx.fork("f", branches=[branch("b"), branch("a")])
same = before == (ctx.revision, ctx.activation_id)
return ctx.complete([same, fork.key, list(fork.branch_keys), type(fork.branch_keys).__name__,
                     await ctx.local("k", add, x=1)])
"""
    )
    await lab.holds(code, [True, "f", ["b", "a"], "tuple", 1])
    assert lab.keys() == ["f", "k"]
    program = await lab.task_program()
    code = BRANCH + "await ctx.fork('f', branches=[branch('b')])\nprint('<forked>', flush=True)\nreturn ctx.complete(1)"
    await program.send(program.invocation({"code": code}, payload=activation()))
    request = await program.frame()
    assert request is not None
    assert await program.silent(0.1)
    assert "<forked>" not in program.process.stderr(), "the fork returned before its acknowledgement"
    await program.send(accepted(request))
    assert (await program.result())["output"]["output"] == 1


@runtime_check("runtime-forks/same-key", cites=["HLP-107"], profile="core forks")
async def test_fork_same_key(lab: RuntimeLab) -> None:
    """The same branches under the same key are one registration and one object; any change raises."""
    code = (
        BRANCH
        + """
make = lambda: ctx.fork("f", branches=[branch("a", data={"x": 1, "y": 2}), branch("b")])
first, second = await asyncio.gather(make(), make())
third = await ctx.fork("f", branches=(branch("a", data={"y": 2, "x": 1}, attempt_timeout_ms=300000), branch("b")))
return ctx.complete([first is second, second is third])
"""
    )
    await lab.holds(code, [True, True])
    assert lab.keys() == ["f"]
    for branches in (
        "[branch('b'), branch('a')]",
        "[branch('a')]",
        "[branch('a'), branch('b'), branch('c')]",
        "[branch('a'), branch('c')]",
        "[branch('a', entrypoint='f'), branch('b')]",
        "[branch('a', queue='r'), branch('b')]",
        "[branch('a', data=0), branch('b')]",
        "[branch('a', retry_policy={'max_attempts': 1, 'retry_delay_ms': 0}), branch('b')]",
        "[branch('a', attempt_timeout_ms=60000), branch('b')]",
    ):
        with lab.case(branches):
            code = BRANCH + "await ctx.fork('f', branches=[branch('a'), branch('b')])\n"
            code += f"return ctx.complete(await refused_later(ctx.fork('f', branches={branches})))"
            await lab.holds(code, True)
            assert lab.keys() == ["f"]


@runtime_check("runtime-forks/keys-stay-free", cites=["HLP-108", "HLP-105"], profile="core forks")
async def test_keys_stay_free(lab: RuntimeLab) -> None:
    """A fork that was refused leaves its keys free."""
    code = (
        BRANCH
        + """
await ctx.fork("f", branches=[branch("a")])
found = [await refused_later(ctx.fork("g", branches=[branch("b"), branch("a")]))]
found.append(await refused_later(ctx.fork("g", branches=[branch("b")])))
return ctx.complete(found)
"""
    )
    await lab.holds(code, [True, False])


@runtime_check("runtime-forks/cancelled-observer", cites=["HLP-109", "HLP-113"], profile="core forks")
async def test_fork_cancelled_observer(lab: RuntimeLab) -> None:
    """An observer that is cancelled does not cancel the registration, which is awaited before the decision."""
    code = (
        BRANCH
        + """
observer = asyncio.ensure_future(ctx.fork("f", branches=[branch("a")]))
await asyncio.sleep(0)
await asyncio.sleep(0)
observer.cancel()
await asyncio.gather(observer, return_exceptions=True)
again = await ctx.fork("f", branches=[branch("a")])
return ctx.complete([observer.cancelled(), again.key])
"""
    )
    await lab.holds(code, [True, "f"])
    assert lab.keys() == ["f"]


@runtime_check("runtime-forks/behind-a-failed-acknowledgement", cites=["HLP-109", "HLP-112"], profile="core forks")
async def test_behind_a_failed_acknowledgement(lab: RuntimeLab) -> None:
    """A registration that is queued behind a failed acknowledgement is not sent."""
    code = (
        BRANCH
        + """
forks = [ctx.fork(f"f{n}", branches=[branch(f"b{n}")]) for n in range(3)]
await asyncio.gather(ctx.local("k", add, x=1), *forks, return_exceptions=True)
return 1
"""
    )
    await lab.refused(code, reply=refusing)
    assert len(lab.requests) == 1


@runtime_check("runtime-forks/join", cites=["HLP-145", "HLP-110", "HLP-119", "HLP-111"], profile="core forks")
async def test_join(lab: RuntimeLab) -> None:
    """`join` is a suspension on the branches in order, of a ForkRef that this activation's `fork` returned alone."""
    code = (
        BRANCH
        + """
ctx.task("staged", program="p", version="1", queue="q", data=None)
fork = await ctx.fork("f", branches=[branch("b"), branch("a")])
return ctx.join(fork, resume="next", state=[1])
"""
    )
    decision = await lab.decision(code, revision=3)
    assert [command["key"] for command in decision.pop("commands")] == ["staged"]
    expected = {"v": 1, "activation_id": "task_1", "revision": 3, "kind": "suspend", "continuation": "next"}
    assert same(decision, expected | {"state": [1], "until": ["b", "a"]})
    forked = BRANCH + "fork = await ctx.fork('f', branches=[branch('b')])\n"
    await lab.completed(forked + "memory['fork'] = fork\nreturn ctx.complete(None)")
    others = (
        "memory['fork']",
        "ForkRef('f', ('b',), ctx)",
        "__import__('copy').copy(fork)",
        "__import__('dataclasses').replace(fork)",
        "'f'",
        "None",
        "branch('b')",
    )
    await lab.raising([f"ctx.join({other}, resume='c', state=None)" for other in others], before=forked)
    later = await lab.decision("return ctx.suspend(continuation='c', state=None, until=('a', 'b'))", revision=5)
    assert later["until"] == ["a", "b"]
