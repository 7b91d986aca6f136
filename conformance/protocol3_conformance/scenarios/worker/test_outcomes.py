"""From what becomes of an attempt to its report, and settlement (chapter 22, Outcomes and reports)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.publication import host
from protocol3_conformance.roles.coordinator import ACQUISITIONS, SETTLEMENTS, losing, refusing, replying, sending
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.wire.strict_json import JsonValue, same
from protocol3_conformance.worker_lab import WorkerLab

RAW = """
import fcntl, json, os, stat
def raw(line):
    mine = os.fstat(2)
    for descriptor in range(3, 256):
        try:
            found = os.fstat(descriptor)
            writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        except OSError:
            continue
        if stat.S_ISFIFO(found.st_mode) and writable and found.st_ino != mine.st_ino:
            os.write(descriptor, line)
            return
def send(**frame):
    raw(json.dumps({"v": 3, **frame}).encode() + b"\\n")
def result(event, **frame):
    send(**{"type": "result", "event_id": event["id"], "attempt_id": event["ldgattemptid"], **frame})
"""
"""Lets a handler write on the pipe of the frames, whatever its descriptor is: programs can break every rule."""


@worker_check(
    "worker-outcome/results", cites=["WRK-035", "WRK-050", "WRK-051", "WRK-069", "WRK-070", "RUN-083", "RUN-040"]
)
async def test_results(lab: WorkerLab) -> None:
    """A value is a completed success, a failure of the program a completed failure with its kind and message."""
    worker = lab.worker()
    value = {"é": [1, 1.0, True, None, 2**64 - 1, -0.0, 1e-7]}
    attempt = await lab.task("return data", value)
    await lab.coordinator.settled(attempt)
    assert same(attempt.report["outcome"], {"status": "success", "output": value})
    assert attempt.report["reused_process"] is False
    assert (attempt.settlements[0]["operation_id"], attempt.settlements[0]["quiescence"]) == (
        "worker-result-v1",
        "confirmed",
    )
    assert "processing_trace" not in attempt.settlements[0]
    assert set(attempt.report["observations"]) >= {"runtime_started_at_ms", "local_steps"}
    for code, kind, message in (
        ("raise ValueError('no')", "business_error", "no"),
        ("return {1}", "invalid_output", None),
    ):
        with lab.case(code):
            attempt = await lab.task(code)
            assert await lab.coordinator.settled(attempt) == ("failure", kind)
            assert message in (None, attempt.report["outcome"]["message"])
            assert attempt.report["reused_process"] is True
    event = await lab.task("return event")
    await lab.coordinator.settled(event)
    assert same(event.report["outcome"]["output"], event.assignment["event"])
    await lab.stopped(worker)


@worker_check(
    "worker-outcome/preparation",
    cites=["WRK-048", "WRK-049", "WRK-056", "WRK-064", "RUN-067", "PKG-012", "PKG-004", "PKG-006", "PKG-038"],
)
async def test_preparation(lab: WorkerLab) -> None:
    """A package that is missing, damaged, over its size or for another platform fails in preparation, not started."""
    worker = lab.worker()
    source = "def handle(event): return 1\n"
    other = "macos" if host()["os"] == "linux" else "linux"

    async def ends(descriptor: dict[str, Any], kind: str) -> None:
        attempt = await lab.coordinator.assign(descriptor)
        assert await lab.coordinator.settled(attempt) == (kind, "preparation", False)

    missing, damaged, longer, named = (lab.publish(f"{source}#{name}") for name in "mdln")
    lab.blob(missing).unlink()
    content = lab.blob(damaged).read_bytes()
    lab.blob(damaged).write_bytes(content[:-1] + b"x")
    lab.blob(longer).write_bytes(lab.blob(longer).read_bytes() + b"x")
    misnamed = {**named, "digest": f"sha256:{'ab' * 32}"}
    lab.blob(misnamed).write_bytes(lab.blob(named).read_bytes())
    arch = "aarch64" if host()["arch"] == "x86_64" else "x86_64"
    for name, descriptor, kind in (
        ("missing", missing, "not_found"),
        ("damaged", damaged, "integrity"),
        ("over its size", longer, "invalid_input"),
        ("another digest", misnamed, "integrity"),
        ("another version in its manifest", {**named, "program": {**named["program"], "version": "2"}}, "integrity"),
        ("another machine", lab.publish(source, platform={**host(), "arch": arch}), "incompatible"),
        ("another program in its manifest", {**named, "program": {"id": "other", "version": "1.0.0"}}, "integrity"),
        ("another platform", lab.publish(source, platform={**host(), "os": other}), "incompatible"),
        (
            "an unknown protocol",
            lab.publish(source, runtime={"kind": "python", "python": "3.11", "protocol": 9}),
            "incompatible",
        ),
    ):
        with lab.case(name):
            await ends(descriptor, kind)
    with lab.case("an activation of a task program"):
        attempt = await lab.coordinator.activate(lab.publish(source + "#2", protocol=2))
        assert await lab.coordinator.settled(attempt) == ("incompatible", "preparation", False)
    await lab.stopped(worker)


@worker_check("worker-outcome/cache", cites=["WRK-045", "PKG-075", "WRK-013"])
async def test_cache(lab: WorkerLab) -> None:
    """A package in the cache needs no store; a damaged entry is `integrity`, never a new download."""
    worker = lab.worker()
    descriptor = lab.publish("def handle(event):\n    raise SystemExit(1)\n")
    (lab.store / "programs" / descriptor["program"]["id"] / "1.0.0" / "descriptor.json").unlink()
    assert (await lab.coordinator.settled(await lab.coordinator.assign(descriptor)))[0] == "runtime"
    blob = lab.blob(descriptor).read_bytes()
    lab.blob(descriptor).unlink()
    assert (await lab.coordinator.settled(await lab.coordinator.assign(descriptor)))[0] == "runtime"
    lab.blob(descriptor).write_bytes(blob)
    [module] = [path for path in lab.cache().rglob("program.py") if descriptor["digest"][7:] in str(path)]
    module.chmod(0o644)
    module.write_text("def handle(event): return 'changed'\n")
    attempt = await lab.coordinator.assign(descriptor)
    assert await lab.coordinator.settled(attempt) == ("integrity", "preparation", False)
    await lab.stopped(worker)


@worker_check("worker-outcome/startup", cites=["WRK-057", "RUN-031", "RUN-032", "RUN-028", "WRK-036"])
async def test_startup(lab: WorkerLab) -> None:
    """A process that ends before `ready`, or says something else, fails in start-up; the handler is not called."""
    worker = lab.worker()
    handler = "\ndef handle(event): return 'called'\n"
    version = "'%d.%d' % sys.version_info[:2]"
    ready = f"import os, sys\nsend(type='ready', **({{'pid': os.getpid(), 'python_version': {version}}} | CHANGE))"
    for name, source, kind in (
        ("exit", "raise SystemExit(3)", "runtime"),
        ("no handler", "x = 1", "runtime"),
        ("no JSON", RAW + "raw(b'hello\\n')" + handler, "protocol"),
        ("a result first", RAW + "send(type='result', status='success', output=1)" + handler, "protocol"),
        ("another pid", RAW + ready.replace("CHANGE", "{'pid': 1}") + handler, "protocol"),
        ("another Python", RAW + ready.replace("CHANGE", "{'python_version': '3.1'}") + handler, "protocol"),
        ("another version", RAW + ready.replace("CHANGE", "{'v': 1}") + handler, "protocol"),
        ("an extra member", RAW + ready.replace("CHANGE", "{'extra': 1}") + handler, "protocol"),
        ("a number too large", RAW + ready.replace("CHANGE", "{'pid': 2**64}") + handler, "protocol"),
    ):
        with lab.case(name):
            attempt = await lab.coordinator.assign(lab.publish(source))
            assert await lab.coordinator.settled(attempt) == (kind, "startup", False)
    await lab.stopped(worker)


@worker_check("worker-outcome/silent-start", cites=["RUN-033", "WRK-057", "WRK-058"], slow=True)
async def test_silent_start(lab: WorkerLab) -> None:
    """`ready` must come within 10 s, and before the invocation's own deadline."""
    worker = lab.worker(concurrency=2)
    silent = lab.publish("import time\ntime.sleep(40)\ndef handle(event): return 1\n")
    attempt = await lab.coordinator.assign(silent)
    short = lab.coordinator.prepare(silent)
    short.execution_ms = bound("SAFETY_MARGIN_MS") + 1500
    await lab.coordinator.offer(short)
    for one in (short, attempt):
        assert await lab.coordinator.settled(one, 40) == ("timed_out", "startup", False)
    await lab.stopped(worker)


