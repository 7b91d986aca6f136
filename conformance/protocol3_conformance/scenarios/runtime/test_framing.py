"""Frames, and what a worker may send (chapter 21, Framing and The frames)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import Program
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.scenarios.runtime import runtime_check
from protocol3_conformance.wire.frames import Frame, traceparent
from protocol3_conformance.wire.strict_json import encode, same

ECHO = "def handle(event):\n    return event['data']\n"
WIDE = "def handle(event):\n    return 'x' * event['data']\n"
CALLED = "def handle(event):\n    print('<called>')\n"
SMALL = 4096


def padded(program: Program, size: int) -> bytes:
    """An invocation of exactly `size` bytes, LF included."""
    room = size - len(encode(program.invocation(""))) - 1
    line = encode(program.invocation("x" * room)) + b"\n"
    assert len(line) == size
    return line


@runtime_check("runtime-framing/input-limit", cites=["RUN-021", "RUN-023"])
async def test_input_limit(lab: RuntimeLab) -> None:
    """A line of one byte below the limit and of exactly the limit is read, one byte more ends the process with 70."""
    program = await lab.start(ECHO, limit=SMALL).ready()
    for size in (SMALL - 1, SMALL):
        with lab.case(f"{size} bytes"):
            program.judge.sent(program.invocation())
            await program.send(padded(program, size))
            assert (await program.result())["status"] == "success"
    await program.send(padded(program, SMALL + 1))
    assert await program.ends() == 70


@runtime_check("runtime-framing/default-limit", cites=["RUN-004", "RUN-021", "RUN-023"])
async def test_default_limit(lab: RuntimeLab) -> None:
    """Started without limits, the process reads and writes lines of 2 MiB and no byte more."""
    most = bound("FRAME_BYTES")
    source = (
        "def handle(event):\n    sent = event['data']\n    return 'x' * sent if isinstance(sent, int) else 'read'\n"
    )
    program = await lab.start(source, arguments={"max_input_bytes": None, "max_output_bytes": None}).ready()
    program.judge.sent(program.invocation())
    await program.send(padded(program, most))
    assert (await program.result())["output"] == "read"
    await program.send(program.invocation(0))
    room = most - len(encode(await program.result())) - 1
    assert len((await program.invoke(room))["output"]) == room
    assert (await program.invoke(room + 1))["error"]["kind"] == "invalid_output"
    await program.send(padded(program, most + 1))
    assert await program.ends() == 70


@runtime_check("runtime-framing/endless-line", cites=["RUN-023"])
async def test_endless_line(lab: RuntimeLab) -> None:
    """A line that does not end is not collected beyond the limit."""
    program = await lab.start(ECHO, limit=SMALL).ready()
    await program.send(b"x" * (SMALL + 1))
    assert await program.ends() == 70


@runtime_check("runtime-framing/output-limit", cites=["RUN-021", "RUN-053", "RUN-055"])
async def test_output_limit(lab: RuntimeLab) -> None:
    """A result of exactly the limit is sent; one byte more is `invalid_output`, and the process stays usable."""
    program = await lab.start(WIDE, limit=SMALL).ready()
    await program.send(program.invocation(0))
    room = SMALL - len(await program.raw_line())
    program.judge.waiting.clear()
    for size in (room - 1, room):
        with lab.case(f"{SMALL - room + size} bytes"):
            assert len((await program.invoke(size))["output"]) == size
    assert (await program.invoke(room + 1))["error"]["kind"] == "invalid_output"
    assert (await program.invoke(1))["output"] == "x"


@runtime_check("runtime-framing/bytes-are-utf-8", cites=["RUN-021"])
async def test_bytes_are_utf8(lab: RuntimeLab) -> None:
    """The output limit counts UTF-8: a character of several bytes is neither escaped nor counted as one."""
    program = await lab.start("def handle(event):\n    return chr(0x1f600) * event['data']\n", limit=SMALL).ready()
    await program.send(program.invocation(0))
    room = SMALL - len(await program.raw_line())
    program.judge.waiting.clear()
    assert len((await program.invoke(room // 4))["output"]) == room // 4
    assert (await program.invoke(room // 4 + 1))["error"]["kind"] == "invalid_output"


@runtime_check("runtime-framing/pieces", cites=["RUN-021", "RUN-022"])
async def test_pieces(lab: RuntimeLab) -> None:
    """A frame may come in pieces, and together with the next ones; a large result is written as one frame."""
    program = await lab.start(ECHO).ready()
    line = encode(program.invocation("y")) + b"\n"
    program.judge.sent(program.invocation())
    for piece in (line[:1], line[1:60], line[60:]):
        await program.send(piece)
    assert (await program.result())["output"] == "y"
    for _ in range(3):
        program.judge.sent(program.invocation())
    await program.send(line * 3)
    assert [(await program.result())["output"] for _ in range(3)] == ["y"] * 3
    large = "x" * 1_000_000
    await program.send(program.invocation(large))
    await program.send(program.invocation("after"))
    assert (await program.result())["output"] == large
    assert (await program.result())["output"] == "after"


@runtime_check("runtime-framing/end-while-idle", cites=["RUN-025"])
async def test_end_while_idle(lab: RuntimeLab) -> None:
    """The end of standard input while idle is an orderly end: exit code 0, no `closing`."""
    for protocol in (1, 2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start(ECHO, protocol=protocol).ready()
            assert await program.finish() == 0


@runtime_check("runtime-framing/last-line-without-end", cites=["RUN-023"])
async def test_last_line_without_end(lab: RuntimeLab) -> None:
    """A last line without LF ends the process with 70, although it would be an invocation."""
    program = await lab.start(CALLED).ready()
    await program.send(encode(program.invocation(1)))
    assert await program.finish() == 70
    assert "<called>" not in program.process.stderr()


BROKEN: dict[str, bytes | dict[str, Any]] = {
    "empty line": b"\n",
    "no JSON": b"nonsense\n",
    "half an object": b"{\n",
    "a string": b'"text"\n',
    "an array": b"[]\n",
    "null": b"null\n",
    "no UTF-8": b"\xff\xfe{}\n",
    "NaN": b'{"v":2,"type":"shutdown","x":NaN}\n',
    "-Infinity": b'{"v":2,"type":"shutdown","x":-Infinity}\n',
    "another version": {"v": 3},
    "version as text": {"v": "2"},
    "null version": {"v": None},
    "no version": {"v": ...},
    "type ready": {"type": "ready"},
    "type runtime_reply": {"type": "runtime_reply"},
    "null type": {"type": None},
    "no type": {"type": ...},
    "other event_id": {"event_id": "other"},
    "empty event_id": {"event_id": "", "event": {"id": ""}},
    "null event_id": {"event_id": None},
    "no event_id": {"event_id": ...},
    "other attempt_id": {"attempt_id": "other"},
    "empty attempt_id": {"attempt_id": "", "event": {"ldgattemptid": ""}},
    "no attempt_id": {"attempt_id": ...},
    "other id in the event": {"event": {"id": "other"}},
    "other attempt in the event": {"event": {"ldgattemptid": "other"}},
    "no id in the event": {"event": {"id": ...}},
    "no processing_context": {"processing_context": ...},
    "processing_context empty": {"processing_context": {}},
    "processing_context list": {"processing_context": []},
    "processing_context text": {"processing_context": "text"},
    "carrier with another member": {"processing_context": {"traceparent": traceparent(), "other": 1}},
    "carrier without traceparent": {"processing_context": {"tracestate": "a=1"}},
    "null traceparent": {"processing_context": {"traceparent": None}},
    "traceparent upper case": {"processing_context": {"traceparent": traceparent().upper()}},
    "traceparent version 01": {"processing_context": {"traceparent": "01" + traceparent()[2:]}},
    "traceparent all zero": {"processing_context": {"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01"}},
    "tracestate without value": {"processing_context": {"traceparent": traceparent(), "tracestate": "no-value"}},
    "tracestate key twice": {"processing_context": {"traceparent": traceparent(), "tracestate": "a=1,a=2"}},
    "tracestate too long": {"processing_context": {"traceparent": traceparent(), "tracestate": "x=" + "1" * 511}},
}


@runtime_check(
    "runtime-framing/broken-frames", cites=["RUN-024", "RUN-026", "RUN-035", "RUN-037", "RUN-108", "TRC-001"]
)
async def test_broken_frames(lab: RuntimeLab) -> None:
    """A frame that breaks the protocol ends the process with 70, and the handler is not called."""
    package = lab.package(CALLED)
    for name, change in BROKEN.items():
        with lab.case(name):
            program = await lab.start(package, protocol=2).ready()
            line = change if isinstance(change, bytes) else encode(program.invocation(1, **change)) + b"\n"
            await program.send(line)
            assert await program.ends() == 70
            assert "<called>" not in program.process.stderr()


@runtime_check("runtime-framing/event-is-an-object", cites=["RUN-035"])
async def test_event_is_an_object(lab: RuntimeLab) -> None:
    """An `event` that is no object, or missing, ends the process with 70."""
    package = lab.package(CALLED)
    values: tuple[Any, ...] = ([], None, "text", ...)
    for value in values:
        with lab.case(repr(value)):
            program = await lab.start(package).ready()
            frame = {name: item for name, item in (program.invocation(1) | {"event": value}).items() if item is not ...}
            await program.send(encode(frame) + b"\n")
            assert await program.ends() == 70


@runtime_check("runtime-framing/tolerated", cites=["RUN-027", "RUN-038", "RUN-037"])
async def test_tolerated(lab: RuntimeLab) -> None:
    """Unknown members are ignored, of two equal ones the last counts; older protocols ignore what is not theirs."""
    program = await lab.start(ECHO).ready()
    assert (await program.invoke("a", future={"x": 1}))["output"] == "a"
    program.judge.sent(program.invocation())
    await program.send(encode(program.invocation("a")).replace(b'"data":"a"', b'"data":"a","data":"b"') + b"\n")
    assert (await program.result())["output"] == "b"
    await program.send({"v": 3, "type": "shutdown", "future": 1})
    assert (await program.frame() or {}).get("type") == "closing"
    for protocol in (1, 2):
        with lab.case(f"extension in protocol {protocol}"):
            older = await lab.start(ECHO, protocol=protocol).ready()
            assert (await older.invoke("c", extension={"schema": "x"}))["output"] == "c"
    with lab.case("processing_context in protocol 1"):
        older = await lab.start(ECHO, protocol=1).ready()
        assert (await older.invoke("d", processing_context="anything"))["output"] == "d"


@runtime_check("runtime-framing/identities-come-back", cites=["RUN-036", "RUN-081"])
async def test_identities_come_back(lab: RuntimeLab) -> None:
    """A result repeats version and identities of its invocation and has no other members."""
    package = lab.package(ECHO)
    for protocol in (1, 2, 3):
        with lab.case(f"protocol {protocol}"):
            program = await lab.start(package, protocol=protocol).ready()
            for number in (1, 2):
                event, attempt = f"evt {number} é", "a" * 128
                changed = {"id": event, "ldgattemptid": attempt}
                result = await program.invoke(number, event_id=event, attempt_id=attempt, event=changed)
                expected: Frame = {"v": protocol, "type": "result", "event_id": event, "attempt_id": attempt}
                assert same(result, expected | {"status": "success", "output": number})


@runtime_check("runtime-framing/processing-context", cites=["RUN-108", "TRC-002", "TRC-004"])
async def test_processing_context(lab: RuntimeLab) -> None:
    """A valid carrier is accepted, with tracestate null, absent, empty or with members."""
    program = await lab.start(ECHO).ready()
    for state in (..., None, "", "a=1", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE", "t@v=1,,"):
        with lab.case(repr(state)):
            carrier = {"traceparent": traceparent()} | ({} if state is ... else {"tracestate": state})
            assert (await program.invoke(1, processing_context=carrier))["output"] == 1


@runtime_check("runtime-framing/event-unchanged", cites=["RUN-048"])
async def test_event_unchanged(lab: RuntimeLab) -> None:
    """The handler's one argument is the event as a dict, its own trace beside another processing context."""
    program = await lab.start(
        "def handle(*given, **named):\n    return [len(given), len(named), type(given[0]).__name__, given[0]]"
    ).ready()
    changed = {"traceparent": traceparent(), "custom": True, "number": -5}
    frame = program.invocation(
        {"é": [1, 1.0, True, 2**64 - 1, -(2**63), -0.0, 1e-7, None, "\U0001f600"]},
        event=changed,
        processing_context={"traceparent": traceparent("5" * 32)},
    )
    await program.send(frame)
    assert same((await program.result())["output"], [1, 0, "dict", frame["event"]])


@runtime_check("runtime-framing/room-for-a-failure", cites=["RUN-050"])
async def test_room_for_a_failure(lab: RuntimeLab) -> None:
    """Identities that leave no room for an empty failure end the process with 70 before the handler is called."""
    long = "i" * 128
    for limit in (256, 300):
        with lab.case(f"limit {limit}"):
            program = await lab.start(CALLED, limit=limit, arguments={"max_input_bytes": str(SMALL)}).ready()
            changed = {"id": long, "ldgattemptid": long}
            await program.send(program.invocation(event_id=long, attempt_id=long, event=changed))
            assert await program.ends() == 70
            assert "<called>" not in program.process.stderr()


@runtime_check("runtime-framing/one-at-a-time", cites=["RUN-034", "RUN-036"])
async def test_one_at_a_time(lab: RuntimeLab) -> None:
    """Invocations that are sent early are served one after the other, each with its own identities."""
    program = await lab.start(ECHO).ready()
    for number in range(5):
        await program.send(program.invocation(number, event_id=f"e{number}", event={"id": f"e{number}"}))
    for number in range(5):
        result = await program.result()
        assert (result["event_id"], result["output"]) == (f"e{number}", number)
