"""Model and tool operations (chapter 23, Local work)."""

import pytest

CALL = "ctx.operation('k', ask, kind=OperationKind.MODEL, version='2024', arguments={'prompt': 'hi'})"
ASK = """
def ask(prompt, temperature=0.5, *, limit=10, **more):
    calls.append([prompt, temperature, limit, more])
    return "answer"
"""
REFUSED = """
    call = lambda: ctx.operation("k", add, kind=OperationKind.TOOL, version=VERSION, arguments=ARGS)
    return ctx.complete(refused(call))
"""
EFFECTIVE = {"prompt": "hi", "temperature": 0.5, "limit": 10}
INPUT = {"v": 1, "kind": "model", "version": "2024", "arguments": EFFECTIVE}
NAME = "model:program:controller.<locals>.ask"


def test_the_record_names_kind_version_and_effective_arguments(lab):
    """HLP-066, HLP-067."""
    assert lab.completed(ASK + f"return ctx.complete([await {CALL}, calls])") == ["answer", [["hi", 0.5, 10, {}]]]
    [request] = lab.host.requests
    assert request["payload"] == {"key": "k", "callable": NAME, "input": INPUT, "output": "answer"}


def test_a_recorded_operation_is_replayed(lab):
    """HLP-056, HLP-068."""
    record = {"key": "k", "callable": NAME, "input": INPUT, "output": "recorded"}
    code = ASK + f"return ctx.complete([await {CALL}, calls])"
    assert lab.completed(code, local_steps=[record]) == ["recorded", []]


@pytest.mark.parametrize(
    "other",
    [
        "ctx.local('k', ask, prompt='hi')",
        "ctx.local('k', ask, v=1, kind='model', version='2024', prompt='', arguments={})",
        CALL.replace("MODEL", "TOOL"),
        CALL.replace("2024", "2025"),
        CALL.replace("'hi'", "'hi', 'limit': 11"),
        CALL.replace("ask", "add").replace("prompt", "x"),
    ],
)
def test_another_binding_raises(lab, other):
    """HLP-055, HLP-068: operations share the key space with plain steps, which never match them."""
    assert lab.completed(ASK + f"{CALL}\nreturn ctx.complete(refused(lambda: {other}))") is True


def test_defaults_given_explicitly_are_the_same_binding(lab):
    """HLP-066."""
    same = CALL.replace("'hi'", "'hi', 'limit': 10, 'temperature': 0.5")
    assert lab.completed(ASK + f"return ctx.complete([await {CALL}, await {same}, len(calls)])") == ["answer"] * 2 + [1]


def test_extra_keywords_go_into_the_keyword_parameter(lab):
    """HLP-066."""
    call = CALL.replace("'hi'", "'hi', 'extra': 1")
    assert lab.completed(ASK + f"await {call}\nreturn ctx.complete(calls)") == [["hi", 0.5, 10, {"extra": 1}]]
    assert lab.host.requests[0]["payload"]["input"]["arguments"] == EFFECTIVE | {"extra": 1}


@pytest.mark.parametrize("kind", ["'model'", "None", "ApprovalStatus.PENDING", "OperationKind", "'tool'"])
def test_the_kind_is_a_member(lab, kind):
    """HLP-065."""
    code = f"return ctx.complete(refused(ctx.operation, 'k', add, kind={kind}, version='1', arguments={{'x': 1}}))"
    assert lab.completed(code) is True


@pytest.mark.parametrize("version", ["''", "None", "1", "'v' * 129", "'a\\n'", "OperationKind.MODEL"])
def test_the_version_is_a_text(lab, version):
    """HLP-065."""
    assert lab.completed(REFUSED.replace("VERSION", version).replace("ARGS", "{'x': 1}")) is True


@pytest.mark.parametrize(
    "arguments",
    [
        "[]",
        "None",
        "__import__('collections').OrderedDict(x=1)",
        "{1: 2}",
        "{'x': object()}",
        "{OperationKind.MODEL: 1}",
    ],
)
def test_the_arguments_are_a_plain_dict(lab, arguments):
    """HLP-065."""
    assert lab.completed(REFUSED.replace("VERSION", "'1'").replace("ARGS", arguments)) is True


@pytest.mark.parametrize(
    ("signature", "arguments"),
    [
        ("x", "{}"),
        ("x", "{'y': 1}"),
        ("x", "{'x': 1, 'y': 1}"),
        ("x, /", "{'x': 1}"),
        ("x=1, /", "{}"),
        ("x, /, y", "{'x': 1, 'y': 1}"),
        ("x=object()", "{}"),
    ],
)
def test_calls_that_do_not_bind_are_refused(lab, signature, arguments):
    """HLP-066."""
    code = f"""
        def fn({signature}): return 1
        call = lambda: ctx.operation("k", fn, kind=OperationKind.TOOL, version="1", arguments={arguments})
        return ctx.complete(refused(call))
    """
    assert lab.completed(code) is True


def test_unused_positional_varargs_do_not_matter(lab):
    """HLP-066: only non-empty ones are refused."""
    code = """
        def fn(*args, x): return [list(args), x]
        return ctx.complete(await ctx.operation("k", fn, kind=OperationKind.TOOL, version="1", arguments={"x": 1}))
    """
    assert lab.completed(code) == [[], 1]
