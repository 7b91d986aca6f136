"""Programs that break the frame protocol: every child is a script of the test (RUN-021…034, 073…085)."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]

SECOND_TIME_FINE = """\
def once(frame):
    if frame["event_id"] == "evt_1":
        %s
    else:
        fine(frame)
serve(once)
"""


def ended(report: dict[str, Any]) -> tuple[str, str, bool]:
    return report["error"]["kind"], report["phase"], report["execution_may_have_started"]


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("sys.exit(70)", "runtime"),
        ("os.fork() or time.sleep(600); os._exit(70)", "runtime"),
        ("out.close(); os.close(1); time.sleep(600)", "runtime"),
        ("time.sleep(600)", "timed_out"),
        ("raw(b'hello\\n')", "protocol"),
        ("raw(b'\\n')", "protocol"),
        ("ready(pid=1)", "protocol"),
        ("ready(python_version='3.1')", "protocol"),
        ("ready(v=1)", "protocol"),
        ("ready(extra=1)", "protocol"),
        ("raw(b' ' * LIMIT)", "protocol"),
        ("serve", "protocol"),
    ],
)
async def test_a_start_that_fails(
    coordinator: Any, scripted: Start, publish: Publish, quick: Any, script: str, kind: str
) -> None:
    """RUN-031…033, WRK-057: the handler is never called, and nothing of the child stays."""
    if script == "serve":
        script = "send(type='result', status='success', output=1); time.sleep(600)"
    attempt = coordinator.assign(publish(script))
    bench = await scripted(pacing=quick(startup_ms=1_000 if kind == "timed_out" else 10_000), frame_bytes=4_096)
    command = await attempt.end()
    assert ended(attempt.report) == (kind, "startup", False)
    assert command["quiescence"] == "confirmed"
    assert bench.worker._pool.occupied == 0


async def test_a_deadline_during_the_start(coordinator: Any, scripted: Start, publish: Publish, quick: Any) -> None:
    """RUN-033, WRK-058."""
    coordinator.execution_ms = 5_300
    attempt = coordinator.assign(publish("time.sleep(600)"))
    await scripted(pacing=quick(startup_ms=60_000))
    await attempt.end()
    assert ended(attempt.report) == ("timed_out", "startup", False)


async def test_an_interpreter_that_cannot_be_started(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path
) -> None:
    """WRK-057."""
    broken = tmp_path / "python"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    attempt = coordinator.assign(publish())
    bench = await start(python=str(broken))
    await attempt.end()
    assert ended(attempt.report) == ("runtime", "startup", False)
    assert bench.worker._pool.occupied == 0


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("raw(b'{\\n')", "protocol"),
        ("raw(b'x' * LIMIT + b'\\n')", "protocol"),
        ("result(frame, status='success')", "protocol"),
        ("result(frame, status='odd', output=1)", "protocol"),
        ("result(frame, status='success', output=1, event_id='other')", "protocol"),
        ("result(frame, status='success', output=1, v=2)", "protocol"),
        ("result(frame, status='runtime_error', error={'kind': 'k', 'message': 'm'})", "protocol"),
        ("request(frame)", "protocol"),
        ("ready()", "protocol"),
        ('raw(b\'{"v":3,"n":18446744073709551616}\\n\')', "protocol"),
        ("os._exit(0)", "runtime"),
        ("os._exit(70)", "runtime"),
        ("raw(b'{\"v\":3'); os._exit(0)", "runtime"),
        ("os.fork() or time.sleep(600); os._exit(3)", "runtime"),
    ],
)
async def test_an_execution_that_breaks_the_protocol(
    coordinator: Any, scripted: Start, publish: Publish, script: str, kind: str
) -> None:
    """RUN-021, RUN-028, RUN-029, RUN-074, RUN-081…085, WRK-036, WRK-059, WRK-061: retired, reported, replaced.

    RUN-117: whatever the exit code.
    """
    program = publish(SECOND_TIME_FINE % script)
    attempt, after = coordinator.assign(program), coordinator.assign(program)
    await scripted(frame_bytes=8_192)
    command = await attempt.end()
    assert ended(attempt.report) == (kind, "execution", True)
    assert command["quiescence"] == "confirmed"
    assert (await after.end())["report"]["report"]["reused_process"] is False


@pytest.mark.parametrize(
    "script",
    [
        "request(frame, id=2)",
        "request(frame, id=0)",
        "request(frame, id=True)",
        "request(frame, id=1.0)",
        "request(frame, extra=1)",
        "request(frame, operation='local_step.delete')",
        "request(frame, operation='')",
        "request(frame, payload={'key': 'k', 'callable': 'c', 'input': None})",
        "request(frame, payload={'key': 'k', 'callable': 'c', 'input': None, 'output': None, 'owner': {}})",
        "request(frame, payload={'key': '', 'callable': 'c', 'input': None, 'output': None})",
        "request(frame, operation='workflow.fork', payload={'key': 'k', 'branches': []})",
        "request(frame, operation='workflow.fork', payload={'key': 'k', 'branches': [], 'processing_trace': None})",
        "request(frame, operation='workflow.fork', payload={'key': 'k', 'branches': ["
        "{'key': 'b', 'entrypoint': 'e', 'queue': 'q'}]})",
        "request(frame, attempt_id='other')",
        "request(frame); read(); request(frame)",
    ],
)
async def test_requests_that_break_the_protocol(
    coordinator: Any, scripted: Start, publish: Publish, script: str
) -> None:
    """RUN-071, RUN-073, WRK-081, WRK-082, WRK-086: no effect is performed; nothing is acknowledged."""
    program = publish(SECOND_TIME_FINE % script)
    attempt = coordinator.activate(program)
    await scripted()
    await attempt.end()
    assert ended(attempt.report) == ("protocol", "execution", True)
    assert len(coordinator.seen("/v1/workflows/local-results")) == (1 if "read()" in script else 0)
    assert not coordinator.seen("/v1/workflows/forks")


async def test_replies_carry_identity_and_id(coordinator: Any, scripted: Start, publish: Publish) -> None:
    """RUN-036, RUN-071, RUN-077."""
    script = """
