"""The suite against a broken service: each breaking is found by a check that cites the broken rule, and only then.

The service is our own coordinator, started as a process; nothing of it is imported.
"""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from protocol3_conformance import catalogue
from protocol3_conformance.breaker.__main__ import main
from protocol3_conformance.breaker.breakings import BREAKINGS
from protocol3_conformance.breaker.proxy import Proxy
from protocol3_conformance.conductor import Conductor
from protocol3_conformance.readiness import Foreign, readiness
from protocol3_conformance.target import PROFILES, Patience, Target
from protocol3_conformance.verdict import Outcome, State, outcome_of
from protocol3_conformance.wire.peer import Endpoint

TOOL = Path(__file__).parents[2] / "tools" / "run_conformance.py"

FOUND_BY = {
    "integral-floats": "submission/data-comes-back",
    "chatty-conflict": "submission/omission-is-default",
    "null-lineage": "workflow/first-activation",
    "settlement-replay-forgets": "settlement/replay-after-finish",
    "renewal-replay-extends": "renewal/sequences",
    "event-twice": "events/wake",
    "inputs-twice": "children/delivered-once-by-continue",
    "receipt-of-now": "events/completed-workflow",
    "deaf-to-cancel": "cancellation/active-then-report",
    "retries-program-failures": "retries/application-failure-is-final",
}
FOUND_AT_ONCE = ("created", "cacheable", "same-request-id", "compressed")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("asyncpg") is None, reason="our own coordinator needs the packages of protocol3[server]"
)


@pytest.fixture(scope="session")
def coordinator() -> Iterator[str]:
    """The URL of our own coordinator, run as a process for all tests of this file."""
    command = [sys.executable, str(TOOL), "--only-serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        url = running.stdout.readline().strip()
        assert url.startswith("http://"), f"{TOOL.name} did not start a coordinator"
        yield url
        running.stdin.close()
        running.wait(30)


@pytest.fixture
def broken(coordinator: str) -> Iterator[Callable[[str], str]]:
    """Put the breaking proxy in front of the coordinator: broken(name) -> URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start(name: str) -> str:
        server = await Proxy(Endpoint.parse(coordinator), BREAKINGS[name]).serve("127.0.0.1", 0)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield lambda name: asyncio.run_coroutine_threadsafe(start(name), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def target(url: str) -> Target:
    return Target(
        endpoint=Endpoint.parse(url),
        profiles=frozenset(PROFILES),
        scope=None,
        program=("mixed-workflow", "1.0.1"),
        patience=Patience(),
        seed=1,
    )


def judged(url: str, *check_ids: str) -> dict[str, Outcome]:
    known = catalogue.everything()
    conductor = Conductor(target(url))
    conductor.start([known[check_id] for check_id in check_ids])
    try:
        return {check_id: outcome_of(conductor.result(check_id)) for check_id in check_ids}
    finally:
        conductor.stop()


def test_every_breaking_has_its_finder() -> None:
    assert {*FOUND_BY, *FOUND_AT_ONCE, "nothing"} == set(BREAKINGS)


def test_the_proxy_itself_breaks_nothing(broken: Callable[[str], str]) -> None:
    """The control: through the proxy the same checks hold."""
    outcomes = judged(broken("nothing"), *FOUND_BY.values(), "http/limit-while-streaming")
    assert {check_id: outcome.detail for check_id, outcome in outcomes.items() if outcome.state != State.PASSED} == {}


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_broken_rule_is_found(broken: Callable[[str], str], name: str) -> None:
    """The check fails, and the report cites a rule that the breaking breaks."""
    check_id = FOUND_BY[name]
    outcome = judged(broken(name), check_id)[check_id]
    assert outcome.state == State.FAILED, f"{outcome.state}: {outcome.detail}"
    assert set(outcome.cites) & set(BREAKINGS[name].rules), f"cites {outcome.cites}"


@pytest.mark.parametrize("name", FOUND_AT_ONCE)
def test_a_foreign_service_is_found_at_once(broken: Callable[[str], str], name: str) -> None:
    with pytest.raises(Foreign, match=BREAKINGS[name].rules[0]):
        asyncio.run(readiness(target(broken(name))))


def test_the_command_lists_its_breakings() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for breaking in BREAKINGS.values():
        assert breaking.name in result.output
    assert CliRunner().invoke(main, ["nothing", "--target", "ftp://x"]).exit_code == 2
