"""Processes, and stopping (chapter 22, Processes and Stopping; chapter 21, Launch)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from protocol3_conformance.roles.coordinator import ACQUISITIONS, RENEWALS, SETTLEMENTS, refusing, replying
from protocol3_conformance.scenarios.worker import worker_check
from protocol3_conformance.wire.strict_json import JsonValue
from protocol3_conformance.worker_lab import WorkerLab, alive, gone

PID = "import os\nreturn os.getpid()"


@worker_check(
    "worker-process/launch", cites=["RUN-001", "RUN-002", "RUN-003", "RUN-005", "RUN-006", "RUN-007", "RUN-008"]
)
async def test_launch(lab: WorkerLab) -> None:
    """Flags, arguments, working directory, process group and pipes of a program process are those of the contract."""
    worker = lab.worker()
    code = """
        import os, stat, sys
        pipe = stat.S_ISFIFO(os.fstat(2).st_mode)
        return [sys.orig_argv, os.getcwd(), os.getpgrp() == os.getpid(), pipe, __file__, dict(os.environ)]
    """
    attempt = await lab.task(code)
    await lab.coordinator.settled(attempt)
    argv, directory, leads, pipe, module, environment = attempt.report["outcome"]["output"]
    assert canonical(argv[0])
    assert argv[1:4] == ["-I", "-S", "-B"]
    assert argv[4].startswith("/")
    assert argv[4].endswith("ledgence/worker/bootstrap.py")
    given = dict(zip(argv[5::2], argv[6::2], strict=True))
    assert given["--handler"] == "program:handle"
    assert module == f"{given['--package-root']}/program.py"
    assert given["--max-input-bytes"] == given["--max-output-bytes"]
    assert (given["--protocol-version"], leads, pipe) == ("3", True, True)
    assert "/ledgence-session-" in directory
    assert not directory.startswith(given["--package-root"])
    assert environment_of(worker.pid).items() <= environment.items()
    plain = lab.publish("import sys\ndef handle(event): return sys.orig_argv\n", protocol=1)
    first = await lab.coordinator.assign(plain)
    assert "--protocol-version" not in (await lab.coordinator.settled(first))[1]
    await lab.stopped(worker)


def canonical(program: str) -> bool:
    """Whether the path of a program is no link; a bare name is looked up later."""
    return "/" not in program or os.path.realpath(program) == program


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with; nothing where the system does not tell."""
    told = Path(f"/proc/{pid}/environ")
    rows = told.read_bytes().decode(errors="surrogateescape").split("\0") if told.exists() else []
    return dict(row.split("=", 1) for row in rows if "=" in row)


@worker_check("worker-process/reuse", cites=["WRK-032", "WRK-033", "WRK-034", "WRK-035", "RUN-034"])
async def test_reuse(lab: WorkerLab) -> None:
    """A process that ended well is used again for its package; another package gets another process in its place."""
    worker = lab.worker()
    first, second = await lab.task(PID), await lab.task(PID)
    other = lab.publish("import os\ndef handle(event): return os.getpid()\n")
    third = await lab.coordinator.assign(other)
    for attempt in (first, second, third):
        assert (await lab.coordinator.settled(attempt))[0] == "success"
    pids = [attempt.report["outcome"]["output"] for attempt in (first, second, third)]
    assert pids == [attempt.report["process_id"] for attempt in (first, second, third)]
    assert [attempt.report["reused_process"] for attempt in (first, second, third)] == [False, True, False]
    assert pids[0] == pids[1] != pids[2]
    await gone(pids[0], lab.target.patience.progress)
    await lab.stopped(worker)
    assert not alive(pids[2])


@worker_check("worker-process/one-at-a-time", cites=["RUN-034"])
async def test_one_at_a_time(lab: WorkerLab) -> None:
    """A process that runs an invocation gets no other; the next one of its package has a process of its own."""
    worker = lab.worker(concurrency=2)
    await lab.coordinator.settled(await lab.task(PID))
    running = await lab.task(lab.sleeping("running", 1))
    busy = await lab.reached(worker, "running")
    told = await lab.coordinator.settled(await lab.task(PID))
    assert told[0] == "success"
    assert told[1] != busy
    assert (await lab.coordinator.settled(running))[0] == "success"
    await lab.stopped(worker)