def handle(frame):
    replies = []
    for number, key in ((1, "a"), (2, "b")):
        request(frame, id=number, payload={"key": key, "callable": "c", "input": None, "output": None})
        replies.append(read())
    result(frame, status="success", output=[frame, *replies])
serve(handle)
"""
    attempt = coordinator.activate(publish(script))
    await scripted()
    invoke, *replies = (await attempt.end())["report"]["report"]["outcome"]["output"]
    identity = {"v": 3, "event_id": "evt_1", "attempt_id": "att_1"}
    assert replies == [
        {**identity, "type": "runtime_reply", "id": number, "result": {"committed": True}} for number in (1, 2)
    ]
    assert invoke["extension"] == {
        "schema": "ledgence.workflow.activation.v1",
        "payload": coordinator.contexts["task_1"],
    }
    assert (invoke["observe"], invoke["processing_context"]) == (True, None)


@pytest.mark.parametrize(
    "script", ["raw(b'x\\n')", "ready()", "result(frame, status='success', output=1)", "os._exit(0)"]
)
async def test_an_idle_process_that_breaks_the_protocol_is_retired(
    coordinator: Any, scripted: Start, publish: Publish, script: str
) -> None:
    """WRK-037: what it says after its result concerns nobody but itself."""
    program = publish(f"def handle(frame):\n    fine(frame)\n    {script}\nserve(handle)\n")
    first = coordinator.assign(program)
    bench = await scripted()
    assert (await first.end())["report"]["kind"] == "completed"
    await bench.until(lambda: bench.worker._pool.occupied == 0)


async def test_log_frames_are_accepted_at_any_time(coordinator: Any, scripted: Start, publish: Publish) -> None:
    """RUN-105, RUN-106, RUN-113: before ready, while running, while idle, before closing; invalid ones are dropped."""
    script = """
def log(message, **changes):
    send(**{"type": "log", "time": "2026-01-01T00:00:00+00:00", "severity": "INFO", "logger": "l",
            "message": message, "attributes": {}, **changes})
log("early")
def handle(frame):
    for number in range(40):
        log("running")
    log("dropped", attributes=None)
    fine(frame)
    log("idle")
ready()
while True:
    frame = read()
    if frame["type"] == "shutdown":
        log("closing")
        send(type="closing")
        read()
    handle(frame)
"""
    program = publish(script)
    attempts = [coordinator.assign(program), coordinator.assign(program)]
    bench = await scripted()
    reports = [(await attempt.end())["report"]["report"] for attempt in attempts]
    assert reports[0]["outcome"] == reports[1]["outcome"]
    await bench.until(lambda: b"idle" in bench.output.getvalue())
    await bench.stop()
    await bench.flushed()
    written = bench.output.getvalue()
    assert {word: word.encode() in written for word in ("early", "running", "idle", "closing", "dropped")} == {
        "early": True, "running": True, "idle": True, "closing": True, "dropped": False,
    }  # fmt: skip


async def test_a_flood_of_logs_does_not_hide_a_stop(
    coordinator: Any, scripted: Start, publish: Publish, quick: Any, tmp_path: Path
) -> None:
    """RUN-105, WRK-030."""
    script = f"""
def handle(frame):
    open({str(tmp_path / "mark")!r}, "w").close()
    while True:
        send(type="log", time="2026-01-01T00:00:00+00:00", severity="I", logger="l", message="m", attributes={{}})
serve(handle)
"""
    attempt = coordinator.assign(publish(script))
    bench = await scripted(pacing=quick(renew_interval_ms=20))
    await bench.until(lambda: mark_exists(tmp_path))
    coordinator.cancelled.add("att_1")
    await attempt.end()
    assert ended(attempt.report) == ("cancelled", "execution", True)


def mark_exists(directory: Path) -> bool:
    return (directory / "mark").exists()


async def test_a_child_that_ignores_shutdown_is_killed(
    coordinator: Any, scripted: Start, publish: Publish, quick: Any
) -> None:
    """WRK-042, RUN-113."""
    attempt = coordinator.assign(publish("ready()\nfine(read())\nread()\ntime.sleep(600)\n"))
    bench = await scripted(pacing=quick(shutdown_ms=50))
    await attempt.end()
    assert (await bench.stop()).finished
    assert bench.worker._pool.occupied == 0
