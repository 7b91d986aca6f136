"""Calling the handler of an ordinary task (chapter 21, Calling the handler)."""

import json
import signal

import pytest


@pytest.fixture(params=[2, 3])
def either(request, lab, lab2):
    """The lab of protocol 2, then of protocol 3: ordinary tasks behave alike."""
    return lab2 if request.param == 2 else lab


def failed(result, kind):
    assert (result["status"], result["error"]["kind"]) == ("error", kind), result
    assert "output" not in result
    return result["error"]["message"]


def test_the_handler_gets_one_dict(hosts, package):
    """RUN-048."""
    host = hosts(package("def handle(*args, **kwargs):\n    return [len(args), type(args[0]).__name__, len(kwargs)]"))
    assert host.ready().invoke()["output"] == [1, "dict", 0]


def test_context_variables_are_fresh_and_globals_persist(either):
    """RUN-049, vector 'contextvars': the same process, another context."""
    code = """
        import contextvars, os
        variable = memory.setdefault("variable", contextvars.ContextVar("v", default="unset"))
        seen = variable.get()
        variable.set("set")
        memory["count"] = memory.get("count", 0) + 1
        return [seen, memory["count"], os.getpid(), len(contextvars.copy_context()) if data else None]
    """
    first, second = either.output(code), either.output(code)
    assert [first[0], second[0]] == ["unset", "unset"]
    assert second[1] == first[1] + 1
    assert first[2] == second[2]


@pytest.mark.parametrize(
    "code",
    [
        "return later(1)",
        "return asyncio.sleep(0)",
        "class A:\n    def __await__(self): yield\nreturn A()",
    ],
)
def test_an_awaitable_value_is_invalid_output_before_protocol_3(lab2, code):
    """RUN-051: and no warning about a coroutine that was never awaited."""
    failed(lab2.task(code), "invalid_output")
    assert lab2.output("import gc\ngc.collect()\nreturn 1") == 1
    assert "never awaited" not in lab2.host.stderr()


def test_an_awaitable_value_is_awaited_in_protocol_3(lab):
    """RUN-052."""
    assert lab.output("return later('done', turns=3)") == "done"
    assert lab.output("return asyncio.ensure_future(later('done'))") == "done"


def test_every_invocation_has_its_own_event_loop(lab):
    """RUN-052: objects of an earlier loop cannot be used again."""
    code = """
        loop, before = asyncio.get_running_loop(), memory.get("loop")
        memory["loop"] = loop
        return [before is loop, before is not None and before.is_closed()]
    """
    lab.output(code)
    assert lab.output(code) == [False, True]


def test_tasks_left_running_are_cancelled(lab):
    """RUN-052."""
    code = """
        async def forever():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                memory["ended"] = memory.get("ended", 0) + 1
                raise
        async def main():
            memory["ended"] = 0
            tasks = [asyncio.ensure_future(forever()) for _ in range(3)]
            memory["tasks"] = tasks
            await asyncio.sleep(0)
            return len(tasks)
        return main()
    """
    assert lab.output(code) == 3
    assert lab.output("return memory['ended']") == 3


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("return None", None),
        ("return (1, [2, (3,)])", [1, [2, [3]]]),
        ("return {'b': 1, 'a': {}}", {"b": 1, "a": {}}),
        ("import collections\nreturn collections.OrderedDict(b=1, a=2)", {"b": 1, "a": 2}),
        ("import collections\nreturn collections.namedtuple('P', 'x y')(1, 2)", [1, 2]),
        ("import enum\nclass E(enum.StrEnum):\n    A = 'x'\nreturn {E.A: E.A}", {"x": "x"}),
        ("import enum\nclass E(enum.IntEnum):\n    A = 7\nreturn E.A", 7),
        ("class F(float): pass\nreturn F(1.5)", 1.5),
        ("return [True, False, 1, 1.0]", [True, False, 1, 1.0]),
        ("return [-2**63, 2**64 - 1]", [-(2**63), 2**64 - 1]),
        ("return '\\x00\\ufdd0\\U0001f600'", "\x00\ufdd0\U0001f600"),
        ("return nested(64)", None),
    ],
)
def test_output_is_judged_by_behaviour_class(either, code, expected):
    """RUN-053, RUN-054; vectors 'depth', 'integers'."""
    output = either.output(code)
    for _ in range(64 if "nested" in code else 0):
        [output] = output
    assert repr(output) == repr(expected)


@pytest.mark.parametrize(
    "code",
    [
        "return {1, 2}",
        "return b'bytes'",
        "return (x for x in [])",
        "return object()",
        "return [object]",
        "return {1: 2}",
        "return {None: 2}",
        "return {('a',): 2}",
        "return '\\ud800'",
        "return {'\\udfff': 1}",
        "return 2**64",
        "return -2**63 - 1",
        "return [float('nan')]",
        "return float('-inf')",
        "a = []\na.append(a)\nreturn a",
        "a = {}\na['a'] = [a]\nreturn a",
        "return nested(65)",
        "return nested(64, {})",
        "return nested(100000)",
    ],
)
def test_a_value_that_is_not_json_is_invalid_output(either, code):
    """RUN-054, RUN-055: and the process stays usable."""
    assert failed(either.task(code), "invalid_output")
    assert either.output("return 1") == 1


