"""Whole runs against commands that start the wrong thing: the right exit code and fix, within bounded time."""

from __future__ import annotations

import shlex
import sys
import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

SCENARIOS = """
from protocol3_conformance.scenario import scenario

@scenario("sample/runtime", cites=["RUN-034"], role="runtime")
async def test_runtime(lab):
    '''Two invocations, one after the other.'''
    program = await lab.start("").ready()
    for _ in range(2):
        assert (await program.invoke())["output"] == 1
    assert await program.finish() == 0

@scenario("sample/worker", cites=["WRK-005"], role="worker")
async def test_worker(lab):
    '''Asks for work.'''
    lab.worker()
    await lab.polling()
"""
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--revision", "all"]
PLACES = "{server} {tenant} {namespace} {queue} {store} {cache}"

SPEAKING = """
import json, os, sys
def write(line):
    WRITE
def send(**frame):
    write(json.dumps({"v": 3, **frame}, separators=(",", ":")).encode() + b"\\n")
send(type="ready", pid=os.getpid(), python_version="%d.%d" % sys.version_info[:2])
for line in sys.stdin:
    invoke = json.loads(line)
    send(type="result", event_id=invoke["event_id"], attempt_id=invoke["attempt_id"], status="success", output=1)
"""
"""A program process that answers every invocation with 1."""


def run(pytester: pytest.Pytester, option: str, command: str, *, patience: float) -> pytest.RunResult:
    pytester.makepyfile(test_sample=SCENARIOS)
    words = [*PLUGIN, option, command, "--patience", str(patience)]
    return pytester.runpytest_subprocess(*words, timeout=60)


def script(folder: Path, source: str) -> str:
    path = folder / "command.py"
    path.write_text(textwrap.dedent(source))
    return shlex.join([sys.executable, str(path)])


def speaking(write: str) -> str:
    return SPEAKING.replace("WRITE", write)


HANGS = "import time\ntime.sleep(60)"
EXITS = "import sys\nsys.stderr.write('first\\nno module named orders\\n')\nsys.exit(3)"
FLOODS = "import os\nwhile True: os.write(1, b'x' * 4096)"
SHOUTS = "while True: print('hello')"
POLLS_ELSEWHERE = """
    import sys, urllib.request
    try:
        urllib.request.urlopen(sys.argv[1] + "/v2/poll", data=b"{}")
    except OSError:
        sys.exit(1)
"""


@pytest.mark.parametrize(
    ("source", "patience", "code", "said"),
    [
        (HANGS, 0.1, 4, "*writes nothing on standard output within 2 s*'*command.py*it said nothing*"),
        (EXITS, 1, 4, "*ended with code 3 before it wrote `ready`*"),
        (EXITS, 1, 4, "*no module named orders*begin the command with the interpreter*"),
        ("print('<html>')", 1, 1, "*does not speak the protocol*<html>*RUN-021*"),
        (FLOODS, 1, 1, "*does not speak the protocol*bytes without a newline*"),
        (SHOUTS, 1, 1, "*does not speak the protocol*hello*"),
        (speaking("os.write(1, line)"), 1, 0, "*not determined: 1 passed*"),
        (speaking("[os.write(1, line[at : at + 1]) for at in range(len(line))]"), 1, 0, "*not determined: 1 passed*"),
        (speaking("os.write(1, line * (2 if b'result' in line else 1))"), 1, 1, "*no invocation is running*RUN-034*"),
    ],
)
def test_runtime_commands(
    pytester: pytest.Pytester, tmp_path: Path, source: str, patience: float, code: int, said: str
) -> None:
    """What does not speak is not judged; what speaks oddly is no failure; what speaks wrongly is one."""
    result = run(pytester, "--runtime-command", script(tmp_path, source), patience=patience)
    _ended(result, code, said)


@pytest.mark.parametrize(
    ("source", "patience", "code", "said"),
    [
        (
            HANGS,
            0.1,
            4,
            "*never asked the coordinator at http://*, its {server}, within 2 s*it said nothing*",
        ),
        (EXITS, 1, 4, "*ended with code 3 before it reported a task*no module named orders*"),
        (POLLS_ELSEWHERE, 1, 1, "*does not speak the protocol*POST /v2/poll: is no route of a worker*"),
        (FLOODS, 0.1, 4, "*never asked the coordinator*standard output begins with b'xxxx*"),
        (SHOUTS, 0.1, 4, "*never asked the coordinator*standard output begins with b'hello*"),
    ],
)
def test_worker_commands(
    pytester: pytest.Pytester, tmp_path: Path, source: str, patience: float, code: int, said: str
) -> None:
    """A worker that never comes to its first report is not judged, and the message says how far it came."""
    result = run(pytester, "--worker-command", f"{script(tmp_path, source)} {PLACES}", patience=patience)
    _ended(result, code, said)


@pytest.mark.parametrize("option", ["--runtime-command", "--worker-command"])
@pytest.mark.parametrize("version", ["2.7", "3.10"])
def test_python_that_is_too_old(pytester: pytest.Pytester, tmp_path: Path, option: str, version: str) -> None:
    """It is asked before anything is started."""
    old = tmp_path / "python-of-yore"
    old.write_text(f"#!/bin/sh\necho {version}\n")
    old.chmod(0o755)
    result = run(pytester, option, f"{old} {PLACES if 'worker' in option else ''}", patience=1)
    _ended(result, 4, f"*{option}: *python-of-yore is Python {version}; programs run on 3.11 or newer*")


@pytest.mark.parametrize("option", ["--runtime-command", "--worker-command"])
def test_python_that_lacks_the_package(pytester: pytest.Pytester, option: str) -> None:
    command = shlex.join([sys.executable, "-m", "no_such_package.of_ours"])
    result = run(pytester, option, f"{command} {PLACES if 'worker' in option else ''}", patience=1)
    _ended(result, 4, f"*{option}: *ended with code 1 before it *No module named 'no_such_package'*")


@pytest.mark.parametrize("option", ["--runtime-command", "--worker-command"])
def test_no_such_command(pytester: pytest.Pytester, option: str) -> None:
    result = run(pytester, option, f"no-such-program {PLACES if 'worker' in option else ''}", patience=1)
    _ended(result, 4, f"*{option}: no-such-program cannot be started: No such file or directory*")


def _ended(result: pytest.RunResult, code: int, said: str) -> None:
    """The exit code, and one text in what was printed, whatever its line breaks."""
    printed = " ".join([*result.stdout.lines, *result.stderr.lines])
    assert result.ret == code, printed
    pytest.LineMatcher([printed]).fnmatch_lines([said])
    assert "Traceback" not in printed
