"""Crash points: a target that forgets is found, by the right requirement, and commands that do not work are told."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from mortal import AT_DROP, AT_ONCE, AT_RESTART

from protocol3_conformance.crashes.power import Power, PowerFailure
from protocol3_conformance.target import NOWHERE
from protocol3_conformance.worker_lab import gone

pytest_plugins = ["pytester"]
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--revision", "all"]
HERE = Path(__file__).parent
SAMPLE = '''
from protocol3_conformance.roles.disturbance import Command
from protocol3_conformance.scenario import scenario
from protocol3_conformance.scenarios.coordinator.crashing import crashes_of

crash = crashes_of(globals())

@crash("sample", path="/v1/tasks", cites=["TASK-104"])
async def sample(lab):
    """One key is one task."""
    async def account(task):
        assert (await lab.client.status(task["task_id"])).accepted()["state"] == "queued"

    stays = lambda task: task["task_id"]
    return Command(path="/v1/tasks", body=lab.client.submission(), stays=stays, account=account)

@scenario("sample/alive", cites=["TASK-100"])
async def test_alive(lab):
    """Runs while nothing dies."""
    for _ in range(20):
        await lab.client.task()
'''
KILL = "import os, sys; os.kill(int(open(sys.argv[1]).read()), 9)"


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Callable[[str], tuple[str, dict[str, str]]]]:
    """Start a target with a fault: its URL, and the commands that kill and start it."""

    def start(fault: str) -> tuple[str, dict[str, str]]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        words = [sys.executable, str(HERE / "mortal.py"), str(port), str(tmp_path), fault]
        subprocess.Popen(words, start_new_session=True)
        for _ in range(200):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5):
                break
            time.sleep(0.05)
        kill = [sys.executable, "-c", KILL, str(tmp_path / "pid")]
        return f"http://127.0.0.1:{port}", {"kill": shlex.join(kill), "start": shlex.join(words)}

    yield start
    with suppress(OSError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def judged(
    pytester: pytest.Pytester, url: str, commands: dict[str, str], *options: str
) -> tuple[pytest.RunResult, dict[str, Any]]:
    """The run, and its checks by ID."""
    pytester.makepyfile(test_sample=SAMPLE)
    told = [f"{name} = {json.dumps(command)}" for name, command in commands.items()]
    (pytester.path / "target.toml").write_text("\n".join([f'url = "{url}"', "[commands]", *told, ""]))
    run = ("--target-file", "target.toml", "--report-json", "report.json", "--patience", "0.1", *options)
    result = pytester.runpytest_subprocess(*PLUGIN, *run, timeout=60)
    report = json.loads((pytester.path / "report.json").read_text())
    return result, {one["id"]: one for one in report["checks"]}


def states(checks: dict[str, Any]) -> dict[str, str]:
    return {name.removeprefix("crashes/sample-"): one["state"] for name, one in checks.items()}


ALL = ("before-receipt", "at-work", "before-reply", "after-reply", "twice", "sample/alive")


def test_a_target_that_keeps_its_word_passes(pytester: pytest.Pytester, mortal: Any) -> None:
    """It dies once, after the others: the check that needs it alive is not disturbed."""
    result, checks = judged(pytester, *mortal("nothing"))
    assert states(checks) == dict.fromkeys(ALL, "passed")
    assert checks["crashes/sample-after-reply"]["notes"] == ["sample:after-reply by kill"]
    assert checks["crashes/sample-twice"]["notes"] == ["sample:twice by connection"]
    assert result.ret == pytest.ExitCode.OK


def test_one_command_may_do_both(pytester: pytest.Pytester, mortal: Any) -> None:
    """With `restart` alone."""
    url, commands = mortal("nothing")
    both = "import shlex, subprocess, sys; [subprocess.Popen(shlex.split(one)).wait(1) for one in sys.argv[1:2]]; "
    both += "subprocess.Popen(shlex.split(sys.argv[2]), start_new_session=True)"
    restart = shlex.join([sys.executable, "-c", both, commands["kill"], commands["start"]])
    _, checks = judged(pytester, url, {"restart": restart})
    assert states(checks) == dict.fromkeys(ALL, "passed")


def test_several_processes_kill_nothing(pytester: pytest.Pytester, mortal: Any) -> None:
    """With -n each would kill the others' target, so the connection is dropped instead."""
    _, checks = judged(pytester, *mortal("nothing"), "-p", "xdist", "-n", "2")
    expected = dict.fromkeys(ALL, "passed") | dict.fromkeys(("at-work", "after-reply"), "not-claimed")
    assert states(checks) == expected
    assert checks["crashes/sample-before-reply"]["notes"] == ["sample:before-reply by connection"]


