"""Workflow values: exact types, limits, identity, copies (chapter 23, Values)."""

from __future__ import annotations

from protocol3_conformance.bounds import bound
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.scenarios.runtime.payloads import STATE, workflow_outcome
from protocol3_conformance.wire.strict_json import JsonValue, same

NOT_JSON = (
    "OperationKind.MODEL",
    "__import__('collections').OrderedDict(a=1)",
    "__import__('collections').namedtuple('P', 'x')(1)",
    "__import__('enum').IntEnum('E', {'A': 1}).A",
    "type('S', (str,), {})('x')",
    "type('F', (float,), {})(1.0)",
    "type('L', (list,), {})()",
    "{1}",
    "b'x'",
    "object()",
    "{1: 2}",
    "{OperationKind.MODEL: 1}",
    "'\\ud800'",
    "{'\\ud800': 1}",
    "2**64",
    "-2**63 - 1",
    "float('nan')",
    "float('inf')",
    "(lambda a: a.append(a) or a)([])",
    "nested(65)",
)
JSON: dict[str, JsonValue] = {
    "(1, (2,))": [1, [2]],
    "[-2**63, 2**64 - 1]": [-(2**63), 2**64 - 1],
    "[1, 1.0, True, None, -0.0]": [1, 1.0, True, None, -0.0],
    "'\\x00\\ufdd0\\U0001f600'": "\x00\ufdd0\U0001f600",
    "(lambda a: [a, a])({'x': 1})": [{"x": 1}, {"x": 1}],
}
TAKERS = (
    "ctx.local('k', identity, value=VALUE)",
    "ctx.operation('k', identity, kind=OperationKind.TOOL, version='1', arguments={'value': VALUE})",
    "ctx.task('k', program='p', version='1', queue='q', data=VALUE)",
    "ctx.workflow('k', program='p', version='1', queue='q', data=VALUE)",
    "ctx.branch('k', entrypoint='e', queue='q', data=VALUE)",
    "ctx.suspend(continuation='c', state=VALUE)",
    "ctx.continue_(continuation='c', state=VALUE)",
    "ctx.wait_event('k', continuation='c', state=VALUE)",
    "ctx.sleep('k', 1, continuation='c', state=VALUE)",
    "ctx.complete(VALUE)",
    "ApprovalAction('n', version='1', arguments={'x': VALUE})",
)


@runtime_check("runtime-values/exact-types", cites=["HLP-023", "HLP-025", "HLP-026", "HLP-027"])
async def test_exact_types(lab: RuntimeLab) -> None:
    """Everything that takes a value refuses, at the call, whatever is not JSON by its exact type."""
    for taker in TAKERS:
        with lab.case(taker):
            await lab.raising(taker.replace("VALUE", value) for value in NOT_JSON)


@runtime_check("runtime-values/step-outputs", cites=["HLP-025", "HLP-026", "HLP-027", "HLP-058"])
async def test_step_outputs(lab: RuntimeLab) -> None:
    """What a local function returns is judged alike, in the awaiting code, and no request is sent."""
    rows = "\n".join(
        f"if not await refused_later(ctx.local('k{n}', lambda: {value})):\n    wrong.append({value!r})"
        for n, value in enumerate(NOT_JSON)
    )
    await lab.holds(f"wrong = []\n{rows}\nreturn ctx.complete(wrong)", [])
    assert lab.requests == []


@runtime_check("runtime-values/accepted", cites=["HLP-025", "HLP-027", "HLP-029", "HLP-031"])
async def test_accepted(lab: RuntimeLab) -> None:
    """JSON values pass with their number classes; a tuple becomes a list."""
    for value, expected in JSON.items():
        with lab.case(value):
            await lab.holds(f"return ctx.complete({value})", expected)
            await lab.holds(f"return ctx.complete(await ctx.local('k', lambda: {value}))", expected)
            decision = await lab.decision(f"return ctx.continue_(continuation='c', state={value})")
            assert same(decision["state"], expected)


@runtime_check("runtime-values/depth", cites=["HLP-026"], profile="core forks")
async def test_depth(lab: RuntimeLab) -> None:
    """Application values nest 63 and 64 deep, not 65; the records around them may be deeper."""
    for code in (
        "return ctx.complete(VALUE)",
        "return ctx.continue_(continuation='c', state=VALUE)",
        "ctx.task('k', program='p', version='1', queue='q', data=VALUE)\nreturn ctx.fail('k', '')",
        "await ctx.local('k', lambda: VALUE)\nreturn ctx.complete(1)",
        "branch = ctx.branch('k', entrypoint='e', queue='q', data=VALUE)\n"
        "await ctx.fork('f', branches=[branch])\nreturn ctx.complete(1)",
    ):
        for depth, status in ((63, "success"), (64, "success"), (65, "runtime_error")):
            with lab.case(f"{depth} in {code}"):
                assert (await lab.workflow(code.replace("VALUE", f"nested({depth})")))["status"] == status


