"""Child tasks and workflows (chapter 23, Children)."""

import pytest

TASK = "ctx.task('k', program='p', version='1', queue='q', data=None)"
DEFAULTS = {"retry_policy": {"max_attempts": 3, "retry_delay_ms": 5000}, "attempt_timeout_ms": 300000}
SUSPEND = "\nreturn ctx.suspend(continuation='c', state=None)"


def succeeded(output):
    outcome = {"attempt_id": "a", "quiescence": "confirmed", "execution_may_have_started": True, "output": output}
    return {"task_id": "t", "state": "succeeded", "outcome": {"kind": "succeeded"} | outcome}


def workflow_ended(state, **outcome):
    return {"kind": "workflow", "workflow_id": "w", "state": state, "outcome": {"kind": state} | outcome}


def test_commands_have_this_form_and_keep_their_order(lab):
    """HLP-072, HLP-074."""
    code = """
        ctx.task("b", program="p", version="1", queue="q", data={"x": 1})
        ctx.workflow("a", program="flow", version="2.0", queue="é", data=None,
                     retry_policy={"max_attempts": 1000, "retry_delay_ms": 0}, attempt_timeout_ms=86400000)
        return ctx.suspend(continuation="c", state=None)
    """
    decision = lab.decision(code)
    assert decision["commands"] == [
        {"key": "b", "program": {"id": "p", "version": "1"}, "queue": "q", "data": {"x": 1}} | DEFAULTS,
        {
            "kind": "workflow",
            "key": "a",
            "program": {"id": "flow", "version": "2.0"},
            "queue": "é",
            "data": None,
            "retry_policy": {"max_attempts": 1000, "retry_delay_ms": 0},
            "attempt_timeout_ms": 86400000,
        },
    ]
    assert lab.host.requests == []


GOOD = {
    "key": ["'k' * 128", "'_approval:x'", "' '"],
    "program": ["'p' * 128", "'a-b_c.0'", "'...'"],
    "version": ["'1' * 128"],
    "queue": ["'é' * 64"],
    "data": ["None", "'x' * 200000"],
    "retry_policy": [
        "None",
        "{'max_attempts': 1, 'retry_delay_ms': 0}",
        "{'max_attempts': 1000, 'retry_delay_ms': 86400000}",
    ],
    "attempt_timeout_ms": ["60000", "86400000"],
}
BAD = {
    "key": ["''", "'k' * 129", "1", "None", "'a\\x7f'", "OperationKind.MODEL"],
    "program": ["''", "'.'", "'..'", "'P'", "'a b'", "'p' * 129", "'é'", "None", "'p\\n'"],
    "version": ["''", "'.'", "'..'", "'1+2'", "1"],
    "queue": ["''", "'q' * 129", "None", "'\\ud800'"],
    "data": ["object()", "nested(65)", "'x' * (256 * 1024)"],
    "retry_policy": [
        "{}",
        "[]",
        "{'max_attempts': 1}",
        "{'max_attempts': 0, 'retry_delay_ms': 0}",
        "{'max_attempts': 1001, 'retry_delay_ms': 0}",
        "{'max_attempts': True, 'retry_delay_ms': 0}",
        "{'max_attempts': 1.0, 'retry_delay_ms': 0}",
        "{'max_attempts': 1, 'retry_delay_ms': -1}",
        "{'max_attempts': 1, 'retry_delay_ms': 86400001}",
        "{'max_attempts': 1, 'retry_delay_ms': 0, 'extra': 1}",
    ],
    "attempt_timeout_ms": ["59999", "86400001", "60000.0", "True", "None", "'60000'"],
}


def cases(table):
    return [(name, value) for name, values in table.items() for value in values]


def call(method, name, value):
    settings = {"key": "'k'", "program": "'p'", "version": "'1'", "queue": "'q'", "data": "None"} | {name: value}
    key = settings.pop("key")
    if method == "branch":
        del settings["program"], settings["version"]
        settings["entrypoint"] = "'e'"
    return f"ctx.{method}({key}, {', '.join(f'{name}={value}' for name, value in settings.items())})"


@pytest.mark.parametrize("method", ["task", "workflow"])
@pytest.mark.parametrize(("name", "value"), cases(GOOD))
def test_inclusive_bounds_are_accepted(lab, method, name, value):
    """HLP-073."""
    assert len(lab.decision(call(method, name, value) + SUSPEND)["commands"]) == 1


@pytest.mark.parametrize("method", ["task", "workflow"])
@pytest.mark.parametrize(("name", "value"), cases(BAD))
def test_violations_raise_at_the_call_and_stage_nothing(lab, method, name, value):
    """HLP-073."""
    code = f"found = refused(lambda: {call(method, name, value)})\nreturn ctx.complete(found)"
    assert lab.completed(code) is True


@pytest.mark.parametrize(("name", "value"), [case for case in cases(BAD) if case[0] not in ("program", "version")])
def test_branches_obey_the_same_rules(lab, name, value):
    """HLP-104: data that no fork request can carry included."""
    assert lab.completed(f"return ctx.complete(refused(lambda: {call('branch', name, value)}))") is True


