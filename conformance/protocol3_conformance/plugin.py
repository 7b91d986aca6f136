"""pytest plugin of the suite: runs the scenarios through the conductor and turns their runs into reports.

Loaded only when the suite is named (see `_entry`), so that no other project of the environment sees its options.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from protocol3_conformance import catalogue
from protocol3_conformance.conductor import Conductor, Run
from protocol3_conformance.options import add_options, rerun_command, target_of
from protocol3_conformance.preflight import Foreign, Unusable, preflight
from protocol3_conformance.report.json_report import verdict, write
from protocol3_conformance.scenario import ATTRIBUTE, Scenario
from protocol3_conformance.target import EXPIRY, Target
from protocol3_conformance.verdict import (
    Outcome,
    State,
    exit_code,
    in_scenarios_only,
    outcome_of,
    sentences,
)

PROPERTY = "protocol3"


@dataclass(slots=True)
class Session:
    """What the hooks share. `target` is set once the scenarios are about to run."""

    target: Target | None = None
    conductor: Conductor | None = None
    runs: dict[str, Run] = field(default_factory=dict)


SESSION = pytest.StashKey[Session]()


def scenario_of(item: Any) -> Scenario | None:
    """The scenario behind a pytest item, if it is one."""
    return getattr(getattr(item, "obj", None), ATTRIBUTE, None)


def scenarios_of(items: list[pytest.Item]) -> list[Scenario]:
    return [scenario for item in items if (scenario := scenario_of(item))]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SESSION] = Session()
    config.pluginmanager.register(Recorder(config), "protocol3-recorder")


def pytest_cmdline_main(config: pytest.Config) -> None:
    """With xdist every process collects everything and conducts its own share."""
    if getattr(config.option, "numprocesses", None):
        config.option.dist = "each"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse ambiguous check IDs, keep what is asked for, and under xdist the share of this process."""
    scenarios = scenarios_of(items)
    if repeated := catalogue.duplicates(scenarios):
        raise pytest.UsageError(f"these check IDs are declared twice: {', '.join(repeated)}")
    chosen = _chosen(config, scenarios)
    left_out = [item for item in items if (one := scenario_of(item)) and one.check_id not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if worker := getattr(config, "workerinput", None):
        items[:] = items[int(worker["workerid"][2:]) :: worker["workercount"]]


def _chosen(config: pytest.Config, scenarios: list[Scenario]) -> set[str]:
    """Check IDs by `--check`; without it all but those that wait for leases, unless `--with-expiry` asks for them."""
    option = config.option
    if option.check:
        try:
            return catalogue.selected(scenarios, option.check)
        except catalogue.UnknownName as error:
            raise pytest.UsageError(str(error)) from None
    everything = option.with_expiry or option.list_checks or option.explain
    return {one.check_id for one in scenarios if everything or EXPIRY not in one.profiles}


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Conduct the scenarios while pytest asks for one result after the other; `--list` and `--explain` only print."""
    option, shared = session.config.option, session.config.stash[SESSION]
    scenarios = scenarios_of(session.items)
    if option.list_checks or option.explain:
        _print(session.config, scenarios)
        session.items.clear()
        return (yield)
    if not scenarios or option.collectonly:
        return (yield)
    shared.target = target_of(session.config)
    _preflight(shared.target)
    shared.conductor = Conductor(shared.target)
    shared.conductor.start([one for one in scenarios if not _missing(one, shared.target)])
    try:
        return (yield)
    finally:
        shared.conductor.stop()


def _print(config: pytest.Config, scenarios: list[Scenario]) -> None:
    wanted = config.option.explain
    try:
        text = catalogue.explanation(wanted, scenarios) if wanted else catalogue.listing(scenarios)
    except catalogue.UnknownName as error:
        raise pytest.UsageError(str(error)) from None
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line("")
    reporter.write_line(text)


def _preflight(target: Target) -> None:
    try:
        asyncio.run(preflight(target))
    except Unusable as reason:
        raise pytest.UsageError(str(reason)) from None
    except Foreign as reason:
        pytest.exit(str(reason), returncode=pytest.ExitCode.TESTS_FAILED)


def _missing(scenario: Scenario, target: Target) -> list[str]:
    """Profiles the scenario needs and the target does not claim."""
    return [profile for profile in scenario.profiles if not target.claims(profile)]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Wait for the conductor's result instead of calling the function."""
    scenario, shared = scenario_of(pyfuncitem), pyfuncitem.config.stash[SESSION]
    if scenario is None:
        return None
    assert shared.target is not None
    assert shared.conductor is not None
    if missing := _missing(scenario, shared.target):
        pytest.skip(f"not applicable: the target does not claim {', '.join(missing)}")
    run = shared.conductor.result(scenario.check_id)
    shared.runs[pyfuncitem.nodeid] = run
    outcome = outcome_of(run)
    if outcome.state is State.NOT_DETERMINED:
        pytest.skip(f"not determined: {outcome.detail}")
    if run.error is not None:
        raise in_scenarios_only(run.error)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the outcome where a controlling process finds it too, and the evidence under a failure."""
    report = yield
    scenario, shared = scenario_of(item), item.config.stash[SESSION]
    if scenario is None or report.when != "call" or shared.target is None:
        return report
    run = shared.runs.get(item.nodeid)
    outcome = outcome_of(run) if run else _not_applicable(scenario)
    report.user_properties.append((PROPERTY, outcome.to_json()))
    if run and report.failed:
        report.sections.append(("check", f"{scenario.check_id}: {scenario.title}\n{outcome.detail}"))
        report.sections.append(("requirements", sentences(outcome.cites)))
        report.sections.append(("exchanges", run.transcript.render()))
        report.sections.append(("run this check alone", rerun_command(item.config, shared.target, scenario.check_id)))
    return report


def _not_applicable(scenario: Scenario) -> Outcome:
    return Outcome(
        check_id=scenario.check_id,
        title=scenario.title,
        state=State.NOT_APPLICABLE,
        cites=scenario.cites,
        detail=f"needs {', '.join(scenario.profiles)}",
        seconds=0.0,
        exchanges=0,
    )


class Recorder:
    """Collects the outcomes from the reports, which also cross process borders, and draws the verdict."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: list[Outcome] = []

    def pytest_report_header(self) -> str | None:
        option = self._config.option
        return f"protocol3: judging {option.target}, profiles {option.profile}" if option.target else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, dict):
                self._outcomes.append(Outcome.from_json(value))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self._outcomes and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = exit_code(self._outcomes)
        path = self._config.option.report_json
        if path and self._outcomes and not hasattr(self._config, "workerinput"):
            target = self._config.stash[SESSION].target or target_of(self._config)
            write(Path(path), target, self._outcomes, complete=not self._left_out())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._outcomes:
            return
        counts = Counter(outcome.state for outcome in self._outcomes)
        exchanges = sum(outcome.exchanges for outcome in self._outcomes)
        summary = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
        target = self._config.stash[SESSION].target
        seed = "" if target is None else f", seed {target.seed}"
        left_out = self._left_out()
        rest = f", {left_out} checks of the suite left out" if left_out else ""
        word = verdict(self._outcomes, complete=not left_out)
        terminalreporter.section("conformance")
        terminalreporter.line(f"{word}: {summary}{rest}; {exchanges} exchanges{seed}")

    def _left_out(self) -> int:
        """Checks of the suite without an outcome; those that wait for leases are extra (`--with-expiry`)."""
        judged = {outcome.check_id for outcome in self._outcomes}
        due = {one.check_id for one in catalogue.everything().values() if EXPIRY not in one.profiles}
        return len(due - judged)