@runtime_check("runtime-values/state-bound", cites=["HLP-028", "HLP-118"])
async def test_state_bound(lab: RuntimeLab) -> None:
    """64 KiB of state are counted on compact JSON in UTF-8, characters not escaped."""
    most = STATE + 2
    for text, size in (("x", 1), ("é", 2), ("\\u2028", 3), ("\\n", 2)):
        for count, status in (
            ((most - 2) // size - 1, "success"),
            ((most - 2) // size, "success"),
            ((most - 2) // size + 1, "runtime_error"),
        ):
            with lab.case(f"{count} times {text}"):
                code = f"return ctx.continue_(continuation='c', state='{text}' * {count})"
                assert (await lab.workflow(code))["status"] == status
    items = (most - 1) // 2
    assert (await lab.workflow(f"return ctx.continue_(continuation='c', state=[1] * {items})"))["status"] == "success"
    await lab.refused(f"return ctx.continue_(continuation='c', state=[1] * {items + 1})")


@runtime_check("runtime-values/identity", cites=["HLP-029", "HLP-055"])
async def test_identity(lab: RuntimeLab) -> None:
    """Bindings are equal exactly if their compact sorted JSON is: 1, 1.0, true and -0.0 differ, orders do not."""
    given = ["1", "1.0", "True", "0.0", "-0.0", "0", "False", "None", "'1'", "[]", "{}", "[1]", "'é'", "'e\\u0301'"]
    code = "wrong = []\n"
    for number, first in enumerate(given):
        for second in given:
            code += f"ctx.local('k{number}', identity, value={first})\n"
            code += f"if refused(ctx.local, 'k{number}', identity, value={second}) is not {first != second}:\n"
            code += f"    wrong.append({[first, second]!r})\n"
    await lab.holds(code + "return ctx.complete(wrong)", [])
    code = """
        first = ctx.local("k", identity, value={"a": [1, (2,)], "b": {"x": 1, "y": 2}})
        second = ctx.local("k", identity, value={"b": {"y": 2, "x": 1}, "a": (1, [2])})
        return ctx.complete([await first, await second, len(calls)])
    """
    value = {"a": [1, [2]], "b": {"x": 1, "y": 2}}
    await lab.holds(code, [value, value, 1])


@runtime_check("runtime-values/copied-at-the-call", cites=["HLP-030"])
async def test_copied_at_the_call(lab: RuntimeLab) -> None:
    """A later mutation by the caller has no effect."""
    code = """
        value, state = {"a": [1]}, [1]
        step = ctx.local("k", identity, value=value)
        ctx.task("t", program="p", version="1", queue="q", data=value)
        decision = ctx.suspend(continuation="c", state=state)
        value["a"].append(2)
        state.append(2)
        decision["state"].append(await step)
        return decision
    """
    decision = await lab.decision(code)
    assert decision["state"] == [1, {"a": [1]}]
    assert decision["commands"][0]["data"] == {"a": [1]}


@runtime_check("runtime-values/fresh-sorted-copies", cites=["HLP-031", "HLP-039", "HLP-053", "HLP-056"])
async def test_fresh_sorted_copies(lab: RuntimeLab) -> None:
    """Whatever is handed out is a fresh copy with sorted members, on every access."""
    code = """
        def order(value):
            if isinstance(value, dict):
                return [[key, order(item)] for key, item in value.items()]
            return list(map(order, value)) if isinstance(value, list) else value
        seen = []
        def look(value):
            seen.append(order(value))
            value["z"] = "changed"
            return {"z": 1, "b": (2,), "a": {"d": 1, "c": 2}}
        given = {"z": 1, "b": (2,), "a": {"d": 1, "c": 2}}
        step = ctx.local("k", look, value=given)
        old = ctx.local("old", add, x=1)
        for value in (await step, await step, await old, await old,
                      ctx.state, ctx.state, ctx.get_result("child"), ctx.get_result("child")):
            seen.append(order(value))
            value["z"] = "changed"
            value["b"].append("changed")
        ctx.inputs.clear()
        seen.append(list(ctx.inputs))
        return ctx.complete(seen)
    """
    value = {"z": 1, "b": [2], "a": {"d": 1, "c": 2}}
    record = {"key": "old", "callable": "program:add", "input": {"x": 1}, "output": value}
    children = {"child": workflow_outcome(output=value)}
    sorted_members = [["a", [["c", 2], ["d", 1]]], ["b", [2]], ["z", 1]]
    await lab.holds(code, [sorted_members] * 9 + [["child"]], state=value, inputs=children, local_steps=[record])


@runtime_check("runtime-values/float-allowance", cites=["HLP-044", "HLP-045", "HLP-046"])
async def test_float_allowance(lab: RuntimeLab) -> None:
    """What was accepted is measured with the allowance for floats, exact replay included; new writes are not."""
    floats = [1e-07] * ((bound("STATE_BYTES") - 1) // 5)
    await lab.holds("return ctx.complete(len(ctx.state))", len(floats), state=floats)
    await lab.refused("return ctx.continue_(continuation='c', state=ctx.state)", state=floats)
    long = [1e-07] * 26000
    record = {"key": "k", "callable": "program:identity", "input": {"value": long}, "output": 1}
    code = "return ctx.complete(await ctx.local('k', identity, value=[1e-07] * 26000))"
    await lab.holds(code, 1, local_steps=[record])
    await lab.refused(code)
