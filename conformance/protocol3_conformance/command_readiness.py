"""Do the commands start something that can be judged? One start and one trivial task for each role with a command.

Without it every check would wait for a process that never speaks.
"""

from __future__ import annotations

import shlex
from contextlib import suppress

from protocol3_conformance.commands import RuntimeCommand, WorkerCommand
from protocol3_conformance.readiness import Foreign, Unusable
from protocol3_conformance.roles.coordinator import ACQUISITIONS, SESSIONS
from protocol3_conformance.runtime_lab import RuntimeLab
from protocol3_conformance.target import Target
from protocol3_conformance.wire.faults import TransportFault, Violation
from protocol3_conformance.wire.pipes import Process
from protocol3_conformance.worker_lab import WorkerLab

ONE_LINE = "def handle(event): return 1\n"
RUNTIME, WORKER = "--runtime-command", "--worker-command"


async def command_readiness(target: Target) -> None:
    """Start once what the target's commands start. Raises Unusable or Foreign."""
    if target.runtime:
        await _runtime(target, target.runtime)
    if target.worker:
        await _worker(target, target.worker)


async def _runtime(target: Target, command: RuntimeCommand) -> None:
    async with RuntimeLab.open(target, "readiness/runtime") as lab:
        try:
            program = lab.start(ONE_LINE)
        except OSError as error:
            raise Unusable(_cannot_start(RUNTIME, command.words[0], error)) from None
        process = program.process
        try:
            await program.ready()
            result = await program.invoke()
        except (Violation, TransportFault) as fault:
            if isinstance(fault, Violation):  # at the end of the stream the exit code comes a moment later
                with suppress(TransportFault):
                    await process.ended()
            if not (program.transcript.received or process.written()):
                raise Unusable(_silent_program(process, command, target.patience.progress)) from None
            raise Foreign(_foreign(RUNTIME, fault, program.transcript.render())) from None
        if result.get("status") != "success":
            raise Foreign(
                f"{RUNTIME}: a program of one line, {ONE_LINE.strip()!r}, ended as {result.get('status')}: "
                f"{result.get('error')}"
            )


def _silent_program(process: Process, command: RuntimeCommand, seconds: float) -> str:
    if process.alive:
        return (
            f"{RUNTIME}: the process writes nothing on standard output within {seconds:g} s, not even `ready` "
            f"(RUN-031). It was started as {_shown(process)}; {_errors(process)}. Start it so by hand, or raise "
            f"--patience."
        )
    return (
        f"{RUNTIME}: the process ended with code {process.code} before it wrote `ready`; {_errors(process)}. It was "
        f"started as {_shown(process)} for Python {command.python_version}, the version of the command's first word, "
        f"or of the suite where that is no Python: begin the command with the interpreter that runs the programs."
    )


async def _worker(target: Target, command: WorkerCommand) -> None:
    try:
        async with WorkerLab.open(target, "readiness/worker") as lab:
            await _one_task(lab, command)
    except Violation as fault:
        raise Foreign(_foreign(WORKER, fault, lab.transcript.render())) from None


async def _one_task(lab: WorkerLab, command: WorkerCommand) -> None:
    """Raises Unusable. A rule that is broken already here is raised by the lab."""
    attempt = await lab.coordinator.assign(lab.publish(ONE_LINE))
    try:
        worker = lab.worker()
    except OSError as error:
        raise Unusable(_cannot_start(WORKER, command.words[0], error)) from None
    violations = lab.coordinator.server.violations
    try:
        await lab.coordinator.until_ended("a report", worker, lambda: attempt.settlements or violations)
    except TransportFault:
        raise Unusable(_idle_worker(lab, worker)) from None
    if violations:
        return
    if attempt.told() != ("success", 1):
        raise Unusable(
            f"{WORKER}: a task of one line, {ONE_LINE.strip()!r}, was reported as {attempt.told()}: "
            f"{attempt.report.get('error')}. Programs of the checks are for Python {command.python_version}, the "
            f"version of the command's first word, or of the suite where that is no Python: let the worker run its "
            f"programs with it."
        )


def _idle_worker(lab: WorkerLab, worker: Process) -> str:
    url, seconds = lab.coordinator.server.url, lab.target.patience.progress
    if not worker.alive:
        how = f"the worker ended with code {worker.code} before it reported a task"
    elif not lab.coordinator.sent(SESSIONS):
        how = f"the worker never asked the coordinator at {url}, its {{server}}, within {seconds:g} s"
    elif not lab.coordinator.sent(ACQUISITIONS):
        how = f"the worker opened a session at {url} and asked for no work within {seconds:g} s"
    else:
        how = f"the worker took a task from {url} and made no report within {seconds:g} s"
    written = worker.written()
    aside = f" Its standard output begins with {written[:80]!r}: one line at its end belongs there." if written else ""
    return (
        f"{WORKER}: {how}; {_errors(worker)}. It was started as {_shown(worker)}.{aside} Start it so by hand, or raise "
        f"--patience."
    )


def _cannot_start(option: str, word: str, error: OSError) -> str:
    return f"{option}: {word} cannot be started: {error.strerror}. Name an executable file, or one on PATH."


def _foreign(option: str, fault: AssertionError, exchanges: str) -> str:
    return f"{option}: what it starts does not speak the protocol: {fault}\n{exchanges}"


def _shown(process: Process) -> str:
    return f"'{shlex.join(process.command)}'"


def _errors(process: Process) -> str:
    """The last lines of its standard error."""
    lines = process.stderr()[-2000:].strip().splitlines()[-5:]
    said = "".join(f"\n    {line}" for line in lines)
    return f"its standard error ends with:{said}" if said else "it said nothing on standard error"