@worker_check("worker-outcome/execution-ends", cites=["WRK-059", "WRK-065", "WRK-036", "WRK-070", "RUN-029", "RUN-117"])
async def test_execution_ends(lab: WorkerLab) -> None:
    """A process that exits, crashes or closes its stream is `runtime`, started, whatever its exit code."""
    worker = lab.worker()
    closing = "for n in range(1, 256):\n    try: n == 2 or os.close(n)\n    except OSError: pass"
    close = f"import os, time\n{closing}\ntime.sleep(60)"
    for code in ("import os\nos._exit(0)", "raise SystemExit(7)", "import os\nos.kill(os.getpid(), 9)", close):
        with lab.case(code):
            attempt = await lab.task(code)
            assert await lab.coordinator.settled(attempt) == ("runtime", "execution", True)
            assert attempt.settlements[0]["quiescence"] == "confirmed"
    after = await lab.task("return 1")
    await lab.coordinator.settled(after)
    assert after.report["reused_process"] is False
    await lab.stopped(worker)


BROKEN = {
    "no JSON": "raw(b'{\\n')",
    "an empty line": "raw(b'\\n')",
    "too long": "[raw(b' ' * 60000) for _ in range(40)]",
    "another attempt": "result(event, attempt_id='other', status='success', output=1)",
    "another event": "result(event, event_id='other', status='success', output=1)",
    "another version": "result(event, v=2, status='success', output=1)",
    "unknown status": "result(event, status='fine', output=1)",
    "no output": "result(event, status='success')",
    "error without kind": "result(event, status='error', error={'message': 'm'})",
    "error with empty kind": "result(event, status='error', error={'kind': '', 'message': 'm'})",
    "runtime_error of a task": "result(event, status='runtime_error', error={'kind': 'k', 'message': 'm'})",
    "output too deep": "result(event, status='success', output=nested(65))",
    "number too large": "result(event, status='success', output=2**64)",
    "unexpected request": "send(type='runtime_request', event_id=event['id'], attempt_id=event['ldgattemptid'], id=1,"
    " operation='local_step.commit', payload={'key': 'k', 'callable': 'c', 'input': None, 'output': None})",
}


