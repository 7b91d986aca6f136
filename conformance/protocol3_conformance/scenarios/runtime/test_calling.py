"""Calling the handler of an ordinary task (chapter 21, Calling the handler)."""

from __future__ import annotations

import signal

from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.strict_json import JsonValue, encode, same

OUTPUTS: dict[str, JsonValue] = {
    "return None": None,
    "return (1, [2, (3,)])": [1, [2, [3]]],
    "return {'b': 1, 'a': {}}": {"b": 1, "a": {}},
    "import collections\nreturn collections.OrderedDict(b=1, a=2)": {"b": 1, "a": 2},
    "import collections\nreturn collections.namedtuple('P', 'x y')(1, 2)": [1, 2],
    "import enum\nclass E(enum.StrEnum):\n    A = 'x'\nreturn {E.A: E.A}": {"x": "x"},
    "import enum\nclass E(enum.IntEnum):\n    A = 7\nreturn E.A": 7,
    "class F(float): pass\nreturn F(1.5)": 1.5,
    "return [True, False, 1, 1.0, -0.0]": [True, False, 1, 1.0, -0.0],
    "return [-2**63, 2**64 - 1]": [-(2**63), 2**64 - 1],
    "return '\\x00\\ufdd0\\U0001f600'": "\x00\ufdd0\U0001f600",
}
NO_OUTPUTS = (
    "return {1, 2}",
    "return b'bytes'",
    "return (x for x in [])",
    "return object()",
    "return [object]",
    "return {1: 2}",
    "return {None: 2}",
    "return '\\ud800'",
    "return {'\\udfff': 1}",
    "return 2**64",
    "return -2**63 - 1",
    "return [float('nan')]",
    "return float('-inf')",
    "a = []\na.append(a)\nreturn a",
    "a = {}\na['a'] = [a]\nreturn a",
    "return nested(65)",
    "return nested(100000)",
)


@runtime_check("runtime-calling/fresh-contexts", cites=["RUN-049"])
async def test_fresh_contexts(lab: RuntimeLab) -> None:
    """What an invocation sets in contextvars is gone in the next one, in the same process; globals persist."""
    code = """
        import contextvars
        variable = memory.setdefault("variable", contextvars.ContextVar("v", default="unset"))
        seen = variable.get()
        variable.set("set")
        memory["count"] = memory.get("count", 0) + 1
        return [seen, memory["count"]]
    """
    for protocol in (2, 3):
        with lab.case(f"protocol {protocol}"):
            assert [await lab.output(code, protocol=protocol) for _ in range(2)] == [["unset", 1], ["unset", 2]]


@runtime_check("runtime-calling/awaitable-values", cites=["RUN-051", "RUN-052"])
async def test_awaitable_values(lab: RuntimeLab) -> None:
    """Before protocol 3 an awaitable value is `invalid_output`, without a warning; in protocol 3 it is awaited."""
    for code in ("return later(1)", "return asyncio.sleep(0)", "class A:\n    def __await__(self): yield\nreturn A()"):
        with lab.case(code):
            await lab.failure(code, "invalid_output", protocol=2)
    assert await lab.output("import gc\ngc.collect()\nreturn 1", protocol=2) == 1
    assert "never awaited" not in (await lab.task_program(2)).process.stderr()
    assert await lab.output("return later('done', turns=3)") == "done"
    assert await lab.output("return asyncio.ensure_future(later('done'))") == "done"


@runtime_check("runtime-calling/event-loop", cites=["RUN-052"])
async def test_event_loop(lab: RuntimeLab) -> None:
    """Every invocation of protocol 3 has a loop of its own; tasks left running are cancelled at its end."""
    code = """
        async def forever():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                memory["ended"] += 1
                raise
        async def main():
            loop, before = asyncio.get_running_loop(), memory.get("loop")
            memory.update(loop=loop, ended=0, tasks=[asyncio.ensure_future(forever()) for _ in range(3)])
            await asyncio.sleep(0)
            return [before is loop, before is not None and before.is_closed()]
        return main()
    """
    assert await lab.output(code) == [False, False]
    assert await lab.output("return memory['ended']") == 3
    assert await lab.output(code) == [False, True]


@runtime_check("runtime-calling/outputs", cites=["RUN-053", "RUN-054", "JSON-021"])
async def test_outputs(lab: RuntimeLab) -> None:
    """Ordinary output is judged by behaviour: subclasses are accepted, tuples become arrays, number classes stay."""
    for protocol in (2, 3):
        for code, expected in OUTPUTS.items():
            with lab.case(f"{code} in protocol {protocol}"):
                assert same(await lab.output(code, protocol=protocol), expected)
        deep = await lab.output("return nested(64)", protocol=protocol)
        for _ in range(64):
            [deep] = deep
        assert deep is None


@runtime_check("runtime-calling/no-outputs", cites=["RUN-053", "RUN-054", "RUN-055"])
async def test_no_outputs(lab: RuntimeLab) -> None:
    """What is no wire value of depth 64 is `invalid_output`, and the same process takes the next invocation."""
    for protocol in (2, 3):
        first = await lab.task_program(protocol)
        for code in NO_OUTPUTS:
            with lab.case(f"{code} in protocol {protocol}"):
                await lab.failure(code, "invalid_output", protocol=protocol)
        assert await lab.output("return 1", protocol=protocol) == 1
        assert await lab.task_program(protocol) is first