def test_a_container_that_fails_while_it_is_read_is_invalid_output(lab, own_helper):
    """RUN-055."""
    if not own_helper:
        pytest.skip("subclasses with failing methods are not in the contract")
    code = "class D(dict):\n    def items(self): raise RuntimeError('no')\nreturn D(a=1)"
    assert failed(lab.task(code), "invalid_output") == "no"


def test_a_value_that_multiplies_itself_is_refused(hosts, package, own_helper):
    """RUN-053: it could not fit a frame, and copying it would never end."""
    if not own_helper:
        pytest.skip("the published helper never answers")
    source = """
        def handle(event):
            value = []
            for _ in range(60):
                value = [value, value]
            return value
    """
    assert failed(hosts(package(source), protocol=2, limit=4096).ready().invoke(), "invalid_output")


def test_an_exception_is_a_business_error_with_its_traceback_on_stderr(either):
    """RUN-056."""
    assert failed(either.task("raise KeyError('missing part')"), "business_error") == "'missing part'"
    assert "Traceback" in either.host.stderr()
    assert "missing part" in either.host.stderr()
    assert either.output("return 1") == 1


def test_an_asynchronous_exception_is_a_business_error(lab):
    """RUN-056."""
    code = "async def main():\n    await asyncio.sleep(0)\n    raise ValueError('late')\nreturn main()"
    assert failed(lab.task(code), "business_error") == "late"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ValueError('x' * 513)", "x" * 512),
        ("raise ValueError('é' * 600)", "é" * 512),
        ("raise ValueError('')", ""),
        ("raise ValueError('a\\nb')", "a\nb"),
    ],
)
def test_the_message_is_the_start_of_the_exception_text(either, code, message):
    """RUN-057."""
    assert failed(either.task(code), "business_error") == message


def test_lone_surrogates_in_the_message_are_replaced(either):
    """RUN-057."""
    message = failed(either.task("raise ValueError('a\\ud800b')"), "business_error")
    assert message[0] + message[-1] == "ab"
    assert "\ud800" not in message


def test_an_exception_without_text_has_a_substitute(either):
    """RUN-057."""
    code = "class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd"
    assert failed(either.task(code), "business_error")


@pytest.mark.parametrize("character", ["x", "é", '"', "\x01", "\U0001f600"])
def test_the_message_is_the_longest_prefix_that_fits_the_frame(hosts, package, character):
    """RUN-057."""
    host = hosts(package(f"def handle(event):\n    raise ValueError({character!r} * 500)"), limit=400)
    host.ready().send(host.invoke_frame())
    line = host.line()
    [unit] = {len(json.dumps(character, ensure_ascii=False).encode()) - 2}
    assert 400 - unit < len(line) <= 400
    assert set(json.loads(line)["error"]["message"]) == {character}


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("raise SystemExit(5)", 5),
        ("import sys\nsys.exit(0)", 0),
        ("raise SystemExit('text')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("class Own(BaseException): pass\nraise Own", 1),
        ("import os\nos._exit(9)", 9),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_what_is_not_an_exception_ends_the_child_without_a_result(either, code, exit_code):
    """RUN-058, vector 'exit inside handler'."""
    host = either.host
    host.send(host.invoke_frame({"code": code, "data": None}))
    assert host.frame() is None
    assert host.wait() == exit_code


@pytest.mark.parametrize(
    "code",
    [
        "raise asyncio.CancelledError",
        "async def main():\n    raise asyncio.CancelledError\nreturn main()",
        "async def main():\n    asyncio.current_task().cancel()\n    await asyncio.sleep(1)\nreturn main()",
        "async def main():\n    await asyncio.sleep(0)\n    raise SystemExit(1)\nreturn main()",
    ],
)
def test_a_cancellation_that_leaves_the_handler_ends_the_child(lab, code):
    """RUN-058."""
    host = lab.host
    host.send(host.invoke_frame({"code": code, "data": None}))
    assert host.frame() is None
    assert host.wait() == 1


def test_an_interrupt_while_the_handler_waits_ends_the_child(lab):
    """RUN-058: it dies by the signal."""
    host = lab.host
    host.send(
        host.invoke_frame({"code": "import os\nos.write(2, b'<waiting>')\nreturn asyncio.sleep(60)", "data": None})
    )
    while "<waiting>" not in host.stderr():
        assert host.silent(0.01)
    host.process.send_signal(signal.SIGINT)
    assert host.frame() is None
    assert host.wait() == -signal.SIGINT


@pytest.mark.parametrize("extension", [None, ...])
def test_without_extension_protocol_3_runs_an_ordinary_task(lab, extension):
    """RUN-059, vector 'extension null'."""
    assert lab.output("return refused(workflow_context)", extension=extension) is True
    assert failed(lab.task("raise ValueError('x')", extension=extension), "business_error") == "x"
    assert failed(lab.task("return {1}", extension=extension), "invalid_output")


def test_a_built_workflow_called_as_a_task_is_a_business_error(hosts, package):
    """RUN-059."""
    source = """
        import enum
        from ledgence.worker.workflow import Workflow
        class Entry(enum.StrEnum):
            START = "start"
        workflow = Workflow(Entry)
        @workflow.entrypoint(Entry.START, default=True)
        def start(event, ctx):
            return ctx.complete(1)
        handle = workflow.build()
    """
    assert failed(hosts(package(source)).ready().invoke(), "business_error")


def test_the_output_of_a_task_is_never_a_decision(lab):
    """RUN-060."""
    decision = {"v": 1, "activation_id": "x", "revision": 0, "kind": "nonsense"}
    assert lab.output("return data", decision) == decision
