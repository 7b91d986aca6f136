"""Log frames and the log allowance of the host (RUN-096, RUN-106, RUN-107)."""

import io
import json
import threading
from typing import Any

import pytest

from protocol3.worker.diagnostics import Diagnostics
from protocol3.worker.logs import ProgramLog, is_log, is_valid_log

ORIGIN = {"event_id": "e", "attempt_id": "a", "source": "s", "tenant_id": "t", "namespace": "n", "attempt_no": 1}
LOG = {
    "v": 3, "type": "log", "time": "2026-01-02T03:04:05.5+00:00", "severity": "INFO", "logger": "l", "message": "m",
    "attributes": {"x": 1},
}  # fmt: skip
TRACE = {"trace_id": "1" * 32, "span_id": "2" * 16}


def log(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**LOG, **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    ("frame", "valid"),
    [
        (log(), True),
        (log(**TRACE), True),
        (log(invocation=ORIGIN), True),
        (log(invocation={**ORIGIN, "workflow_id": "w", "activation_id": "a"}), True),
        (log(invocation={**ORIGIN, "parent_workflow_id": "p", "root_workflow_id": "r"}), True),
        (log(v=2), False),
        (log(v=3.0), False),
        (log(message=...), False),
        (log(extra=1), False),
        (log(attributes=[]), False),
        (log(attributes=None), False),
        (log(time="yesterday"), False),
        (log(time=1), False),
        (log(severity=1), False),
        (log(trace_id="1" * 32), False),
        (log(span_id="2" * 16), False),
        (log(**{**TRACE, "trace_id": "X" * 32}), False),
        (log(invocation={"event_id": "e"}), False),
        (log(invocation={**ORIGIN, "source": None}), False),
        (log(invocation={**ORIGIN, "attempt_no": "1"}), False),
        (log(invocation={**ORIGIN, "other": "x"}), False),
        (log(invocation={**ORIGIN, "parent_workflow_id": "p"}), False),
        (log(invocation="x"), False),
    ],
)
def test_valid_log_frames(frame: dict[str, Any], valid: bool) -> None:
    """RUN-106."""
    assert is_valid_log(frame, 3, 100) is valid


def test_bounds_by_size_and_protocol() -> None:
    """RUN-096, RUN-106: 16 KiB, no workflow ids in protocol 2, no log frames in protocol 1."""
    assert is_valid_log(log(), 3, 16_384)
    assert not is_valid_log(log(), 3, 16_385)
    assert is_valid_log(log(v=2, invocation=ORIGIN), 2, 100)
    assert not is_valid_log(log(v=2, invocation={**ORIGIN, "workflow_id": "w"}), 2, 100)
    assert [is_log(log(), protocol) for protocol in (1, 2, 3)] == [False, True, True]


def test_one_allowance_for_logs_and_stderr() -> None:
    """RUN-107: refilled at each invocation start."""
    output = io.BytesIO()
    diagnostics = Diagnostics(output)
    program = ProgramLog(diagnostics, 3)
    line = json.dumps(log()).encode() + b"\n"
    program.stderr(b"x" * 65_000)
    program.frame(line, log())
    program.stderr(b"y" * 1_000)
    program.frame(line, log())
    program.refill()
    program.frame(line, log())
    program.frame(b"invalid", {"type": "log"})
    diagnostics.close()
    assert output.getvalue() == b"x" * 65_000 + line + b"y" * (65_536 - 65_000 - len(line)) + line


def test_a_reader_that_stalls_never_blocks_the_worker() -> None:
    """What does not fit in the queue is dropped."""

    class Stalled(io.BytesIO):
        def write(self, data: Any) -> int:
            gate.wait()
            return super().write(data)

    gate = threading.Event()
    stream = Stalled()
    diagnostics = Diagnostics(stream)
    for _ in range(100):
        diagnostics.write(b"z" * 100_000)
    gate.set()
    diagnostics.close(5)
    assert 1_000_000 < len(stream.getvalue()) <= 4 * 1024 * 1024
