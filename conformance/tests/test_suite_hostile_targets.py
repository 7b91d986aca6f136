"""Whole runs against hostile targets: the right exit code, a readable reason, and an end within bounded time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes import accepted_session, accepted_task, reply, status_of

from protocol3_conformance.smoke import SMOKE
from protocol3_conformance.wire.strict_json import encode

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
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--revision", "all"]


def run(pytester: pytest.Pytester, url: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_sample=SCENARIOS)
    return pytester.runpytest_subprocess(*PLUGIN, "--target", url, "--patience", "0.05", *options, timeout=60)


async def hangs(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def closes(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.close()


def replies(raw: bytes) -> Any:
    """A fake that gives these bytes for everything, and ends the connection."""

    async def behave(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        writer.close()

    return behave


def plain(status: int, body: bytes = b"", *fields: bytes) -> Any:
    length = b"Content-Length: %d" % len(body)
    return replies(b"\r\n".join([b"HTTP/1.1 %d X" % status, *fields, length, b"", body]))


TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x16"
USUAL = (b"Content-Type: application/json", b"Cache-Control: no-store", b"Request-Id: own1")


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (hangs, "*nothing complete within*"),
        (closes, "*closed before the status line*"),
        (replies(b"SSH-2.0-OpenSSH_9.2\r\n"), "*does not begin with an HTTP/1.1 status line*"),
        (plain(200, b"OK", b"Content-Type: text/plain"), "*Request-Id*"),
        (plain(200, b"{}", *USUAL, b"Request-Id: own2"), "*Request-Id: 2 fields, exactly one is required*"),
        (plain(500, b'{"code":"broken"}', *USUAL), "*expected an error object with a known code*"),
    ],
)
def test_not_a_service_of_the_protocol(
    pytester: pytest.Pytester, fake: Callable[[Any], str], behave: Any, reason: str
) -> None:
    """The run ends before its first scenario, with exit code 1 and one reason instead of twenty."""
    result = run(pytester, fake(behave))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*does not speak the protocol:*", "*POST /v1/worker-sessions*"])
    result.stdout.fnmatch_lines([reason])
    result.assert_outcomes()


async def foreign_scope(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(b'{"code":"not_found"}', status=404))


async def no_program(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    known = target == "/v1/worker-sessions"
    writer.write(reply(encode(accepted_session(body))) if known else reply(b'{"code":"not_found"}', status=404))


async def yesterday(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    day = 86_400_000
    made = accepted_session(body) if target == "/v1/worker-sessions" else accepted_task(body)
    older = {name: value - day if name.endswith("_at") and value else value for name, value in made.items()}
    writer.write(reply(encode(older)))


async def not_ready(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(b'{"code":"unavailable","message":"starting"}', status=503))


async def elsewhere(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(b'{"code":"route_not_found"}', status=404))


@pytest.mark.parametrize(
    ("behave", "fix"),
    [
        (plain(200, b"<h1>Hello!</h1>", b"Content-Type: text/html"), "*HTML page*Correct host, port and path prefix*"),
        (plain(404, b"<html>nginx", b"Content-Type: text/html"), "*answers 404 with an HTML page*--target http://*"),
        (plain(400, b"plain HTTP request was sent to HTTPS port"), "*speaks TLS*name the service's plain port*"),
        (replies(TLS_ALERT), "*speaks TLS*name the service's plain port*"),
        (plain(401, b"{}", *USUAL), "*asks for credentials (401)*name an address behind*"),
        (plain(301, b"", b"Location: https://example.org/"), "*redirects to https://example.org/*final address*"),
        (not_ready, "*is not ready: 503 unavailable*"),
        (elsewhere, "*There is no /v1/worker-sessions at *Correct host, port and path prefix*"),
        (foreign_scope, "*bound to another scope*--scope TENANT/NAMESPACE*"),
        (no_program, "*refuses program mixed-workflow@1.0.1 as not_found. Publish it*fixtures export DIR*"),
        (yesterday, "*clock is 86[34]* s behind this machine's*Synchronise both clocks*"),
    ],
)
def test_not_ready_to_be_judged(pytester: pytest.Pytester, fake: Callable[[Any], str], behave: Any, fix: str) -> None:
    """Exit code 4: nothing was judged, and one sentence says what to do."""
    result = run(pytester, fake(behave))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([fix])
    result.stderr.no_fnmatch_line("*Traceback*")
    result.assert_outcomes()


PIECE = 7


async def trickles(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """An honest reply in small pieces that respect no border: tiresome, and no fault."""
    whole = reply(encode(status_of(target)))
    for at in range(0, len(whole), PIECE):
        writer.write(whole[at : at + PIECE])
        await writer.drain()
        await asyncio.sleep(0)


async def late(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    """The whole reply but its last byte in time."""
    whole = reply(encode(status_of(target)))
    writer.write(whole[:-1])
    await writer.drain()
    await asyncio.sleep(30)
    writer.write(whole[-1:])


async def twice_the_same_member(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(reply(b'{"a":1,"a":2}'))


def honest(**lies: Any) -> Any:
    """A fake that answers the status of a task, with these members changed."""

    async def behave(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(encode({**status_of(target), **lies})))

    return behave


@pytest.mark.parametrize(
    ("behave", "code", "line"),
    [
        (hangs, 1, "*nothing complete within*"),
        (closes, 1, "*was closed before*"),
        (late, 1, "*nothing complete within*"),
        (honest(state="sleeping"), 1, "*state: *sleeping*"),
        (honest(task_id="another"), 1, "*task_id*another*"),
        (honest(attempt_count=1.0), 1, "*attempt_count*1.0*"),
        (honest(extra=None), 1, "*extra*"),
        (plain(200, b"{}", *USUAL, b"Request-Id: own2"), 1, "*Request-Id: 2 fields*"),
        (twice_the_same_member, 1, "*reply body*JSON-001*"),
        (plain(500, b"Traceback", b"Content-Type: text/plain"), 1, "*Request-Id*"),
        (honest(), 0, "*not determined: 20 passed*"),
        (trickles, 0, "*not determined: 20 passed*"),
    ],
)
def test_goes_bad_after_the_first_look(
    pytester: pytest.Pytester, fake: Callable[[Any], str], behave: Any, code: int, line: str, answers: Any
) -> None:
    """Twenty scenarios fail side by side, not one after the other; what is only odd is no failure."""

    async def turns(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        await (answers if method == "POST" else behave)(method, target, body, writer)

    patience = () if code else ("--patience", "1")  # what is honest may take its time on a busy machine
    result = run(pytester, fake(turns), *patience)
    assert result.ret == code
    result.stdout.fnmatch_lines([line])
    result.assert_outcomes(**({"failed": 20} if code else {"passed": 20}))
    if code:
        result.stdout.fnmatch_lines(["*run this check alone*", "*not conformant: 20 failed*"])


@pytest.mark.parametrize("shared", [[], ["-p", "xdist", "-n", "2"]], ids=["alone", "xdist"])
def test_a_run_ends_with_a_first_look_that_failed(
    pytester: pytest.Pytester, obliging_target: str, shared: list[str]
) -> None:
    """The real suite against a fake that can do next to nothing: 35 checks, and how to go on."""
    words = ["--pyargs", "protocol3_conformance", *PLUGIN, *shared, "--target", obliging_target, "--patience", "0.05"]
    result = pytester.runpytest_subprocess(*words, "--report-json", "report.json", timeout=120)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["* of the 35 checks of the first look failed*--no-smoke*"])
    report = json.loads((pytester.path / "report.json").read_text())
    assert {one["id"] for one in report["checks"]} == set(SMOKE)
    assert report["profiles"]["core"]["verdict"] == "not conformant"
    assert len(report["profiles"]["core"]["left_out"]) > 100


def test_a_target_that_died_is_asked_no_more(
    pytester: pytest.Pytester, fake: Callable[[Any], str], answers: Any
) -> None:
    """A run against a dead target ends after one round of waiting: the rest is not determined, and says why.

    Of the second round those may have begun for which a place was free before the fourth had waited in vain.
    """

    async def turns(method: str, target: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        await (answers if method == "POST" else hangs)(method, target, body, writer)

    result = run(pytester, fake(turns), "--concurrency", "4")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    counts = result.parseoutcomes()
    assert 4 <= counts["failed"] < 8
    assert counts["failed"] + counts["skipped"] == 20
    result.stdout.fnmatch_lines(["*not determined: sample/n*: the target has not answered 4 checks in a row*"])
