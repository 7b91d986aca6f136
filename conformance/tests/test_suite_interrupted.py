"""A run that is ended from outside: what it started is gone, and what was judged by then is in the reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from protocol3_conformance.worker_lab import alive

pytest_plugins = ["pytester"]
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--revision", "all"]
SCENARIOS = """
import asyncio
import sys
from pathlib import Path
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.pipes import Process

@scenario("sample/holds", cites=["TASK-100"])
async def test_holds(lab):
    pass

@scenario("sample/judges-a-process", cites=["TASK-100"])
async def test_judges_a_process(lab):
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = Process(words, stderr=Path("stderr"), directory=Path(), seconds=1)
    try:
        Path("begun").write_text(str(process.pid))
        Path("begun").rename("pid")
        await asyncio.Event().wait()
    finally:
        process.kill()
"""
RUN = """
import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_from_outside(pytester: pytest.Pytester, obliging_target: str, number: signal.Signals) -> None:
    """By a terminal, or by whoever limits the time of a job: code 2 in bounded time."""
    pytester.makepyfile(test_sample=SCENARIOS)
    words = [*PLUGIN, "-v", "--target", obliging_target, "--report-json", "report.json"]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *words], cwd=pytester.path, stdout=subprocess.PIPE, text=True
    ) as suite:
        assert suite.stdout is not None
        assert any("test_holds PASSED" in line for line in suite.stdout)
        place, deadline = pytester.path / "pid", time.monotonic() + 60
        while not place.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        suite.send_signal(number)
        assert suite.wait(60) == pytest.ExitCode.INTERRUPTED
    assert not alive(int(place.read_text()))
    report = json.loads((pytester.path / "report.json").read_text("utf-8"))
    assert [one["id"] for one in report["checks"]] == ["sample/holds"]
    assert (report["verdict"], report["claim"]) == ("not determined", None)
