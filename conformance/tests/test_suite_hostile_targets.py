"""Whole runs against hostile targets: the right exit code, a readable reason, and an end within bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest_plugins = ["pytester"]

SCENARIOS = """
from protocol3_conformance.scenario import scenario

for number in range(20):
    @scenario(f"sample/n{number}", cites=["TASK-100", "HTTP-060"])
    async def test(lab):
        '''Reads a task.'''
        await lab.client.status("t")

    globals()[f"test_{number}"] = test
del test
"""
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider"]


def run(pytester: pytest.Pytester, url: str) -> pytest.RunResult:
    pytester.makepyfile(test_sample=SCENARIOS)
    return pytester.runpytest_subprocess(*PLUGIN, "--target", url, "--patience", "0.05", timeout=60)


async def hangs(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def closes(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def html(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<h1>Hello!</h1>")


@pytest.mark.parametrize(
    ("behave", "reason"),
    [(hangs, "*nothing complete within*"), (closes, "*closed before the status line*"), (html, "*Request-Id*")],
)
def test_not_a_service_of_the_protocol(
    pytester: pytest.Pytester, fake: Callable[[Any], str], behave: Any, reason: str
) -> None:
    """The run ends before its first scenario, with exit code 1 and one reason instead of twenty."""
    result = run(pytester, fake(behave))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*does not speak the protocol:*", "*POST /v1/tasks*"])
    result.stdout.fnmatch_lines([reason])
    result.assert_outcomes()


@pytest.mark.parametrize(("behave", "reason"), [(hangs, "*nothing complete within*"), (closes, "*was closed before*")])
def test_goes_bad_after_the_preflight(
    pytester: pytest.Pytester, fake: Callable[[Any], str], behave: Any, reason: str, answers: Any
) -> None:
    """Twenty scenarios fail side by side, not one after the other."""

    async def turns(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        await (answers if method == "POST" else behave)(method, target, body, writer)

    result = run(pytester, fake(turns))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=20)
    result.stdout.fnmatch_lines([reason, "*run this check alone*", "*not conformant: 20 failed*"])


def test_a_program_that_does_not_resolve(pytester: pytest.Pytester, fake: Callable[[Any], str]) -> None:
    """Exit code 4: nothing was judged, and the sentence says what to publish or name."""

    async def nowhere(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        fields = b"Content-Type: application/json\r\nCache-Control: no-store\r\nRequest-Id: r\r\nContent-Length: 20\r\n"
        writer.write(b"HTTP/1.1 404 X\r\n" + fields + b'\r\n{"code":"not_found"}')

    result = run(pytester, fake(nowhere))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*refuses program mixed-workflow@1.0.1 as not_found. Publish it*--program ID@VERSION*"]
    )
