"""What a worker writes to its program processes, and what it takes from them (chapter 21).

The program here is its own runtime: at import, before the helper reads anything, it speaks the frames itself and keeps
every line that it gets.
"""

from __future__ import annotations

from pathlib import Path

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.program import SCHEMA
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.scenarios.worker.test_outcomes import RAW
from protocol3_conformance.wire.frames import Frame, parsed, traceparent
from protocol3_conformance.wire.strict_json import same
from protocol3_conformance.worker_lab import WorkerLab, gone

SCRIPTED = """
import sys

def reading():
    for descriptor in range(256):
        try:
            readable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode) and readable:
                return descriptor
        except OSError:
            continue

SOURCE = reading()

def incoming():
    line = b""
    while not line.endswith(b"\\n"):
        byte = os.read(SOURCE, 1)
        if not byte:
            os._exit(0)
        line += byte
    with open(KEPT, "ab") as kept:
        kept.write(line)
    return json.loads(line)

def ask(event, number, operation, **payload):
    send(type="runtime_request", event_id=event["id"], attempt_id=event["ldgattemptid"], id=number,
         operation=operation, payload=payload)
    return incoming()

def activation(event):
    ask(event, 1, "local_step.commit", key="first", callable="program:step", input=None, output=1.0)
    branches = [{"key": key, "entrypoint": "e", "queue": "main", "data": None} for key in ("right", "left")]
    ask(event, 2, "workflow.fork", key="split", branches=branches)
    return {"v": 1, "activation_id": event["ldgactivationid"], "revision": 0, "kind": "complete", "output": None}

send(type="ready", pid=os.getpid(), python_version="%d.%d" % sys.version_info[:2])
while True:
    frame = incoming()
    if frame["type"] == "shutdown":
        send(type="closing")
        os._exit(0)
    event = frame["event"]
    result(event, status="success", output=activation(event) if "extension" in frame else None)
"""


def scripted(kept: Path) -> str:
    """The module, which writes the lines that it gets into this file."""
    return f"{RAW}\nKEPT = {str(kept)!r}\n{SCRIPTED}"


def lines(kept: Path) -> list[Frame]:
    """The frames of the file, each one line of compact JSON within the limit."""
    return [parsed(line, bound("FRAME_BYTES")) for line in kept.read_bytes().splitlines(keepends=True)]


@worker_check(
    "worker-frames/exact-members",
    cites=[
        "RUN-021",
        "RUN-022",
        "RUN-036",
        "RUN-037",
        "RUN-039",
        "RUN-040",
        "RUN-077",
        "RUN-109",
        "RUN-114",
    ],
    profile="core forks",
)
async def test_exact_members(lab: WorkerLab) -> None:
    """Every frame to a process is compact, with exactly its members; replies repeat the identities and the id."""
    worker, kept = lab.worker(), lab.folder / "kept"
    program = lab.publish(scripted(kept))
    trace = {"traceparent": traceparent(), "tracestate": "vendor=1", "custom": True}
    task = await lab.coordinator.assign(program, {"n": [1, 1.0, None]}, event=trace)
    assert await lab.coordinator.settled(task) == ("success", None)
    activation = await lab.coordinator.activate(program, {"é": 1e-7, "beyond a pipe": "x" * 100_000})
    assert (await lab.coordinator.settled(activation))[0] == "success"
    first = lab.folder / "first"
    old = lab.publish(scripted(first).replace('"v": 3', '"v": 1'), protocol=1)
    assert await lab.coordinator.settled(await lab.coordinator.assign(old)) == ("success", None)
    await lab.stopped(worker)
    found = lines(kept)
    assert [frame["type"] for frame in found] == ["invoke", "invoke", "runtime_reply", "runtime_reply", "shutdown"]
    for frame, attempt in zip(found[:2], (task, activation), strict=True):
        event = attempt.assignment["event"]
        assert same(frame.pop("event"), event)
        assert set(frame.pop("processing_context") or {}) <= {"traceparent", "tracestate"}
        extension = frame.pop("extension", None)
        assert same(extension, attempt.context and {"schema": SCHEMA, "payload": attempt.context})
        identity = {"event_id": event["id"], "attempt_id": event["ldgattemptid"]}
        assert same(frame, {"v": 3, "type": "invoke", "observe": True, **identity})
    results: list[Frame] = [
        {"committed": True},
        {"committed": True, "key": "split", "branch_keys": ["right", "left"]},
    ]
    for number, result in enumerate(results, start=1):
        reply = {"v": 3, "type": "runtime_reply", **identity, "id": number, "result": result}
        assert same(found[number + 1], reply)
    assert same(found[-1], {"v": 3, "type": "shutdown"})
    earlier = lines(first)
    assert [frame["type"] for frame in earlier] == ["invoke", "shutdown"]
    assert set(earlier[0]) == {"v", "type", "event_id", "attempt_id", "event", "observe"}


