"""The host side of the frames, rule by rule (RUN-028…040, RUN-066…085, RUN-094, RUN-113)."""

import json
from typing import Any

import pytest

from protocol3.contract.models.delivery import ProgramError, Success
from protocol3.contract.strict_json import encode
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.frames import (
    Invocation,
    Result,
    RuntimeFailed,
    RuntimeRequest,
    check_ready,
    decode_frame,
    invoke_frame,
    is_closing,
    read_running,
    reply_frame,
    shutdown_frame,
)

EVENT: dict[str, Any] = {"id": "e", "ldgattemptid": "a", "data": {"x": [1, 1.0]}}
TASK = Invocation(protocol=3, event=EVENT)
ACTIVATION = Invocation(protocol=3, event=EVENT, activation={"v": 1})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def frame(**members: Any) -> dict[str, Any]:
    return {"v": 3, "event_id": "e", "attempt_id": "a", **members}


def result(**members: Any) -> dict[str, Any]:
    return frame(type="result", **members)


def request(**members: Any) -> dict[str, Any]:
    plain = frame(type="runtime_request", id=1, operation="local_step.commit", payload={})
    return {**plain, **members}


def read(document: dict[str, Any], invocation: Invocation = TASK, next_id: int = 1) -> Result | RuntimeRequest:
    line = encode(document) + b"\n"
    return read_running(decode_frame(line), line, invocation, next_id)


def refused(document: dict[str, Any], invocation: Invocation = TASK, next_id: int = 1) -> None:
    with pytest.raises(ExecutionFailed) as caught:
        read(document, invocation, next_id)
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"{\n", b"[]\n", b"1\n", b"\xff\n", b'{"a":1,"a":2}\n', b'{"a":NaN}\n', b'{"a":1e400}\n',
        b'{"a":18446744073709551616}\n', b'{"a":-9223372036854775809}\n', b'{"a":"\\ud800"}\n',
    ],
)  # fmt: skip
def test_lines_that_are_no_frame(line: bytes) -> None:
    """RUN-028."""
    with pytest.raises(ExecutionFailed) as caught:
        decode_frame(line)
    assert caught.value.kind == "protocol"


def test_integers_at_the_bounds_pass() -> None:
    """RUN-028."""
    line = b'{"a":18446744073709551615,"b":-9223372036854775808}\n'
    assert decode_frame(line) == {"a": 2**64 - 1, "b": -(2**63)}


READY = {"v": 3, "type": "ready", "pid": 7, "python_version": "3.12"}


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2}, {"v": 3.0}, {"v": True}, {"type": "hello"}, {"pid": 8}, {"pid": 7.0}, {"pid": "7"},
        {"python_version": "3.11"}, {"extra": 1}, {"pid": None},
    ],
)  # fmt: skip
def test_ready_is_exact(change: dict[str, Any]) -> None:
    """RUN-032."""
    check_ready(dict(READY), protocol=3, pid=7, python="3.12")
    with pytest.raises(ExecutionFailed) as caught:
        check_ready({**READY, **change}, protocol=3, pid=7, python="3.12")
    assert caught.value.kind == "protocol"
    with pytest.raises(ExecutionFailed):
        check_ready({"v": 3, "type": "ready", "pid": 7}, protocol=3, pid=7, python="3.12")


@pytest.mark.parametrize(
    ("document", "closing"),
    [
        ({"v": 3, "type": "closing"}, True),
        ({"v": 2, "type": "closing"}, False),
        ({"v": 3.0, "type": "closing"}, False),
        ({"v": 3, "type": "closing", "x": 1}, False),
        ({"v": 3}, False),
    ],
)
def test_closing_is_exact(document: dict[str, Any], closing: bool) -> None:
    """RUN-113."""
    assert is_closing(document, 3) is closing


def test_the_invoke_frame_by_protocol() -> None:
    """RUN-035, RUN-037…040, RUN-114: the event as it is, observe true, context and extension by version."""
    common = {"type": "invoke", "event_id": "e", "attempt_id": "a", "event": EVENT, "observe": True}
    payload = {"schema": "ledgence.workflow.activation.v1", "payload": {"v": 1}}
    for invocation, expected in (
        (Invocation(protocol=1, event=EVENT), {"v": 1, **common}),
        (Invocation(protocol=2, event=EVENT), {"v": 2, **common, "processing_context": None}),
        (TASK, {"v": 3, **common, "processing_context": None}),
        (ACTIVATION, {"v": 3, **common, "processing_context": None, "extension": payload}),
    ):
        line = invoke_frame(invocation, 10_000)
        assert line.endswith(b"\n")
        assert repr(json.loads(line)) == repr({**expected, "event": EVENT}) or json.loads(line) == expected


