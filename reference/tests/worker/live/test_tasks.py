"""Ordinary tasks in real processes: outcomes, reports, warm processes (WRK-032…043, WRK-050…063)."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]


def exists(path: Path) -> bool:
    return path.exists()


@pytest.mark.parametrize("protocol", [1, 2, 3])
async def test_a_value_is_settled_as_success(coordinator: Any, start: Start, publish: Publish, protocol: int) -> None:
    """WRK-050, WRK-069, WRK-070: identity, program, process, outcome, observations; nothing about tracing."""
    program = publish(protocol=protocol)
    value = {"a": [1, 1.0, True, -0.0, None, 18446744073709551615], "b": "\u00e9\u0000"}
    attempt = coordinator.assign(program, {"do": "echo", "value": value})
    bench = await start()
    command = await attempt.end()
    report = command["report"]["report"]
    descriptor = program.descriptor
    assert command["report"]["kind"] == "completed"
    assert repr(report["outcome"]) == repr({"status": "success", "output": value})
    assert {name: report[name] for name in ("program", "digest", "attempt_no", "source", "reused_process")} == {
        "program": descriptor.program.to_json(),
        "digest": descriptor.digest,
        "attempt_no": 1,
        "source": "urn:ledgence:orchestrator",
        "reused_process": False,
    }
    assert report["observations"]["local_steps"] == []
    assert (command["operation_id"], command["quiescence"]) == ("worker-result-v1", "confirmed")
    assert "processing_trace" not in command
    assert "traceparent" not in report
    delivery = await bench.stop()
    assert delivery.to_json() == {
        "delivery": {"session_id": "ws_1", "finished": True, "settled_attempts": 1, "lost_attempts": 0}
    }


async def test_the_event_reaches_the_handler_unchanged(coordinator: Any, start: Start, publish: Publish) -> None:
    """RUN-040, and the report carries the event's trace and workflow attributes (DLV-079)."""
    trace = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01", "tracestate": "a=b"}
    extra = {"subject": "tasks/x", "custom": 7, "ldgworkflowid": "wf_9", **trace}
    attempt = coordinator.assign(publish("def handle(event):\n    return event\n"), [1, 2.0], event=extra)
    await start()
    report = (await attempt.end())["report"]["report"]
    assert repr(report["outcome"]["output"]) == repr(attempt.assignment["event"])
    assert {name: report[name] for name in trace} == trace
    assert report["workflow_id"] == "wf_9"


