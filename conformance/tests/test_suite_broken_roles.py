"""Broken program processes and workers: each is found by a check that cites the rule it breaks.

They are made of our own helper and worker by small edits of a copy; nothing of them is imported.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from protocol3_conformance import catalogue
from protocol3_conformance.commands import RuntimeCommand, WorkerCommand
from protocol3_conformance.conductor import Conductor
from protocol3_conformance.target import NOWHERE, PROFILES, Patience, Target
from protocol3_conformance.verdict import Outcome, State, outcome_of

REFERENCE = Path(__file__).parents[2] / "reference"
HELPER = REFERENCE / "protocol3" / "runtime" / "ledgence" / "worker"
PLACES = ("server", "tenant", "namespace", "queue", "store", "cache", "concurrency", "acquire_wait_ms")

REWRITING = """
import os, re, subprocess, sys, threading
child = subprocess.Popen([*COMMAND, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def pass_on():
    try:
        while chunk := os.read(0, 65536):
            child.stdin.write(IN(chunk))
            child.stdin.flush()
        child.stdin.close()
    except OSError:
        pass
threading.Thread(target=pass_on, daemon=True).start()
for line in child.stdout:
    line = line.replace(b'"pid":%d' % child.pid, b'"pid":%d' % os.getpid())
    os.write(1, OUT(line))
os._exit(CODE(child.wait() if child.returncode is None else child.returncode))
"""
"""A program process behind a script that changes what passes: IN and OUT by line, CODE the exit code."""


class Wrapped(NamedTuple):
    rule: str
    check: str
    out: str = "line"
    into: str = "chunk"
    code: str = "code if code >= 0 else 1"


RUNTIMES = {
    "blanks": Wrapped("RUN-021", "runtime-launch/ready", out="line.replace(b',', b', ')"),
    "chatty": Wrapped("RUN-031", "runtime-launch/ready", out="b'hello\\n' + line"),
    "ready with more": Wrapped("RUN-031", "runtime-launch/ready", out='line.replace(b\'"pid"\', b\'"x":1,"pid"\')'),
    "forgets the attempt": Wrapped(
        "RUN-036",
        "runtime-framing/identities-come-back",
        out='re.sub(b\'"attempt_id":"a+"\', b\'"attempt_id":"x"\', line)',
    ),
    "numbers from 0": Wrapped(
        "RUN-071", "runtime-requests/commit", out='line.replace(b\'"id":1,"op\', b\'"id":0,"op\')'
    ),
    "numbers by floats": Wrapped(
        "RUN-071", "runtime-requests/commit", out='line.replace(b\'"id":1,"op\', b\'"id":1.0,"op\')'
    ),
    "business errors in workflows": Wrapped(
        "RUN-064", "runtime-activation/every-exception", out="line.replace(b'runtime_error', b'error')"
    ),
    "ends well": Wrapped("RUN-024", "runtime-framing/broken-frames", code="0"),
    "wrong number": Wrapped("RUN-014", "runtime-launch/command-line", code="70 if code == 2 else code"),
    "always observes": Wrapped(
        "RUN-039", "runtime-observations/exactly-true", into="chunk.replace(b'\"observe\":false', b'\"observe\":true')"
    ),
    "closing says more": Wrapped(
        "RUN-110", "runtime-shutdown/callbacks", out='line.replace(b\'"closing"\', b\'"closing","x":1\')'
    ),
    "logs local time": Wrapped("RUN-098", "runtime-logs/members", out="line.replace(b'+00:00', b'+02:00')"),
}


def target(*, runtime: RuntimeCommand | None = None, worker: WorkerCommand | None = None) -> Target:
    return Target(
        endpoint=NOWHERE,
        profiles=frozenset(PROFILES),
        scope=None,
        program=("none", "1"),
        patience=Patience(),
        seed=1,
        runtime=runtime,
        worker=worker,
    )


def judged(judge: Target, check_id: str) -> Outcome:
    conductor = Conductor(judge)
    conductor.start([catalogue.everything()[check_id]])
    try:
        return outcome_of(conductor.result(check_id))
    finally:
        conductor.stop()


def found(outcome: Outcome, rule: str) -> None:
    assert outcome.state == State.FAILED, f"{outcome.state}: {outcome.detail}"
    assert rule in outcome.cites, f"cites {outcome.cites}: {outcome.detail}"


@pytest.fixture
def wrapped(tmp_path: Path) -> Callable[[Wrapped], Target]:
    def make(breaking: Wrapped) -> Target:
        script = tmp_path / "wrapped.py"
        command = [sys.executable, "-I", "-S", "-B", str(HELPER / "bootstrap.py")]
        changes = {
            "IN = lambda chunk": breaking.into,
            "OUT = lambda line": breaking.out,
            "CODE = lambda code": breaking.code,
        }
        lambdas = "".join(f"{head}: {body}\n" for head, body in changes.items())
        script.write_text(f"COMMAND = {command!r}\n{REWRITING.replace('for line in', lambdas + 'for line in', 1)}")
        return target(runtime=RuntimeCommand.parse(shlex.join([sys.executable, "-I", "-S", str(script)])))

    return make


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_broken_runtime_is_found(wrapped: Callable[[Wrapped], Target], name: str) -> None:
    found(judged(wrapped(RUNTIMES[name]), RUNTIMES[name].check), RUNTIMES[name].rule)


@pytest.mark.parametrize("check_id", sorted({one.check for one in RUNTIMES.values()}))
def test_the_wrapper_itself_breaks_nothing(wrapped: Callable[[Wrapped], Target], check_id: str) -> None:
    outcome = judged(wrapped(Wrapped("", "")), check_id)
    assert outcome.state == State.PASSED, outcome.detail


class Edited(NamedTuple):
    rule: str
    check: str
    file: str
    old: str
    new: str


def consumer(rule: str, check: str, old: str, new: str) -> Edited:
    return Edited(rule, check, "worker/consumer.py", old, new)


def renewals(rule: str, check: str, old: str, new: str) -> Edited:
    return Edited(rule, check, "worker/renewals.py", old, new)


NEXT = "self._command = replace(self._command, sequence=self._command.sequence + 1)"
WORKERS = {
    "takes any session": Edited(
        "WRK-004",
        "worker-session/another-session",
        "worker/sessions.py",
        "if (session.scope, session.queue",
        "if () and (session.scope, session.queue",
    ),
    "advances when uncertain": consumer(
        "WRK-007",
        "worker-acquisition/uncertain",
        "except (Uncertain, Refusal):\n                pass",
        f"except (Uncertain, Refusal):\n                {NEXT}",
    ),
    "never idle": consumer(
        "WRK-008", "worker-acquisition/empty", "cycle_started_ms + self._pacing.idle_delay_ms - now_ms()", "0"
    ),
    "takes any sequence": consumer(
        "WRK-009", "worker-acquisition/wrong-assignments", "if reply.sequence != command.sequence:", "if False:"
    ),
    "forgets what was lost": consumer(
        "WRK-011", "worker-acquisition/ownership-lost", 'self._admission.count("ownership_lost")', "pass"
    ),
    "waits on when it stops": consumer("WRK-090", "worker-stop/waiting-poll", "wait_ms=0)", "wait_ms=1)"),
    "counts renewals from 1": renewals(
        "WRK-015", "worker-lease/asks-for-permission", "assignment.authority.renew_sequence", "0"
    ),
    "renews with another intent": renewals(
        "WRK-025",
        "worker-lease/identical-renewals",
        "await asyncio.sleep(self._pacing.retry_delay_ms / 1000)",
        'body = encode({**command.to_json(), "intent": "keep_alive"})',
    ),
    "takes any renewal": renewals(
        "WRK-026",
        "worker-lease/contradictory-renewals",
        "if authority.owner == self._owner and authority.renew_sequence == self._sequence:",
        "if True:",
    ),
    "no safety margin": Edited(
        "WRK-016", "worker-lease/deadlines", "worker/authority.py", " - limits.SAFETY_MARGIN_MS", ""
    ),
    "another operation": Edited(
        "WRK-069", "worker-outcome/results", "worker/settlement.py", '"worker-result-v1"', '"mine"'
    ),
    "takes any receipt": Edited(
        "WRK-075",
        "worker-settlement/another-receipt",
        "worker/settlement.py",
        'raise Unresolved("the receipt of a settlement names another attempt or operation")',
        "pass",
    ),
}


@pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="our worker needs protocol3[server]")
@pytest.mark.parametrize("name", WORKERS)
def test_a_broken_worker_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    breaking = WORKERS[name]
    shutil.copytree(REFERENCE / "protocol3", tmp_path / "protocol3", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "protocol3" / breaking.file
    text = file.read_text()
    assert text.count(breaking.old) == 1, f"{breaking.file} has {text.count(breaking.old)} of {breaking.old!r}"
    file.write_text(text.replace(breaking.old, breaking.new))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    flags = [word for place in PLACES for word in (f"--{place.replace('_', '-')}", f"{{{place}}}")]
    command = " ".join([sys.executable, "-m", "protocol3.cli", "worker", "connect", *flags])
    found(judged(target(worker=WorkerCommand.parse(command)), breaking.check), breaking.rule)
