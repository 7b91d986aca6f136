"""Log frames and `get_logger` (chapter 21, Logs; chapter 23, get_logger)."""

from __future__ import annotations

import textwrap
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.faults import NotDetermined
from protocol3_conformance.wire.frames import Frame, traceparent
from protocol3_conformance.wire.strict_json import compact_size, same

LOG = "from ledgence.worker import get_logger\nlog = get_logger('lab.logs')\n"
IDENTITY = {
    "event_id": "evt_1",
    "attempt_id": "att_1",
    "source": "urn:ledgence:orchestrator",
    "tenant_id": "north",
    "namespace": "reports",
    "run_id": "run_1",
    "task_id": "task_1",
    "attempt_no": 1,
}
FLOOD = """
    import os, threading
    from ledgence.worker import get_logger
    log = get_logger("x")
    def handle(event):
        for n in range(event["data"]):
            log.info("%05d" % n + "m" * 3000)
        threading.Timer(0.5, os.write, (2, b"<all logged>")).start()
        return "done"
"""


async def logged(lab: RuntimeLab, code: str, count: int = 1, *, protocol: int = 3, **changes: Any) -> list[Frame]:
    """Run an ordinary task and return its first log frames."""
    await lab.output(LOG + textwrap.dedent(code), protocol=protocol, **changes)
    return await (await lab.task_program(protocol)).logged(count)


async def attributes(lab: RuntimeLab, expression: str) -> Any:
    [frame] = await logged(lab, f"log.info('x', extra={{'attributes': {expression}}})")
    return frame["attributes"]


@runtime_check("runtime-logs/members", cites=["RUN-098", "HLP-012", "HLP-013", "HLP-014"])
async def test_members(lab: RuntimeLab) -> None:
    """A record carries severity, logger, message, attributes and the identity, what is absent left out."""
    for protocol in (2, 3):
        with lab.case(f"protocol {protocol}"):
            code = "log.warning('hello %s', 'you', extra={'attributes': {'a': [1, None]}})"
            [frame] = await logged(lab, code, protocol=protocol, event={"ldgworkflowid": "wf_1"})
            named = {"workflow_id": "wf_1"} if protocol == 3 else {}
            expected = {
                "v": protocol,
                "type": "log",
                "severity": "WARNING",
                "logger": "lab.logs",
                "message": "hello you",
                "attributes": {"a": [1, None]},
                "invocation": IDENTITY | named,
            }
            del frame["time"]
            assert same(frame, expected)
    [frame] = await logged(lab, "log.info('x')", event={"ldgrunid": ..., "ldgattemptno": ...})
    assert frame["invocation"].keys() == IDENTITY.keys() - {"run_id", "attempt_no"}


@runtime_check("runtime-logs/activations", cites=["HLP-013", "HLP-014", "HLP-006"])
async def test_activations(lab: RuntimeLab) -> None:
    """Records of an activation name workflow and activation, in steps and threads too; parent and root when nested."""
    code = LOG + textwrap.dedent("""
        def step():
            log.info("step")
            return 1
        await ctx.local("k", step)
        await asyncio.to_thread(log.info, "thread")
        return ctx.complete(None)
    """)
    own = {"workflow_id": "wf_1", "activation_id": "task_1"}
    nested = {"parent_workflow_id": "p", "root_workflow_id": "r"}
    for payload in ({}, nested):
        with lab.case(repr(payload)):
            await lab.completed(code, **payload)
            frames = await (await lab.task_program()).logged(2)
            assert {frame["message"] for frame in frames} == {"step", "thread"}
            for frame in frames:
                assert frame["invocation"] == IDENTITY | own | payload


@runtime_check("runtime-logs/trace-ids", cites=["HLP-015", "RUN-109"])
async def test_trace_ids(lab: RuntimeLab) -> None:
    """Trace ids are those of the processing context, not of the event; without one there are none."""
    for event in ({}, {"traceparent": traceparent("5" * 32)}):
        with lab.case(f"event with {event}"):
            carrier = {"traceparent": traceparent()}
            [frame] = await logged(lab, "log.info('x')", processing_context=carrier, event=event)
            assert (frame["trace_id"], frame["span_id"]) == (traceparent()[3:35], traceparent()[36:52])
    [frame] = await logged(lab, "log.info('x')", event={"traceparent": traceparent()})
    assert not frame.keys() & {"trace_id", "span_id"}