async def test_application_failures_keep_the_process(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-035, WRK-051: kind and message of the frame; the same process takes the next invocation."""
    program = publish()
    attempts = [
        coordinator.assign(program, {"do": "pid"}),
        coordinator.assign(program, {"do": "raise", "message": "no such row"}),
        coordinator.assign(program, {"do": "wide", "size": 3_000_000}),
        coordinator.assign(program, {"do": "pid"}),
    ]
    await start()
    reports = [(await attempt.end())["report"]["report"] for attempt in attempts]
    assert reports[1]["outcome"] == {"status": "failure", "kind": "business_error", "message": "no such row"}
    assert reports[2]["outcome"]["kind"] == "invalid_output"
    assert reports[0]["outcome"]["output"] == reports[3]["outcome"]["output"] == reports[1]["process_id"]
    assert [report["reused_process"] for report in reports] == [False, True, True, True]


@pytest.mark.parametrize("do", ["exit", "kill"])
async def test_a_crash_is_reported_and_the_process_replaced(
    coordinator: Any, start: Start, publish: Publish, do: str
) -> None:
    """WRK-036, WRK-059."""
    program = publish()
    crashed, after = coordinator.assign(program, {"do": do}), coordinator.assign(program, {"do": "pid"})
    await start()
    command = await crashed.end()
    assert command["report"]["kind"] == "failed"
    report = command["report"]["report"]
    assert (report["error"]["kind"], report["phase"], report["execution_may_have_started"]) == (
        "runtime",
        "execution",
        True,
    )
    assert command["quiescence"] == "confirmed"
    assert "cleanup_error" not in report
    assert (await after.end())["report"]["report"]["reused_process"] is False


async def test_processes_are_kept_apart_by_package(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-032, WRK-033, WRK-042: with one slot the idle process of the other package goes first."""
    one, two = publish(), publish()
    order = [one, two, one]
    attempts = [coordinator.assign(program, {"do": "pid"}) for program in order]
    bench = await start(concurrency=1)
    pids = [(await attempt.end())["report"]["report"]["outcome"]["output"] for attempt in attempts]
    assert len(set(pids)) == 3
    await bench.stop()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_the_launch_is_as_the_protocol_says(coordinator: Any, start: Start, publish: Publish) -> None:
    """RUN-001…003, RUN-006, RUN-008, RUN-009: flags, own group, a private directory that goes with it."""
    program = publish(protocol=3)
    first = coordinator.assign(program, {"do": "environment"})
    second = coordinator.assign(program, {"do": "cwd"})
    bench = await start(frame_bytes=100_000)
    seen = (await first.end())["report"]["report"]["outcome"]["output"]
    directory = Path((await second.end())["report"]["report"]["outcome"]["output"])
    arguments = seen["argv"]
    assert arguments[1:4] == ["-I", "-S", "-B"]
    assert arguments[4] == str(bench.settings.bootstrap_file())
    options = dict(zip(arguments[5::2], arguments[6::2], strict=True))
    assert options["--handler"] == "program:handle"
    assert (options["--max-input-bytes"], options["--max-output-bytes"]) == ("100000", "100000")
    assert options["--protocol-version"] == "3"
    assert Path(options["--package-root"]).is_absolute()
    assert seen["pgid"] == seen["pid"]
    assert directory.name.startswith("ledgence-session-")
    assert exists(directory)
    await bench.stop()
    assert not exists(directory)


async def test_protocol_1_is_started_without_the_flag(coordinator: Any, start: Start, publish: Publish) -> None:
    """RUN-003."""
    attempt = coordinator.assign(publish(protocol=1), {"do": "environment"})
    await start()
    assert "--protocol-version" not in (await attempt.end())["report"]["report"]["outcome"]["output"]["argv"]


async def test_what_programs_write_is_bounded_and_never_blocks(
    coordinator: Any, start: Start, publish: Publish
) -> None:
    """RUN-105, RUN-107: 64 KiB for stderr and logs together; afterwards the pipes are still drained."""
    program = publish()
    attempt = coordinator.assign(program, {"do": "talk", "stderr": 1_000_000, "logs": 40})
    again = coordinator.assign(program, {"do": "talk", "stderr": 10, "logs": 1})
    bench = await start()
    assert (await attempt.end())["report"]["report"]["outcome"]["output"] == "done"
    assert (await again.end())["report"]["report"]["outcome"]["output"] == "done"
    await bench.stop()
    await bench.flushed()
    written = bench.output.getvalue()
    assert written.count(b"x") <= 64 * 1024 + 10
    assert b'"message":"line 0"' in written


async def test_an_event_above_the_frame_limit_is_not_sent(coordinator: Any, start: Start, publish: Publish) -> None:
    """RUN-030, WRK-063, WRK-065: started though nothing was written; the process is retired, the worker goes on."""
    program = publish()
    large = coordinator.assign(program, {"do": "echo", "value": "v" * 2_000})
    small = coordinator.assign(program, {"do": "echo", "value": 1})
    await start(frame_bytes=2_000)
    report = (await large.end())["report"]["report"]
    assert (report["error"]["kind"], report["phase"], report["execution_may_have_started"]) == (
        "invalid_input",
        "execution",
        True,
    )
    assert (await small.end())["report"]["report"]["reused_process"] is False


async def test_concurrency_is_used_and_never_exceeded(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-001, WRK-005: consumers 0 to N-1, each with its own sequence from 1."""
    program = publish("import time\ndef handle(event):\n    time.sleep(0.05)\n    return event['data']\n")
    attempts = [coordinator.assign(program, number) for number in range(12)]
    bench = await start(concurrency=3)
    outputs = [(await attempt.end())["report"]["report"]["outcome"]["output"] for attempt in attempts]
    assert outputs == list(range(12))
    await bench.stop()
    assert coordinator.seen("/v1/worker-sessions")[0]["concurrency"] == 3
    sequences: dict[int, list[int]] = {}
    for body in coordinator.seen("/v1/acquisitions"):
        sequences.setdefault(body["consumer_id"], []).append(body["sequence"])
    assert sorted(sequences) == [0, 1, 2]
    for sent in sequences.values():
        assert sorted(set(sent)) == list(range(1, max(sent) + 1))
    assert len({(await attempt.end())["report"]["report"]["process_id"] for attempt in attempts}) <= 3