@worker_check(
    "worker-process/kill-everything", cites=["WRK-038", "WRK-040", "WRK-041", "WRK-089", "WRK-091", "WRK-062"]
)
async def test_kill_everything(lab: WorkerLab) -> None:
    """A stop kills the group of a running program, reports it as cancelled, and removes its directory."""
    worker = lab.worker()
    note = f"pathlib.Path({str(lab.mark('child'))!r}).write_text(str(child.pid))"
    child = f"import subprocess, pathlib\nchild = subprocess.Popen(['sleep', '60'])\n{note}\n"
    folder = f"import os, pathlib\npathlib.Path({str(lab.folder / 'cwd')!r}).write_text(os.getcwd())\n"
    attempt = await lab.task(child + folder + lab.sleeping("main"))
    pids = [await lab.reached(worker, "main"), await lab.reached(worker, "child")]
    delivery = await lab.stopped(worker)
    assert attempt.told() == ("cancelled", "execution", True)
    assert attempt.settlements[0]["quiescence"] == "confirmed"
    assert (delivery["finished"], delivery["settled_attempts"]) == (True, 1)
    for pid in pids:
        await gone(pid, lab.target.patience.progress)
    assert not (lab.folder / (lab.folder / "cwd").read_text()).exists()


@worker_check("worker-process/orderly-retirement", cites=["WRK-042", "RUN-113", "WRK-091"])
async def test_orderly_retirement(lab: WorkerLab) -> None:
    """An idle process is asked to shut down: its callbacks run before the worker ends, which waits 2 s for them."""
    mark, late = lab.mark("bye"), lab.mark("late")
    source = f"""
        import pathlib
        from ledgence.worker import register_shutdown
        register_shutdown(lambda: pathlib.Path({str(mark)!r}).write_text("0x"))
        def handle(event): return 1
    """
    worker = lab.worker()
    await lab.coordinator.settled(await lab.coordinator.assign(lab.publish(source)))
    hanging = f"""
        import pathlib, time
        from ledgence.worker import register_shutdown
        def leave():
            time.sleep(0.5)
            pathlib.Path({str(late)!r}).write_text("0x")
            time.sleep(60)
        register_shutdown(leave)
        def handle(event): return 1
    """
    await lab.coordinator.settled(await lab.coordinator.assign(lab.publish(hanging)))
    assert mark.exists()
    await lab.stopped(worker)
    assert late.exists(), "the worker did not wait for what its process had begun"


@worker_check("worker-stop/waiting-poll", cites=["WRK-090", "WRK-089", "WRK-093"])
async def test_waiting_poll(lab: WorkerLab) -> None:
    """A waiting acquisition is cut short and reconciled with the same sequence and no wait."""
    for number, which in enumerate((signal.SIGTERM, signal.SIGINT)):
        with lab.case(which.name):
            before = len(lab.coordinator.sent(ACQUISITIONS))
            worker = lab.worker(cache=number)
            await lab.polling(before + 1)
            delivery = await lab.stopped(worker, which)
            waiting, reconciled = lab.coordinator.sent(ACQUISITIONS)[before:]
            assert (waiting["sequence"], waiting["wait_ms"]) == (1, 20_000)
            assert (reconciled["sequence"], reconciled.get("wait_ms", 0)) == (1, 0)
            assert (delivery["finished"], delivery["settled_attempts"]) == (True, 0)
            assert await worker.ended() == 0


@worker_check("worker-stop/assigned-meanwhile", cites=["WRK-052", "WRK-055", "WRK-090"])
async def test_assigned_meanwhile(lab: WorkerLab) -> None:
    """What the reconciliation brings is not run: it is reported as cancelled in admission."""
    worker = lab.worker()
    await lab.polling()
    attempt = lab.coordinator.prepare(lab.laboratory(), {"code": f"open({str(lab.mark('ran'))!r}, 'w')"})

    def assigned(command: JsonValue) -> JsonValue:
        lab.coordinator.give(command["consumer_id"], command["sequence"], attempt)
        return {"disposition": "assigned", "sequence": command["sequence"], "assignment": attempt.assignment}

    lab.coordinator.script(ACQUISITIONS, replying(assigned))
    delivery = await lab.stopped(worker)
    assert attempt.told() == ("cancelled", "admission", False)
    assert delivery["settled_attempts"] == 1
    assert {one["intent"] for one in lab.coordinator.sent(RENEWALS)} <= {"keep_alive"}
    assert not lab.mark("ran").exists()


@worker_check("worker-stop/second-signal", cites=["WRK-092", "WRK-089", "WRK-093"])
async def test_second_signal(lab: WorkerLab) -> None:
    """A first signal leaves no report behind; a second one ends the worker with unresolved work."""
    lab.coordinator.script(SETTLEMENTS, *refusing("unavailable", times=400))
    await lab.task("return 1")
    worker = lab.worker()
    await lab.coordinator.until("a settlement", lambda: lab.coordinator.sent(SETTLEMENTS))
    worker.signal(signal.SIGTERM)
    sent = len(lab.coordinator.sent(SETTLEMENTS))
    await lab.coordinator.until("more of them", lambda: len(lab.coordinator.sent(SETTLEMENTS)) > sent + 2)
    assert worker.alive
    delivery = await lab.stopped(worker)
    assert (delivery["finished"], delivery["settled_attempts"]) == (False, 0)
