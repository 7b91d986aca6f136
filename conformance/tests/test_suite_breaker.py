"""The suite against a broken service: each breaking is found by a check that cites the broken rule, and only then.

The service is our own coordinator, started as a process; nothing of it is imported.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from judging import judged, target

from protocol3_conformance.breaker.__main__ import main
from protocol3_conformance.breaker.breakings import BREAKINGS
from protocol3_conformance.readiness import Foreign, readiness
from protocol3_conformance.verdict import State

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
    "fork-replay-forgets": "forks/replay-and-conflict",
}
FOUND_BY_HISTORIES = ("attempts-not-counted", "cancel-in-any-scope", "early-events-lost")
"""See test_suite_stateful.py."""
FOUND_AT_ONCE = ("created", "cacheable", "same-request-id", "compressed")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("asyncpg") is None, reason="our own coordinator needs the packages of protocol3[server]"
)


def test_every_breaking_has_its_finder() -> None:
    assert {*FOUND_BY, *FOUND_BY_HISTORIES, *FOUND_AT_ONCE, "nothing"} == set(BREAKINGS)


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