def test_the_same_command_is_staged_once(lab):
    """HLP-075, HLP-029."""
    code = """
        first = ctx.task("k", program="p", version="1", queue="q", data={"a": 1, "b": (2,)})
        second = ctx.task("k", program="p", version="1", queue="q", data={"b": [2], "a": 1}, retry_policy=
            {"retry_delay_ms": 5000, "max_attempts": 3}, attempt_timeout_ms=300000)
        return ctx.suspend(continuation="c", state=[first.key, second.key, type(second).__name__], until=[second])
    """
    decision = lab.decision(code)
    assert len(decision["commands"]) == 1
    assert (decision["state"], decision["until"]) == (["k", "k", "TaskRef"], ["k"])


@pytest.mark.parametrize(
    "other",
    [
        TASK.replace("task", "workflow"),
        TASK.replace("'p'", "'other'"),
        TASK.replace("'1'", "'2'"),
        TASK.replace("'q'", "'other'"),
        TASK.replace("None", "0"),
        TASK.replace("None", "None, attempt_timeout_ms=300001"),
        TASK.replace("None", "None, retry_policy={'max_attempts': 3, 'retry_delay_ms': 5001}"),
    ],
)
def test_another_command_under_the_key_raises(lab, other):
    """HLP-075."""
    decision = lab.decision(f"{TASK}\nreturn ctx.suspend(continuation='c', state=refused(lambda: {other}))")
    assert decision["state"] is True
    assert len(decision["commands"]) == 1


def test_keys_of_branches_and_commands_are_one_name_space(lab):
    """HLP-076, HLP-108."""
    code = """
        branch = lambda key: ctx.branch(key, entrypoint="e", queue="q", data=None)
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
    assert lab.decision(code)["state"] == [True] * 5
    assert [request["payload"]["key"] for request in lab.host.requests] == ["f", "g"]


def test_64_commands_are_the_most(lab):
    """HLP-077."""
    code = """
        stage = lambda n: ctx.task(f"k{n}", program="p", version="1", queue="q", data=None)
        for n in range(64):
            stage(n)
        return ctx.suspend(continuation="c", state=[refused(stage, 64), refused(stage, 0)])
    """
    decision = lab.decision(code)
    assert (len(decision["commands"]), decision["state"]) == (64, [True, False])


def test_commands_of_256_kib_together_are_the_most(lab):
    """HLP-077: staging the one that is too much raises at the call."""
    code = """
        stage = lambda n: ctx.task(f"k{n}", program="p", version="1", queue="q", data="x" * 65000)
        return ctx.suspend(continuation="c", state=[refused(stage, n) for n in range(5)])
    """
    decision = lab.decision(code)
    assert (decision["state"], len(decision["commands"])) == ([False] * 4 + [True], 4)


def test_references_are_neither_awaitable_nor_json(lab):
    """HLP-078, HLP-111."""
    code = """
        task = ctx.task("t", program="p", version="1", queue="q", data=None)
        flow = ctx.workflow("w", program="p", version="1", queue="q", data=None)
        branch = ctx.branch("b", entrypoint="e", queue="q", data=None)
        fork = await ctx.fork("f", branches=[branch])
        found = []
        for item in (task, flow, branch, fork):
            try:
                await item
            except TypeError:
                state = refused(ctx.continue_, continuation="c", state=item)
                found.append([item.key, state, refused(ctx.local, "l", identity, value=item)])
        return ctx.continue_(continuation="c", state=found)
    """
    assert lab.decision(code)["state"] == [[key, True, True] for key in ("t", "w", "b", "f")]


def test_results_of_children(lab):
    """HLP-079, HLP-081."""
    inputs = {"task": succeeded({"x": [1]}), "flow": workflow_ended("succeeded", output=2)}
    code = """
        staged = [
            ctx.task("task", program="p", version="1", queue="q", data=None),
            ctx.workflow("flow", program="p", version="1", queue="q", data=None),
        ]
        return ctx.fail("k", repr([ctx.get_result(item) for item in ["task", "flow", *staged]]))
    """
    message = lab.decision(code, inputs=inputs)["error"]["message"]
    assert message == repr([{"x": [1]}, 2, {"x": [1]}, 2])


@pytest.mark.parametrize(
    "outcome",
    [
        {"task_id": "t", "state": "cancelled", "outcome": {"kind": "cancelled"}},
        {
            "task_id": "t",
            "state": "failed",
            "outcome": {
                "kind": "failed",
                "attempt_id": "a",
                "quiescence": "unconfirmed",
                "execution_may_have_started": False,
                "failure": {"kind": "attempt_lost"},
            },
        },
        workflow_ended("failed", error={"kind": "k", "message": "m"}),
        workflow_ended("cancelled"),
    ],
)
def test_a_child_without_success_has_no_result(lab, outcome):
    """HLP-080."""
    assert lab.completed("return ctx.complete(refused(ctx.get_result, 'k'))", inputs={"k": outcome}) is True


@pytest.mark.parametrize(
    "ref", ["'absent'", "''", "None", "1", "'k' * 129", "memory['ref']", "kind", "OperationKind.TOOL"]
)
def test_what_is_no_child_of_these_inputs_has_no_result(lab, ref):
    """HLP-080: absent, no key, a reference of another activation, another kind."""
    lab.decision(f"memory['ref'] = {TASK}" + SUSPEND)
    code = f"""
        kind = ctx.workflow("task", program="p", version="1", queue="q", data=None)
        return ctx.fail("k", str(refused(ctx.get_result, {ref})))
    """
    assert lab.decision(code, inputs={"task": succeeded(1), "k": succeeded(1)})["error"]["message"] == "True"