def test_frames_above_the_limit_are_not_written() -> None:
    """RUN-021, RUN-030: the LF counts, the limit itself passes."""
    size = len(invoke_frame(TASK, 10_000))
    assert invoke_frame(TASK, size)
    with pytest.raises(ExecutionFailed) as caught:
        invoke_frame(TASK, size - 1)
    assert caught.value.kind == "invalid_input"
    asked = RuntimeRequest(id=4, operation="x", payload=None)
    reply = reply_frame(ACTIVATION, asked, {"committed": True}, 1_000)
    assert json.loads(reply) == frame(type="runtime_reply", id=4, result={"committed": True})
    with pytest.raises(ExecutionFailed):
        reply_frame(ACTIVATION, asked, {"committed": True}, len(reply) - 1)
    assert json.loads(shutdown_frame(2)) == {"v": 2, "type": "shutdown"}


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        (result(status="success", output=None), Success(output=None)),
        (result(status="success", output=nested(64), other=1), Success(output=nested(64))),
        (
            result(status="error", error={"kind": "business_error", "message": "", "more": 1}),
            ProgramError(kind="business_error", message=""),
        ),
    ],
)
def test_results_of_tasks(document: dict[str, Any], outcome: object) -> None:
    """RUN-081…083: unknown members are tolerated."""
    read_result = read(document)
    assert isinstance(read_result, Result)
    assert read_result.outcome == outcome


@pytest.mark.parametrize(
    "document",
    [
        result(status="success"),
        result(status="success", output=nested(65)),
        result(status="error"),
        result(status="error", error={"kind": "", "message": "x"}),
        result(status="error", error={"kind": "k"}),
        result(status="error", error={"kind": "k", "message": 1}),
        result(status="runtime_error", error={"kind": "k", "message": "m"}),
        result(status="other", output=1),
        result(output=1),
        {**result(status="success", output=1), "v": 2},
        {**result(status="success", output=1), "v": 3.0},
        {**result(status="success", output=1), "event_id": "other"},
        {**result(status="success", output=1), "attempt_id": "other"},
        frame(status="success", output=1),
        frame(type="ready"),
        frame(type="closing"),
        request(),
    ],
)
def test_frames_that_end_a_task_as_protocol(document: dict[str, Any]) -> None:
    """RUN-074, RUN-081…085."""
    refused(document)


def test_results_of_activations() -> None:
    """RUN-082, RUN-084: deeper output, and runtime errors."""
    deep = read(result(status="success", output=nested(96)), ACTIVATION)
    assert isinstance(deep, Result)
    refused(result(status="success", output=nested(97)), ACTIVATION)
    failed = read(result(status="runtime_error", error={"kind": "workflow_error", "message": "no"}), ACTIVATION)
    assert failed == Result(outcome=RuntimeFailed(message="workflow_error: no"), observations=None)
    refused(result(status="runtime_error"), ACTIVATION)


def test_brackets_in_strings_are_no_depth() -> None:
    """RUN-082."""
    text = read(result(status="success", output=["[" * 500, '"' + "{" * 500]))
    assert isinstance(text, Result)


@pytest.mark.parametrize(
    "change",
    [
        {"id": 2}, {"id": 0}, {"id": 1.0}, {"id": True}, {"id": "1"},
        {"operation": ""}, {"operation": "o" * 257}, {"operation": "a\x00"}, {"operation": 1},
        {"payload": nested(97)}, {"payload": "p" * 147_455}, {"extra": 1},
    ],
)  # fmt: skip
def test_requests_are_exact(change: dict[str, Any]) -> None:
    """RUN-071, RUN-073."""
    refused(request(**change), ACTIVATION)


def test_requests_at_their_bounds_pass() -> None:
    """RUN-073."""
    for change in ({"payload": nested(96)}, {"payload": "p" * 147_454}, {"operation": "o" * 256}, {"payload": None}):
        assert isinstance(read(request(**change), ACTIVATION), RuntimeRequest)
    assert isinstance(read(request(id=9), ACTIVATION, next_id=9), RuntimeRequest)
    missing = request()
    del missing["payload"]
    refused(missing, ACTIVATION)


OBSERVATIONS = {
    "runtime_started_at_ms": 1, "runtime_elapsed_us": 2, "process_cpu_user_us": None, "process_cpu_system_us": 3,
    "process_lifetime_peak_rss_bytes": None, "local_steps": [], "local_steps_truncated": False,
}  # fmt: skip
STEP = {"key": "k", "callable": "c", "started_at_ms": 1, "elapsed_us": 1, "state": "returned"}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, True),
        ({"local_steps": [STEP, {**STEP, "key": "l"}]}, True),
        ({"extra": 1}, False),
        ({"local_steps": [STEP, STEP]}, False),
        ({"local_steps": [{**STEP, "key": "k" * 129}]}, False),
        ({"local_steps": [{**STEP, "callable": "c" * 513}]}, False),
        ({"local_steps": [{**STEP, "callable": "a\nb"}]}, False),
        ({"local_steps": [{**STEP, "key": str(number)} for number in range(129)]}, False),
        ({"runtime_started_at_ms": 253_402_300_800_000}, False),
        ({"runtime_elapsed_us": 1.0}, False),
    ],
)
def test_malformed_observations_are_discarded_silently(change: dict[str, Any], kept: bool) -> None:
    """RUN-094: the result stands."""
    end = read(result(status="success", output=1, observations={**OBSERVATIONS, **change}))
    assert isinstance(end, Result)
    assert end.outcome == Success(output=1)
    assert (end.observations is not None) is kept
