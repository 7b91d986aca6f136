"""Frames, and what a host may send (chapter 21)."""

import json

import pytest

ECHO = "def handle(event):\n    return event['data']\n"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def echo(hosts, package):
    """A fresh child whose handler returns its data."""
    return lambda **settings: hosts(package(ECHO), **settings).ready()


def padded(host, size):
    """An invoke line of exactly `size` bytes, LF included."""
    frame = host.invoke_frame("")
    frame["event"]["data"] = "x" * (size - len(json.dumps(frame)) - 1)
    line = json.dumps(frame).encode() + b"\n"
    assert len(line) == size
    return line


def ends_with(host, line):
    """Exit code after a line that the child must not answer."""
    host.send(line)
    assert host.frame() is None
    return host.wait()


def test_input_of_exactly_the_limit_is_accepted_and_one_byte_more_ends_the_child(echo):
    """RUN-021, RUN-023, vector 'frame bound'."""
    host = echo(limit=4096)
    host.send(padded(host, 4096))
    assert host.result()["status"] == "success"
    assert ends_with(host, padded(host, 4097)) == 70


def test_a_line_that_never_ends_is_not_collected_beyond_the_limit(echo):
    """RUN-023."""
    assert ends_with(echo(limit=4096), b"x" * 4097) == 70


def test_output_of_exactly_the_limit_is_sent_and_one_byte_more_is_invalid_output(hosts, package):
    """RUN-021, RUN-053."""
    host = hosts(package("def handle(event):\n    return 'x' * event['data']\n"), limit=4096).ready()
    host.send(host.invoke_frame(0))
    room = 4096 - len(host.line())
    host.send(host.invoke_frame(room))
    line = host.line()
    assert len(line) == 4096
    assert json.loads(line)["status"] == "success"
    assert host.invoke(room + 1)["error"]["kind"] == "invalid_output"
    assert host.invoke(1)["output"] == "x"


def test_output_is_counted_in_utf8_bytes_without_escapes(echo):
    """RUN-021: compact JSON."""
    host = echo()
    host.send(host.invoke_frame({"é": ["\u2028", "\U0001f600"]}))
    line = host.line()
    assert b'"output":{"\xc3\xa9":["\xe2\x80\xa8","\xf0\x9f\x98\x80"]}' in line
    assert b": " not in line
    assert b", " not in line


def test_a_frame_may_arrive_in_pieces_and_with_the_next_one(echo):
    """RUN-021, RUN-022."""
    host = echo()
    line = json.dumps(host.invoke_frame(1)).encode() + b"\n"
    for piece in (line[:1], line[1:50], line[50:]):
        host.send(piece)
    assert host.result()["output"] == 1
    host.send(line * 3)
    assert [host.result()["output"] for _ in range(3)] == [1, 1, 1]


def test_a_large_result_is_written_completely_before_the_next_frame(echo):
    """RUN-022: larger than any pipe buffer."""
    host = echo(protocol=1)
    host.send(host.invoke_frame("x" * 1_000_000))
    host.send(host.invoke_frame("y"))
    assert [len(host.result()["output"]), host.result()["output"]] == [1_000_000, "y"]


def test_end_of_stdin_while_idle_exits_with_0_and_without_closing(echo):
    """RUN-025."""
    host = echo()
    host.close_stdin()
    assert host.any_frame() is None
    assert host.wait() == 0


def test_a_last_line_without_line_end_exits_with_70(echo):
    """RUN-023."""
    host = echo()
    host.send(json.dumps(host.invoke_frame(1)).encode())
    host.close_stdin()
    assert host.frame() is None
    assert host.wait() == 70


def broken(**changes):
    return lambda frame: json.dumps(frame | changes).encode() + b"\n"


def without(name):
    return lambda frame: json.dumps({key: value for key, value in frame.items() if key != name}).encode() + b"\n"


def in_event(**changes):
    return lambda frame: json.dumps(frame | {"event": frame["event"] | changes}).encode() + b"\n"