@runtime_check("runtime-logs/protocol-1", cites=["RUN-096", "HLP-010"])
async def test_protocol_1(lab: RuntimeLab) -> None:
    """Protocol 1 has no log frames; logging works and stays inside."""
    source = LOG + "log.error('importing')\ndef handle(event):\n    log.error('running')\n    return log.level\n"
    program = await lab.start(source, protocol=1).ready()
    assert (await program.invoke())["output"] == 20
    assert (await program.shut_down() or {}).get("type") == "closing"
    assert program.logs == []


@runtime_check("runtime-logs/while-importing", cites=["RUN-102", "HLP-013"])
async def test_while_importing(lab: RuntimeLab) -> None:
    """What is logged while importing follows `ready` and names no invocation."""
    source = LOG + "log.info('importing')\nimport time\ntime.sleep(0.2)\ndef handle(event): return 1\n"
    for protocol in (2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start(source, protocol=protocol).ready()
            [frame] = await program.logged(1)
            assert (frame["message"], "invocation" in frame) == ("importing", False)


@runtime_check("runtime-logs/captured-when-logged", cites=["RUN-097", "HLP-016"])
async def test_captured_when_logged(lab: RuntimeLab) -> None:
    """A record keeps what was true when it was logged; a copied context keeps its identity."""
    code = """
        import contextvars, threading
        attributes = {"list": [1], "n": 1}
        log.info("x", extra={"attributes": attributes})
        attributes["list"].append(2)
        attributes["n"] = 2
        event["id"] = "changed"
        context, gate = contextvars.copy_context(), threading.Event()
        def work():
            gate.wait()
            context.run(log.info, "from the thread")
        memory.update(gate=gate, thread=threading.Thread(target=work, daemon=True))
        memory["thread"].start()
    """
    [frame] = await logged(lab, code, event={"ldgrunid": "first"})
    assert (frame["attributes"], frame["invocation"]["event_id"]) == ({"list": [1], "n": 1}, "evt_1")
    later = "memory['gate'].set()\nmemory['thread'].join()\nlog.info('second')"
    frames = await logged(lab, later, 2, event={"ldgrunid": "second"})
    told = [(frame["message"], frame["invocation"]["run_id"]) for frame in frames]
    assert told == [("from the thread", "first"), ("second", "second")]


@runtime_check("runtime-logs/texts-are-cut", cites=["RUN-098"])
async def test_texts_are_cut(lab: RuntimeLab) -> None:
    """Message, logger and severity are cut to 4096, 256 and 32 characters."""
    for count in (4095, 4096, 4097):
        with lab.case(f"message of {count}"):
            [frame] = await logged(lab, f"log.info('m' * {count})")
            assert frame["message"] == "m" * min(count, 4096)
    for count in (255, 256, 257):
        with lab.case(f"logger of {count}"):
            [frame] = await logged(lab, f"get_logger('n' * {count}).info('x')")
            assert frame["logger"] == "n" * min(count, 256)
    for count in (31, 32, 33):
        with lab.case(f"severity of {count}"):
            [frame] = await logged(lab, f"import logging\nlogging.addLevelName(25, 'S' * {count})\nlog.log(25, 'x')")
            assert frame["severity"] == "S" * min(count, 32)


def values(attribute: Any) -> int:
    inner = attribute.values() if isinstance(attribute, dict) else attribute if isinstance(attribute, list) else ()
    return 1 + sum(map(values, inner))


@runtime_check("runtime-logs/attributes", cites=["HLP-018", "HLP-012"])
async def test_attributes(lab: RuntimeLab) -> None:
    """The bounds of attributes: entries, keys, values and characters of the whole tree, nesting, types."""
    for count in (31, 32, 33):
        with lab.case(f"{count} entries"):
            assert len(await attributes(lab, f"{{f'k{{n}}': n for n in range({count})}}")) == min(count, 32)
            assert len((await attributes(lab, f"{{'l': list(range({count}))}}"))["l"]) == min(count, 32)
    for count in (255, 256, 257):
        with lab.case(f"key of {count}"):
            assert [len(key) for key in await attributes(lab, f"{{'k' * {count}: 1}}")] == [min(count, 256)]
    assert await attributes(lab, "{1: 'x', None: 'y', 'z': 1}") == {"z": 1}
    kept = {"t": [1, 2], "b": True, "f": 1.5, "n": None}
    assert same(await attributes(lab, "{'t': (1, 2), 'b': True, 'f': 1.5, 'n': None}"), kept)
    assert values(await attributes(lab, "{f'k{n}': [1] * 30 for n in range(10)}")) <= 65
    assert list(await attributes(lab, "{f'k{n}': [1] * 20 for n in range(10)}"))[:3] == ["k0", "k1", "k2"]
    texts = await attributes(lab, "{'a': 'x' * 3000, 'b': 'y' * 3000, 'c': 'z'}")
    assert texts["a"] == "x" * 3000
    assert sum(len(key) + len(str(value)) for key, value in texts.items()) <= 4096 + 40
    deep = {"a": {"b": {"c": {"d": 1}}}}
    assert await attributes(lab, repr(deep)) == deep
    for value in ("object()", "{1}", "b'x'", "print"):
        with lab.case(value):
            assert isinstance((await attributes(lab, f"{{'a': {value}}}"))["a"], str)
    for value in ("{}", "[1]", "{'e': 1}"):
        with lab.case(f"{value} as the fifth container"):
            found = await attributes(lab, f"{{'a': {{'b': [{{'d': {value}}}]}}}}")
            assert isinstance(found["a"]["b"][0]["d"], str)


@runtime_check("runtime-logs/never-fails-a-task", cites=["RUN-104"])
async def test_never_fails_a_task(lab: RuntimeLab) -> None:
    """A record that cannot be encoded is dropped, and the task goes on."""
    for code in (
        "log.info('x', extra={'attributes': {'a': float('nan')}})",
        "log.info('x', extra={'attributes': {'a': float('inf')}})",
        "log.info('%d', 'no number')",
        "class Bad:\n    def __str__(self): raise ValueError\nlog.info(Bad())",
        "log.info('\\ud800')",
    ):
        with lab.case(code):
            assert [frame["message"] for frame in await logged(lab, code + "\nlog.info('marker')")] == ["marker"]


@runtime_check("runtime-logs/frame-limit", cites=["RUN-099", "RUN-098"])
async def test_frame_limit(lab: RuntimeLab) -> None:
    """A record over 16 KiB, or over the output limit, loses its attributes, then halves of its message."""
    [frame] = await logged(lab, "log.info('\\U0001f600' * 4096, extra={'attributes': {'a': 1}})")
    assert (frame["attributes"], set(frame["message"])) == ({}, {"\U0001f600"})
    assert len(frame["message"]) == 2048
    source = LOG + textwrap.dedent("""
        def handle(event):
            log.info("m" * event["data"], extra={"attributes": {"a": "b" * 300}})
            log.info("marker")
    """)
    program = await lab.start(source, protocol=2, limit=1000).ready()
    for length, expected in ((10, (10,)), (450, (450, 225)), (2000, (500, 250))):
        with lab.case(f"message of {length}"):
            await program.invoke(length)
            first, marker = await program.logged(2)
            assert marker["message"] == "marker"
            assert len(first["message"]) in expected
            assert first["attributes"] == ({"a": "b" * 300} if length == 10 else {})
            assert compact_size(first) < 1000


@runtime_check("runtime-logs/exact-frame-limit", cites=["RUN-099"])
async def test_exact_frame_limit(lab: RuntimeLab) -> None:
    """A record of exactly 16 KiB with its newline stays whole; with a byte more it is halved."""
    [empty] = await logged(lab, "log.info('')")
    room = bound("LOG_FRAME_BYTES") - compact_size(empty) - 1
    for beyond in (0, 1):
        with lab.case(f"{beyond} beyond"):
            wide, narrow = divmod(room + beyond, 4)
            [frame] = await logged(lab, f"log.info('m' * {narrow} + '\\U0001f600' * {wide})")
            if len(frame["time"]) != len(empty["time"]):
                raise NotDetermined("the records have times of different lengths")
            assert len(frame["message"]) == (wide + narrow) // (1 + beyond)


@runtime_check("runtime-logs/mandatory-part", cites=["RUN-099", "RUN-104"])
async def test_mandatory_part(lab: RuntimeLab) -> None:
    """A record whose mandatory part does not fit is dropped."""
    source = """
        from ledgence.worker import get_logger
        def handle(event):
            get_logger("n" * 200).info("x")
            get_logger("short").info("marker")
    """
    program = await lab.start(source, protocol=2, limit=450, arguments={"max_input_bytes": "4096"}).ready()
    assert (await program.invoke())["status"] == "success"
    assert [frame["message"] for frame in await program.logged(1)] == ["marker"]


@runtime_check("runtime-logs/control-frames-first", cites=["RUN-101", "RUN-103"])
async def test_control_frames_first(lab: RuntimeLab) -> None:
    """A result overtakes waiting records; they follow in order, some dropped, and none follows `closing`.

    Half a second after the last record the result waits: what lies in the pipe precedes it, and what is being written.
    """
    program = await lab.start(FLOOD).ready()
    await program.send(program.invocation(1000))
    await program.process.until("1000 records", lambda: "<all logged>" in program.process.stderr())
    written = program.process.written().count(b"\n")
    assert (await program.result())["output"] == "done"
    before = len(program.logs)
    while not await program.silent(0.2):
        frame = await program.any_frame()
        assert frame is not None
        program.logs.append(frame)
    numbers = [int(frame["message"][:5]) for frame in program.logs]
    assert numbers == sorted(set(numbers))
    assert before <= written + 1, "records that were waiting came before the result"
    assert len(numbers) < 1000
    program.logs.clear()
    await program.send(program.invocation(1000))
    await program.send({"v": 3, "type": "shutdown"})
    await program.process.until("1000 more", lambda: program.process.stderr().count("<all logged>") == 2)
    assert (await program.result())["output"] == "done"
    assert (await program.frame() or {}).get("type") == "closing"
    assert await program.finish() == 0


@runtime_check("runtime-logs/loggers", cites=["HLP-009", "HLP-010"])
async def test_loggers(lab: RuntimeLab) -> None:
    """One handler is added however often; other handlers, propagation, levels and the root stay as they were."""
    code = """
        import logging
        from ledgence.worker import get_logger
        own = logging.getLogger("lab.own")
        own.propagate = False
        own.setLevel(logging.ERROR)
        own.addHandler(logging.NullHandler())
        before = list(logging.getLogger().handlers), logging.getLogger().level
        same = [get_logger("lab.own") is own for _ in range(3)]
        fresh = get_logger("lab.fresh")
        low = logging.getLogger("lab.low")
        low.setLevel(logging.DEBUG)
        get_logger("lab.low")
        after = list(logging.getLogger().handlers), logging.getLogger().level
        kept = [len(own.handlers), own.level, own.propagate]
        return [same, kept, fresh.level, fresh.propagate, low.level, before == after]
    """
    assert same(await lab.output(code), [[True] * 3, [2, 40, False], 20, True, 10, True])


@runtime_check("runtime-logs/one-frame-per-record", cites=["HLP-011", "HLP-010"])
async def test_one_frame_per_record(lab: RuntimeLab) -> None:
    """One record gives one frame, also when it propagates or is handled again; equal calls give two."""
    code = """
        import logging
        get_logger('lab.logs.child').info('once')
        record = log.makeRecord('lab.logs', 20, 'f', 1, 'again', (), None)
        log.handle(record)
        log.handle(record)
        log.debug('too low')
        log.info('twice')
        log.info('twice')
        log.info('marker')
    """
    messages = [frame["message"] for frame in await logged(lab, code, 5)]
    assert messages == ["once", "again", "twice", "twice", "marker"]