@worker_check("worker-frames/too-long", cites=["RUN-030", "WRK-063", "WRK-065", "WRK-036"])
async def test_too_long(lab: WorkerLab) -> None:
    """An invocation above the frame limit is not written: `invalid_input`, as if started, and the process retired."""
    worker, kept = lab.worker(), lab.folder / "kept"
    program = lab.publish(scripted(kept))
    large = await lab.coordinator.assign(program, "x" * bound("FRAME_BYTES"))
    assert await lab.coordinator.settled(large) == ("invalid_input", "execution", True)
    assert not kept.exists()
    small = await lab.coordinator.assign(program)
    assert await lab.coordinator.settled(small) == ("success", None)
    assert small.report["reused_process"] is False
    await lab.stopped(worker)


@worker_check("worker-frames/too-deep-a-context", cites=["RUN-066", "WRK-079"])
async def test_too_deep_a_context(lab: WorkerLab) -> None:
    """A context that is nested too deep never becomes an extension: `protocol`, and no process hears of it."""
    worker, kept = lab.worker(), lab.folder / "kept"
    program = lab.publish(scripted(kept))
    deep: object = None
    for _ in range(bound("RUNTIME_DEPTH") + 1):
        deep = [deep]
    attempt = await lab.coordinator.activate(program, state=deep)
    assert await lab.coordinator.settled(attempt) == ("protocol", "admission", False)
    assert not kept.exists()
    await lab.stopped(worker)


IDLE = """
import threading, time
def close_all():
    for descriptor in range(1, 256):
        try:
            descriptor == 2 or os.close(descriptor)
        except OSError:
            pass
def later():
    while not os.path.exists(GO):
        time.sleep(0.01)
    WHAT
    time.sleep(60)
def handle(event):
    if not os.path.exists(GO):  # the process that takes its place does no such thing
        threading.Thread(target=later, daemon=True).start()
    return os.getpid()
"""


@worker_check("worker-frames/while-idle", cites=["WRK-037", "WRK-036", "RUN-105"])
async def test_while_idle(lab: WorkerLab) -> None:
    """An idle process that writes anything but a log, or ends its stream, is retired; a log changes nothing."""
    worker = lab.worker()
    for name, what in (
        ("no JSON", "raw(b'hello\\n')"),
        ("a result", "send(type='result', event_id='e', attempt_id='a', status='success', output=1)"),
        ("another ready", "send(type='ready', pid=os.getpid(), python_version='3.11')"),
        ("the end of the stream", "close_all()"),
    ):
        with lab.case(name):
            go = lab.folder / f"go {name}"
            program = lab.publish(RAW + IDLE.replace("GO", repr(str(go))).replace("WHAT", what))
            first = await lab.coordinator.assign(program)
            _, pid = await lab.coordinator.settled(first)
            go.touch()
            await gone(pid, lab.target.patience.progress)
            second = await lab.coordinator.assign(program)
            assert (await lab.coordinator.settled(second))[0] == "success"
            assert second.report["reused_process"] is False
    with lab.case("a log"):
        go, told = lab.folder / "go log", lab.mark("told")
        texts = "time='2026-03-01T12:00:01+00:00', severity='INFO', logger='l', message='m'"
        what = f"send(type='log', {texts}, attributes={{}}); open({str(told)!r}, 'w')"
        program = lab.publish(RAW + IDLE.replace("GO", repr(str(go))).replace("WHAT", what))
        await lab.coordinator.settled(await lab.coordinator.assign(program))
        go.touch()
        await worker.until("the log", told.exists)
        second = await lab.coordinator.assign(program)
        assert (await lab.coordinator.settled(second))[0] == "success"
        assert second.report["reused_process"] is True
    await lab.stopped(worker)


@worker_check("worker-frames/half-a-result", cites=["WRK-039", "WRK-062", "WRK-038"])
async def test_half_a_result(lab: WorkerLab) -> None:
    """A result whose line is not complete at the deadline is no result: the attempt is `timed_out`."""
    half = """raw(json.dumps({"v": 3, "type": "result", "event_id": event["id"], "attempt_id": event["ldgattemptid"],
        "status": "success", "output": 1}).encode())"""
    attempt = lab.coordinator.prepare(lab.laboratory(), {"code": f"{RAW}\n{half}\nimport time\ntime.sleep(60)"})
    attempt.execution_ms = bound("SAFETY_MARGIN_MS") + 1500
    worker = lab.worker()
    await lab.coordinator.settled(await lab.task("return 0"))  # so that a warm process is there
    await lab.coordinator.offer(attempt)
    assert await lab.coordinator.settled(attempt) == ("timed_out", "execution", True)
    after = await lab.task("return 1")
    await lab.coordinator.settled(after)
    assert after.report["reused_process"] is False
    await lab.stopped(worker)