@worker_check(
    "worker-outcome/broken-frames",
    cites=["WRK-061", "RUN-028", "RUN-074", "RUN-081", "RUN-082", "RUN-083", "RUN-084", "RUN-085", "WRK-043"],
)
async def test_broken_frames(lab: WorkerLab) -> None:
    """A frame that breaks the protocol is `protocol`, started; the process is retired, the program not run again."""
    worker = lab.worker()
    for name, code in BROKEN.items():
        with lab.case(name):
            attempt = await lab.task(f"{RAW}\n{code}\nimport time\ntime.sleep(60)")
            assert await lab.coordinator.settled(attempt) == ("protocol", "execution", True)
            assert len(attempt.settlements) == 1
    after = await lab.task("return 1")
    await lab.coordinator.settled(after)
    assert after.report["reused_process"] is False
    await lab.stopped(worker)


@worker_check("worker-outcome/tolerated-frames", cites=["RUN-081", "RUN-094", "RUN-105", "RUN-106", "RUN-107"])
async def test_tolerated_frames(lab: WorkerLab) -> None:
    """Extra members of a result, bad observations and bad logs are no error, nor is a flood on standard error."""
    worker = lab.worker()
    for name, more in (("extra member", "future=1"), ("bad observations", "observations={'local_steps': 7}")):
        with lab.case(name):
            code = f"    result(event, status='success', output=1, {more})\n    import time\n    time.sleep(60)\n"
            attempt = await lab.coordinator.assign(lab.publish(f"{RAW}\ndef handle(event):\n{code}"))
            assert await lab.coordinator.settled(attempt) == ("success", 1)
            assert "observations" not in attempt.report
    logs = (
        "{}",
        "{'v': 2}",
        "{'time': 'x'}",
        "{'extra': 1}",
        "{'attributes': []}",
        "{'trace_id': 'a' * 32}",
        "{'message': 'x' * 20000}",
    )
    rows = "\n".join(
        "send(**({'type': 'log', 'time': '2026-03-01T12:00:01+00:00', 'severity': 'INFO', 'logger': 'l',"
        f" 'message': 'm', 'attributes': {{}}}} | {change}))"
        for change in logs
    )
    for name, code in (
        ("logs", rows + "\nreturn 1"),
        ("many logs", f"for _ in range(200):\n{textwrap_indent(rows)}\nreturn 1"),
        ("standard error", "import os\n[os.write(2, b'x' * 60000) for _ in range(40)]\nreturn 1"),
    ):
        with lab.case(name):
            attempt = await lab.task(f"{RAW}\n{code}")
            assert await lab.coordinator.settled(attempt) == ("success", 1)
    await lab.stopped(worker)


