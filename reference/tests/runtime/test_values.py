"""Workflow values: exact types, limits, identity, copies (chapter 23, Values)."""

import pytest

NOT_JSON = {
    "StrEnum member": "OperationKind.MODEL",
    "OrderedDict": "__import__('collections').OrderedDict(a=1)",
    "named tuple": "__import__('collections').namedtuple('P', 'x')(1)",
    "IntEnum member": "__import__('enum').IntEnum('E', {'A': 1}).A",
    "str subclass": "type('S', (str,), {})('x')",
    "float subclass": "type('F', (float,), {})(1.0)",
    "list subclass": "type('L', (list,), {})()",
    "set": "{1}",
    "bytes": "b'x'",
    "object": "object()",
    "key of int": "{1: 2}",
    "key of StrEnum": "{OperationKind.MODEL: 1}",
    "surrogate": "'\\ud800'",
    "surrogate key": "{'\\ud800': 1}",
    "too large": "2**64",
    "too small": "-2**63 - 1",
    "NaN": "float('nan')",
    "infinity": "float('inf')",
    "cycle": "(lambda a: a.append(a) or a)([])",
    "65 levels": "nested(65)",
}
JSON = {
    "tuple": ("(1, (2,))", [1, [2]]),
    "integers": ("[-2**63, 2**64 - 1]", [-(2**63), 2**64 - 1]),
    "classes": ("[1, 1.0, True, None, -0.0]", [1, 1.0, True, None, -0.0]),
    "text": ("'\\x00\\ufdd0\\U0001f600'", "\x00\ufdd0\U0001f600"),
    "shared": ("(lambda a: [a, a])({'x': 1})", [{"x": 1}, {"x": 1}]),
}
TAKERS = {
    "local input": "ctx.local('k', identity, value=VALUE)",
    "operation input": "ctx.operation('k', identity, kind=OperationKind.TOOL, version='1', arguments={'value': VALUE})",
    "task data": "ctx.task('k', program='p', version='1', queue='q', data=VALUE)",
    "workflow data": "ctx.workflow('k', program='p', version='1', queue='q', data=VALUE)",
    "branch data": "ctx.branch('k', entrypoint='e', queue='q', data=VALUE)",
    "state of suspend": "ctx.suspend(continuation='c', state=VALUE)",
    "state of continue_": "ctx.continue_(continuation='c', state=VALUE)",
    "state of wait_event": "ctx.wait_event('k', continuation='c', state=VALUE)",
    "state of sleep": "ctx.sleep('k', 1, continuation='c', state=VALUE)",
    "output": "ctx.complete(VALUE)",
    "action": "ApprovalAction('n', version='1', arguments={'x': VALUE})",
}


@pytest.mark.parametrize("taker", TAKERS)
def test_values_are_judged_by_exact_type(lab, taker):
    """HLP-025 … HLP-027: every taker refuses every value that is not JSON, at the call."""
    code = "found = {}\n"
    for name, value in NOT_JSON.items():
        code += f"found[{name!r}] = refused(lambda: {TAKERS[taker].replace('VALUE', value)})\n"
    assert lab.completed(code + "return ctx.complete(found)") == dict.fromkeys(NOT_JSON, True)


def test_step_outputs_are_judged_by_exact_type(lab):
    """HLP-025 … HLP-027: in the awaiting code, and without a request."""
    code = "found = {}\n"
    for name, value in NOT_JSON.items():
        code += f"found[{name!r}] = await refused_later(ctx.local({name!r}, lambda: {value}))\n"
    code += "return ctx.complete(found)"
    assert lab.completed(code) == dict.fromkeys(NOT_JSON, True)
    assert lab.host.requests == []


@pytest.mark.parametrize("name", JSON)
def test_accepted_values(lab, name):
    """HLP-025, HLP-027, HLP-031; vectors 'depth', 'integers'."""
    value, expected = JSON[name]
    assert repr(lab.completed(f"return ctx.complete({value})")) == repr(expected)
    assert repr(lab.decision(f"return ctx.continue_(continuation='c', state={value})")["state"]) == repr(expected)
    assert repr(lab.completed(f"return ctx.complete(await ctx.local('k', lambda: {value}))")) == repr(expected)


@pytest.mark.parametrize(
    "code",
    [
        "return ctx.complete(nested(64))",
        "return ctx.continue_(continuation='c', state=nested(64))",
        "ctx.task('k', program='p', version='1', queue='q', data=nested(64))\n"
        "return ctx.suspend(continuation='c', state=1)",
        "await ctx.local('k', identity, value=nested(63))\nreturn ctx.complete(1)",
        "await ctx.local('k', nested, depth=64)\nreturn ctx.complete(1)",
        "await ctx.fork('f', branches=[ctx.branch('k', entrypoint='e', queue='q', data=nested(64))])\n"
        "return ctx.complete(1)",
    ],
)
def test_64_levels_are_accepted(lab, code):
    """HLP-026: application values; the records around them may be deeper."""
    assert lab.workflow(code)["status"] == "success"