def context(value):
    return broken(processing_context=value)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"nonsense\n",
        b"{\n",
        b'"text"\n',
        b"[]\n",
        b"null\n",
        b"\xff\xfe{}\n",
        b'{"v":2,"type":"invoke","x":NaN}\n',
        b'{"v":2,"type":"shutdown","x":-Infinity}\n',
        broken(v=3),
        broken(v="2"),
        broken(v=None),
        without("v"),
        broken(type="ready"),
        broken(type="runtime_reply"),
        broken(type=None),
        without("type"),
        broken(event_id="other"),
        broken(event_id=""),
        broken(event_id=None),
        without("event_id"),
        broken(attempt_id="other"),
        without("attempt_id"),
        in_event(id="other"),
        in_event(ldgattemptid="other"),
        in_event(id=None),
        broken(event=[]),
        broken(event=None),
        without("event"),
        without("processing_context"),
        context({}),
        context([]),
        context("text"),
        context({"traceparent": PARENT, "other": 1}),
        context({"traceparent": None}),
        context({"traceparent": PARENT.upper()}),
        context({"traceparent": PARENT.replace("00-", "01-", 1)}),
        context({"traceparent": "00-" + "0" * 32 + "-00f067aa0ba902b7-01"}),
        context({"traceparent": PARENT, "tracestate": "no-value"}),
        context({"traceparent": PARENT, "tracestate": "a=1,a=2"}),
        context({"traceparent": PARENT, "tracestate": "x=" + "1" * 511}),
        context({"tracestate": "a=1"}),
    ],
)
def test_a_frame_that_breaks_the_protocol_ends_the_child_without_a_call(hosts, package, line):
    """RUN-024, RUN-026, RUN-035, RUN-037, RUN-108."""
    host = hosts(package("def handle(event):\n    print('CALLED')\n"), protocol=2).ready()
    assert ends_with(host, line if isinstance(line, bytes) else line(host.invoke_frame(1))) == 70
    assert "CALLED" not in host.stderr()


def test_extra_members_are_ignored_and_the_last_of_two_wins(echo):
    """RUN-027."""
    host = echo()
    assert host.invoke(1, future={"x": 1})["output"] == 1
    line = json.dumps(host.invoke_frame(1)).replace('"data": 1', '"data": 1, "data": 2')
    host.send(line.encode() + b"\n")
    assert host.result()["output"] == 2
    host.send({"v": 3, "type": "shutdown", "future": 1})
    assert host.frame() == {"v": 3, "type": "closing"}


def test_protocol_1_has_no_processing_context_and_ignores_one(echo):
    """RUN-037, RUN-038."""
    host = echo(protocol=1)
    assert host.invoke(1)["output"] == 1
    assert host.invoke(2, processing_context="anything", extension={"schema": "x"})["output"] == 2


def test_protocol_2_ignores_an_extension(echo):
    """RUN-038."""
    host = echo(protocol=2)
    assert host.invoke(2, extension={"schema": "x"})["output"] == 2


@pytest.mark.parametrize("protocol", [1, 2, 3])
def test_a_result_repeats_version_and_identities(echo, protocol):
    """RUN-036, RUN-081, RUN-114."""
    host = echo(protocol=protocol)
    frame = host.invoke(5, event_id="e-2", attempt_id="a-2", event={"id": "e-2", "ldgattemptid": "a-2"})
    assert frame == {
        "v": protocol,
        "type": "result",
        "event_id": "e-2",
        "attempt_id": "a-2",
        "status": "success",
        "output": 5,
    }


@pytest.mark.parametrize("state", [None, "", "a=1", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE", "t@v=1,,"])
def test_a_valid_processing_context_is_accepted(echo, state):
    """RUN-108, TRC-002 … TRC-004."""
    assert echo().invoke(1, processing_context={"traceparent": PARENT, "tracestate": state})["output"] == 1


def test_the_event_reaches_the_handler_unchanged(lab):
    """RUN-040, RUN-109: all attributes, and the trace of the event beside another processing context."""
    extra = {"traceparent": PARENT, "custom": True, "number": -5}
    event = lab.output("return event", event=extra, processing_context={"traceparent": PARENT[:-2] + "00"})
    expected = lab.host.invoke_frame({"code": "return event", "data": None}, event=extra)["event"]
    assert event == expected


def test_numbers_of_the_event_keep_their_class(lab):
    """RUN-040, JSON-021, JSON-023."""
    code = "return [[type(item).__name__, repr(item)] for item in data]"
    data = [1, 1.0, True, 2**64 - 1, -(2**63), -0.0, 1e-7, "é\U0001f600", None]
    assert lab.output(code, data) == [[type(item).__name__, repr(item)] for item in data]


def test_the_token_minus_zero_is_a_float(lab, own_helper):
    """JSON-022. A host that writes compact JSON sends `-0.0`, so this matters for others only."""
    if not own_helper:
        pytest.skip("RUN-040 leaves the spelling to the host")
    frame = json.dumps(lab.host.invoke_frame({"code": "return repr(data)", "data": "zero"}))
    lab.host.send(frame.replace('"zero"', "-0").encode() + b"\n")
    assert lab.host.result()["output"] == "-0.0"


@pytest.mark.parametrize("limit", [256, 300])
def test_identities_that_leave_no_room_for_a_failure_end_the_child_before_the_call(hosts, package, limit):
    """RUN-050."""
    host = hosts(package("def handle(event):\n    print('CALLED')\n"), limit=limit).ready()
    long = "i" * 128
    frame = json.dumps(
        {
            "v": 3,
            "type": "invoke",
            "event_id": long,
            "attempt_id": "a",
            "event": {"id": long, "ldgattemptid": "a"},
            "processing_context": None,
        },
        separators=(",", ":"),
    )
    assert ends_with(host, frame.encode() + b"\n") == 70
    assert "CALLED" not in host.stderr()