@runtime_check("runtime-calling/exceptions", cites=["RUN-056", "RUN-057"])
async def test_exceptions(lab: RuntimeLab) -> None:
    """An exception is `business_error` with the text of the exception, its traceback on standard error."""
    for protocol in (2, 3):
        with lab.case(f"protocol {protocol}"):
            first = await lab.task_program(protocol)
            found = await lab.failure("raise KeyError('missing part')", "business_error", protocol=protocol)
            assert found == "'missing part'"
            assert "Traceback" in first.process.stderr()
            assert "missing part" in first.process.stderr()
            assert await lab.output("return 1", protocol=protocol) == 1
            assert await lab.task_program(protocol) is first
    later = "async def main():\n    await asyncio.sleep(0)\n    raise ValueError('late')\nreturn main()"
    assert await lab.failure(later, "business_error") == "late"


@runtime_check("runtime-calling/messages", cites=["RUN-057"])
async def test_messages(lab: RuntimeLab) -> None:
    """The message is the first 512 characters; lone surrogates are replaced, a text that fails has a substitute."""
    for count in (511, 512, 513):
        with lab.case(f"{count} characters"):
            found = await lab.failure(f"raise ValueError('é' * {count})", "business_error")
            assert found == "é" * min(count, 512)
    assert await lab.failure("raise ValueError('a\\nb')", "business_error") == "a\nb"
    found = await lab.failure("raise ValueError('a\\ud800b')", "business_error")
    assert found[0] + found[-1] == "ab"
    await lab.failure("class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd", "business_error")


@runtime_check("runtime-calling/messages-that-fit", cites=["RUN-057"])
async def test_messages_that_fit(lab: RuntimeLab) -> None:
    """A message is shortened to the longest beginning with which the frame fits the output limit."""
    for character in ("x", "é", '"', "\x01", "\U0001f600"):
        with lab.case(repr(character)):
            source = f"def handle(event):\n    raise ValueError({character!r} * 500)"
            program = await lab.start(source, limit=SHORT).ready()
            await program.send(program.invocation(event={"data": ..., "subject": ...}))
            line = await program.raw_line()
            unit = len(encode(character)) - 2
            assert SHORT - unit < len(line) <= SHORT


SHORT = 500


@runtime_check("runtime-calling/ends-of-the-process", cites=["RUN-058", "RUN-020"])
async def test_ends_of_the_process(lab: RuntimeLab) -> None:
    """What is no Exception ends the process without a result: SystemExit by its code, an interrupt by the signal."""
    endings = {
        "raise SystemExit(5)": 5,
        "import sys\nsys.exit(0)": 0,
        "raise SystemExit('text')": 1,
        "raise KeyboardInterrupt": -signal.SIGINT,
        "class Own(BaseException): pass\nraise Own": 1,
    }
    cancelled = {
        "raise asyncio.CancelledError": 1,
        "async def main():\n    await asyncio.sleep(0)\n    raise asyncio.CancelledError\nreturn main()": 1,
        "async def main():\n    asyncio.current_task().cancel()\n    await asyncio.sleep(1)\nreturn main()": 1,
        "async def main():\n    await asyncio.sleep(0)\n    raise SystemExit(7)\nreturn main()": 7,
    }
    for protocol, codes in ((2, endings), (3, endings | cancelled)):
        for code, exit_code in codes.items():
            with lab.case(f"{code} in protocol {protocol}"):
                program = await lab.task_program(protocol)
                await program.send(program.invocation({"code": code, "data": None}))
                assert await program.ends() == exit_code


@runtime_check("runtime-calling/null-extension", cites=["RUN-059", "HLP-032"])
async def test_null_extension(lab: RuntimeLab) -> None:
    """In protocol 3 an extension that is absent or null makes an ordinary task, without a workflow context."""
    for extension in (None, ...):
        with lab.case(repr(extension)):
            assert await lab.output("return refused(workflow_context)", extension=extension) is True
            assert (await lab.task("raise ValueError('x')", extension=extension))["error"]["kind"] == "business_error"
            assert (await lab.task("return {1}", extension=extension))["error"]["kind"] == "invalid_output"


@runtime_check("runtime-calling/workflow-called-as-a-task", cites=["RUN-059"])
async def test_workflow_called_as_a_task(lab: RuntimeLab) -> None:
    """A built workflow handler without an activation fails as `business_error`."""
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
    program = await lab.start(source).ready()
    assert (await program.invoke())["error"]["kind"] == "business_error"


@runtime_check("runtime-calling/output-is-no-decision", cites=["RUN-060"])
async def test_output_is_no_decision(lab: RuntimeLab) -> None:
    """The output of an ordinary task is data, even if it looks like a decision."""
    decision = {"v": 1, "activation_id": "x", "revision": 0, "kind": "nonsense"}
    assert await lab.output("return data", decision) == decision