def test_forgetting_at_a_restart_is_found(pytester: pytest.Pytester, mortal: Any) -> None:
    result, checks = judged(pytester, *mortal(AT_RESTART))
    failed = {name for name, state in states(checks).items() if state == "failed"}
    assert failed == {"before-reply", "after-reply"}
    assert checks["crashes/sample-after-reply"]["broken"] == ["TASK-104", "DLV-120", "DLV-121"]
    assert "the same command was answered task-" in checks["crashes/sample-after-reply"]["detail"]
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_without_commands_a_dropped_connection_finds_it(pytester: pytest.Pytester, mortal: Any) -> None:
    url, _ = mortal(AT_DROP)
    result, checks = judged(pytester, url, {})
    expected = dict.fromkeys(ALL, "passed") | {"before-reply": "failed"}
    assert states(checks) == expected | dict.fromkeys(("at-work", "after-reply"), "not-claimed")
    assert checks["crashes/sample-before-reply"]["broken"] == ["TASK-104", "HTTP-068"]
    assert checks["crashes/sample-before-reply"]["notes"] == ["sample:before-reply by connection"]
    result.stdout.fnmatch_lines(["*killed and started again for 2 of the checks*"])


def test_taking_two_at_once_is_found(pytester: pytest.Pytester, mortal: Any) -> None:
    _, checks = judged(pytester, *mortal(AT_ONCE), "--check", "crashes/sample-twice")
    assert (states(checks), checks["crashes/sample-twice"]["broken"]) == ({"twice": "failed"}, ["TASK-104"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kill": "true"}, "2 s after the kill command (true) the target still answers"),
        ({"kill": "false"}, "the kill command (false) ended with exit code 1"),
        ({"kill": "no-such-command-here"}, "the kill command (no-such-command-here) cannot be run"),
        ({"kill": "sleep 50"}, "the kill command (sleep 50) did not end within 2 s"),
        ({"start": "sh -c 'echo no disk; exit 3'"}, "ended with exit code 3; it said: no disk"),
        ({"start": "true"}, "the start command (true) left /health/ready without a 200 for 6 s"),
    ],
)
def test_commands_that_do_not_work(pytester: pytest.Pytester, mortal: Any, wrong: dict[str, str], message: str) -> None:
    """Nothing is held against the target; the message says which command and what it did, in bounded time."""
    url, commands = mortal("nothing")
    result, checks = judged(pytester, url, commands | wrong)
    dead = dict.fromkeys(("before-receipt", "at-work", "before-reply", "after-reply"), "not-determined")
    assert states(checks) == dict.fromkeys(ALL, "passed") | dead
    assert message in checks["crashes/sample-after-reply"]["detail"]
    assert result.ret == 10
    result.stdout.fnmatch_lines(["not determined: crashes/sample-after-reply: the target could not be killed*"])


def test_the_crash_points_are_listed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_sample=SAMPLE)
    result = pytester.runpytest_subprocess(*PLUGIN, "--list-crash-points", timeout=60)
    expected = ["sample:before-reply *nobody has its reply", "*One key is one task.*", "5 crash points"]
    result.stdout.fnmatch_lines(expected)
    commands = "[commands]\nkill = 'k'\nstart = 's'\n"
    (pytester.path / "target.toml").write_text(f'url = "http://127.0.0.1:1"\n{commands}')
    listing = ("--list-crash-points", "--target-file", "target.toml")
    result = pytester.runpytest_subprocess(*PLUGIN, *listing, timeout=60)
    result.stdout.fnmatch_lines(["sample:before-reply *  by kill", "sample:twice *  by connection"])
    result = pytester.runpytest_subprocess(*PLUGIN, *listing, "--profile", "core,faults", timeout=60)
    result.stdout.fnmatch_lines(["sample:at-work *  by faults and kill"])


@pytest.mark.parametrize("cancelled", [False, True], ids=["too-long", "cancelled"])
async def test_a_command_that_hangs_leaves_nothing(tmp_path: Path, *, cancelled: bool) -> None:
    """Neither it nor what it started, when its time is up and when the run is ended."""
    hangs = f"sleep 600 & echo $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; wait"
    down = asyncio.ensure_future(Power(kill=("sh", "-c", hangs)).down(NOWHERE, 60 if cancelled else 3))
    async with asyncio.timeout(30):
        while not (tmp_path / "pid").exists():
            await asyncio.sleep(0.01)
    if cancelled:
        down.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else PowerFailure):
        await down
    await gone(int((tmp_path / "pid").read_text()), 5)