def textwrap_indent(rows: str) -> str:
    return "\n".join(f"    {row}" for row in rows.splitlines())


@worker_check("worker-settlement/repeated", cites=["WRK-073", "WRK-074", "DLV-208"])
async def test_settlement_repeated(lab: WorkerLab) -> None:
    """A settlement without a matching receipt is repeated byte by byte; `already_accepted` ends it."""
    worker = lab.worker()

    async def taken_but_lost(command: JsonValue) -> Any:
        await lab.coordinator.ordinary(SETTLEMENTS, command)
        return await losing(command)

    lab.coordinator.script(
        SETTLEMENTS, losing, *refusing("unavailable"), *refusing("busy"), sending(200, b"[]"), taken_but_lost
    )
    attempt = await lab.task("return 1")
    await lab.coordinator.until("the repetition", lambda: len(attempt.settlements) == 2)
    assert len(set(lab.coordinator.bodies(SETTLEMENTS))) == 1
    delivery = await lab.stopped(worker)
    assert delivery["settled_attempts"] == 1


@worker_check("worker-settlement/lost", cites=["WRK-074", "WRK-093"])
async def test_settlement_lost(lab: WorkerLab) -> None:
    """A settlement that is refused as `ownership_lost` is resolved, and the worker goes on."""
    worker = lab.worker()
    lab.coordinator.script(SETTLEMENTS, *refusing("ownership_lost"))
    await lab.task("return 1")
    after = await lab.task("return 2")
    assert await lab.coordinator.settled(after) == ("success", 2)
    delivery = await lab.stopped(worker)
    assert (delivery["settled_attempts"], delivery["lost_attempts"]) == (1, 1)


@worker_check("worker-settlement/another-receipt", cites=["WRK-075", "WRK-074"])
async def test_another_receipt(lab: WorkerLab) -> None:
    """A receipt of something else, or a definite refusal, ends admission; the report keeps the worker from its end."""
    for number, case in enumerate(("operation_id", "task_id", "attempt_id", "conflict")):
        with lab.case(case):

            def wrong(command: JsonValue, case: str = case) -> JsonValue:
                attempt = lab.coordinator.attempts[command["owner"]["attempt_id"]]
                given = lab.coordinator.accept(attempt, command)
                return {**given, "receipt": {**given["receipt"], case: "other"}}

            answers = refusing("conflict", times=200) if case == "conflict" else [replying(wrong)] * 200
            lab.coordinator.script(SETTLEMENTS, *answers)
            before = len(lab.coordinator.sent(ACQUISITIONS))
            worker = lab.worker(concurrency=2, cache=number)
            await lab.polling(before + 2)
            attempt = await lab.task("return 1")
            await lab.polling(before + 3)
            *_, last = sent = lab.coordinator.sent(ACQUISITIONS)[before:]
            assert [one["sequence"] for one in sent] == [1, 1, 1]
            assert (last["consumer_id"], last.get("wait_ms", 0)) == (1 - attempt.owner["consumer_id"], 0)
            assert worker.alive
            worker.kill()
            lab.coordinator.unscript()