def test_state_is_bounded_in_compact_bytes(lab):
    """HLP-028, HLP-118; vector 'state bound'."""
    for text, unit in (("x", 65534), ("é", 32767), ("\\u2028", 21844)):
        code = f"return ctx.continue_(continuation='c', state='{text}' * {unit})"
        assert lab.decision(code)["kind"] == "continue"
    assert lab.refused("return ctx.continue_(continuation='c', state='x' * 65535)")
    assert lab.refused("return ctx.continue_(continuation='c', state='é' * 32768)")
    assert lab.decision("return ctx.continue_(continuation='c', state=[1] * 32767)")
    assert lab.refused("return ctx.continue_(continuation='c', state=[1] * 32768)")


def test_identity_of_bindings(lab):
    """HLP-029, HLP-055; vector 'identity'."""
    values = ["1", "1.0", "True", "0.0", "-0.0", "0", "False", "None", "'1'", "[]", "{}", "[1]", "'é'", "'e\\u0301'"]
    code = "found = []\n"
    for number, first in enumerate(values):
        for second in values:
            code += f"ctx.local('k{number}', identity, value={first})\n"
            code += f"found.append(refused(ctx.local, 'k{number}', identity, value={second}))\n"
    found = lab.completed(code + "return ctx.complete(found)")
    assert found == [first != second for first in values for second in values]


def test_member_order_and_tuples_do_not_matter_to_identity(lab):
    """HLP-029."""
    code = """
        first = ctx.local("k", identity, value={"a": [1, (2,)], "b": {"x": 1, "y": 2}})
        second = ctx.local("k", identity, value={"b": {"y": 2, "x": 1}, "a": (1, [2])})
        return ctx.complete([await first, await second, len(calls)])
    """
    value = {"a": [1, [2]], "b": {"x": 1, "y": 2}}
    assert lab.completed(code) == [value, value, 1]


def test_values_are_copied_at_the_call(lab):
    """HLP-030."""
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
    decision = lab.decision(code)
    assert decision["state"] == [1, {"a": [1]}]
    assert decision["commands"][0]["data"] == {"a": [1]}


def test_values_handed_out_are_fresh_sorted_copies(lab):
    """HLP-031, HLP-039, HLP-053; vector 'sorted copies'."""
    outcome = {"kind": "workflow", "workflow_id": "w", "state": "succeeded", "outcome": {"kind": "succeeded"}}
    outcome["outcome"]["output"] = {"z": 1, "b": [2], "a": {"d": 1, "c": 2}}
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
        for value in (await step, await step, ctx.state, ctx.state, ctx.get_result("child"), ctx.get_result("child")):
            seen.append(order(value))
            value["z"] = "changed"
            value["b"].append("changed")
        ctx.inputs.clear()
        seen.append(list(ctx.inputs))
        return ctx.complete(seen)
    """
    seen = lab.completed(code, state={"z": 1, "b": [2], "a": {"d": 1, "c": 2}}, inputs={"child": outcome})
    assert seen == [[["a", [["c", 2], ["d", 1]]], ["b", [2]], ["z", 1]]] * 7 + [["child"]]


def test_replayed_outputs_are_sorted_copies_too(lab):
    """HLP-031, HLP-056."""
    record = {"key": "k", "callable": "program:add", "input": {"x": 1}, "output": {"b": 1, "a": 2}}
    code = "return ctx.complete(list((await ctx.local('k', add, x=1)).items()))"
    assert lab.completed(code, local_steps=[record]) == [["a", 2], ["b", 1]]
    assert lab.host.requests == []


def test_new_writes_get_no_float_allowance(lab):
    """HLP-045, HLP-046: a received state near the limit may be refused when it is written again."""
    floats = [1e-07] * 13107
    assert lab.completed("return ctx.complete(len(ctx.state))", state=floats) == 13107
    assert lab.refused("return ctx.continue_(continuation='c', state=ctx.state)", state=floats)


def test_exact_replay_gets_the_float_allowance(lab):
    """HLP-044: a record that the server counted as short enough is found again."""
    floats = [1e-07] * 26000
    record = {"key": "k", "callable": "program:identity", "input": {"value": floats}, "output": 1}
    code = "return ctx.complete(await ctx.local('k', identity, value=[1e-07] * 26000))"
    assert lab.completed(code, local_steps=[record]) == 1
    assert lab.refused(code)
