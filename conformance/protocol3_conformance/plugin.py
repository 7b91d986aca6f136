"""pytest plugin of the suite: runs the scenarios through the conductor and turns their runs into reports.

Loaded only when the suite is named (see `_entry`), so that no other project of the environment sees its options.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import signal
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import protocol3_conformance.rewriting  # noqa: F401 - for its effect on the imports below  # isort: split
from protocol3_conformance import catalogue, progress
from protocol3_conformance.assertions import comparison
from protocol3_conformance.command_readiness import command_readiness
from protocol3_conformance.conductor import Conductor, Run
from protocol3_conformance.crashes import points
from protocol3_conformance.options import (
    add_options,
    choose_seed,
    given,
    rerun_command,
    roles_of,
    target_of,
    with_expiry,
)
from protocol3_conformance.readiness import Foreign, Unusable, readiness
from protocol3_conformance.recorder import ATTACHED, Recorder
from protocol3_conformance.scenario import ATTRIBUTE, Scenario
from protocol3_conformance.smoke import SMOKE
from protocol3_conformance.target import COORDINATOR, EXPIRY, ROLES, Target
from protocol3_conformance.verdict import (
    Outcome,
    State,
    in_scenarios_only,
    outcome_of,
    sentences,
)

PACKAGE = Path(__file__).parent


@dataclass(slots=True)
class Session:
    """What the hooks share. `target` is set once the scenarios are about to run."""

    recorder: Recorder
    target: Target | None = None
    conductor: Conductor | None = None
    runs: dict[str, Run] = field(default_factory=dict)


SESSION = pytest.StashKey[Session]()
DECIDED = "protocol3"
"""What the controlling process of xdist hands to the others under this name: options by their names."""


def scenario_of(item: Any) -> Scenario | None:
    """The scenario behind a pytest item, if it is one."""
    return getattr(getattr(item, "obj", None), ATTRIBUTE, None)


def scenarios_of(items: list[pytest.Item]) -> list[Scenario]:
    return [scenario for item in items if (scenario := scenario_of(item))]


def names_the_suite(config: pytest.Config) -> bool:
    """Whether this run is of scenarios: by a package name, a folder or file of them, or `-p` of this plugin."""
    if __name__ in config.option.plugins:
        return True
    named = [argument.partition("::")[0].partition(".")[0] for argument in config.args]
    if config.option.pyargs and PACKAGE.name in named:
        return True
    return any(PACKAGE.is_relative_to(place) or place.is_relative_to(PACKAGE) for place in _places(config))


def _names_all_of_it(config: pytest.Config) -> bool:
    """Whether the whole suite is named, not a file or a check of it. With xdist nobody collects before that counts."""
    whole = config.option.pyargs and PACKAGE.name in config.args
    return bool(whole or any(PACKAGE.is_relative_to(place) for place in _places(config))) and not config.option.keyword


def _places(config: pytest.Config) -> list[Path]:
    return [(config.invocation_params.dir / word.partition("::")[0]).resolve() for word in config.args]


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    decided = getattr(config, "workerinput", {}).get(DECIDED, {})
    for name, value in decided.items():
        setattr(config.option, name, value)
    choose_seed(config)
    recorder = Recorder(config)
    config.stash[SESSION] = Session(recorder)
    config.pluginmanager.register(recorder, "protocol3-recorder")


def pytest_cmdline_main(config: pytest.Config) -> None:
    """With xdist every process collects all scenarios and conducts its own share; other tests go as xdist likes.

    What only prints needs no further process.
    """
    if getattr(config.option, "numprocesses", None) and names_the_suite(config):
        config.option.dist = "no" if _only_prints(config) else "each"


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """With xdist only the controlling process asks whether the target is ready, and looks, before it starts the others.

    When most of the first look fails, the others are left nothing but that.
    """
    config = session.config
    alone = not getattr(config.option, "numprocesses", None) or config.option.collectonly or _only_prints(config)
    if alone or not names_the_suite(config):
        return
    target, shared = target_of(config), config.stash[SESSION]
    shared.recorder.begin(())  # a list that cannot be used is told here, not by each process
    shared.recorder.refuse_unwritable()
    _readiness(target)
    if _partial(config) or not _names_all_of_it(config):
        return
    first = [one for one in catalogue.everything().values() if one.check_id in SMOKE and not _missing(one, target)]
    conductor = Conductor(target)
    try:
        config.option.smoke = not _first_look(shared.recorder, conductor, first if COORDINATOR in target.roles else [])
    finally:
        conductor.stop()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist's processes read the command line anew; what this one has decided since goes along."""
    node.workerinput[DECIDED] = {name: getattr(node.config.option, name) for name in ("seed", "smoke")}


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
    if config.option.shuffle:
        random.Random(config.option.seed).shuffle(items)  # noqa: S311 - not for secrets
    worker = getattr(config, "workerinput", None)
    if worker and names_the_suite(config):
        items[:] = items[int(worker["workerid"][2:]) :: worker["workercount"]]
        # The slow ones begin first and are told last: meanwhile the controlling process shows how far the others are.
        items.sort(key=lambda item: (one := scenario_of(item)) is not None and one.slow)


def _chosen(config: pytest.Config, scenarios: list[Scenario]) -> set[str]:
    """Check IDs by `--check`, `--requirement`, `--smoke`.

    Without the first two all but those that wait for leases, unless `--with-expiry` asks for them.
    """
    option = config.option
    try:
        wanted = catalogue.selected(scenarios, option.check, option.requirement)
    except catalogue.UnknownName as error:
        raise pytest.UsageError(str(error)) from None
    if option.smoke:
        wanted &= set(SMOKE)
    roles = roles_of(config)
    wanted &= {one.check_id for one in scenarios if one.role in roles}
    named = option.check or option.requirement or _only_prints(config)
    if named or not scenarios or with_expiry(config):
        return wanted
    return wanted - {one.check_id for one in scenarios if EXPIRY in one.profiles}


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Conduct the scenarios while pytest asks for one result after the other; some options only print."""
    config, shared = session.config, session.config.stash[SESSION]
    option = config.option
    scenarios = scenarios_of(session.items)
    if _only_prints(config):
        _print(config, scenarios)
        session.items.clear()
        return (yield)
    if not scenarios or option.collectonly:
        return (yield)
    target = shared.target = target_of(config)
    shared.recorder.begin(one.check_id for one in scenarios)
    if not hasattr(config, "workerinput"):
        shared.recorder.refuse_unwritable()
        _readiness(target)
    shared.conductor = Conductor(target, flaky=shared.recorder.flaky)
    with _ended_in_order():
        try:
            _conduct(session, shared.conductor, [one for one in scenarios if not _missing(one, target)])
            return (yield)
        finally:
            shared.conductor.stop()


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM is taken as Ctrl-C is: what the run started is ended, and what was judged is written down.

    The workers under test are in process groups of their own, so they would outlive a suite that just dies.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are for that one alone
        yield
        return
    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former or signal.SIG_DFL)


def _conduct(session: pytest.Session, conductor: Conductor, scenarios: list[Scenario]) -> None:
    """Start the first look, and the others unless it failed; `session.items` is left with what was started."""
    config, option = session.config, session.config.option
    first = [] if _partial(config) else [one for one in scenarios if one.check_id in SMOKE]
    if not _first_look(config.stash[SESSION].recorder, conductor, first):
        begun = {one.check_id for one in first}
        session.items[:] = [item for item in session.items if (one := scenario_of(item)) and one.check_id in begun]
        return
    conductor.start([one for one in scenarios if one not in first])
    if not hasattr(config, "workerinput"):
        progress.watch(conductor, stop_after=option.maxfail)


def _first_look(recorder: Recorder, conductor: Conductor, first: list[Scenario]) -> bool:
    """Whether at least half of these hold, so that the others are worth a run."""
    conductor.start(first)
    failed = [one for one in first if isinstance(conductor.result(one.check_id).error, AssertionError)]
    if 2 * len(failed) <= len(first):
        return True
    recorder.stop_after_first_look(len(failed), len(first))
    return False


def _partial(config: pytest.Config) -> bool:
    """Whether this process was asked for some checks only, so that a first look would tell it nothing."""
    option = config.option
    selective = option.check or option.requirement or option.smoke or option.shuffle or option.baseline
    return bool(selective or option.no_smoke or hasattr(config, "workerinput"))


def _only_prints(config: pytest.Config) -> bool:
    option = config.option
    return bool(option.list_checks or option.list_crash_points or option.explain)


def _print(config: pytest.Config, scenarios: list[Scenario]) -> None:
    wanted = config.option.explain
    try:
        if config.option.list_crash_points:
            target = target_of(config) if any(given(config, role) for role in ROLES) else None
            text = points.listing((one.point for one in scenarios if one.point), target)
        else:
            text = catalogue.explanation(wanted, scenarios) if wanted else catalogue.listing(scenarios)
    except catalogue.UnknownName as error:
        raise pytest.UsageError(str(error)) from None
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line("")
    reporter.write_line(text)


def _readiness(target: Target) -> None:
    try:
        asyncio.run(readiness(target))
        asyncio.run(command_readiness(target))
    except Unusable as reason:
        raise pytest.UsageError(str(reason)) from None
    except Foreign as reason:
        pytest.exit(str(reason), returncode=pytest.ExitCode.TESTS_FAILED)


def _missing(scenario: Scenario, target: Target) -> list[str]:
    """Profiles and conditions that the scenario needs and the target's description does not name."""
    return [profile for profile in scenario.profiles if not target.claims(profile)]


@pytest.hookimpl(tryfirst=True)
def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Where two containers differ, and not that the rest is the same."""
    return comparison(op, left, right)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Wait for the conductor's result instead of calling the function."""
    scenario, shared = scenario_of(pyfuncitem), pyfuncitem.config.stash[SESSION]
    if scenario is None:
        return None
    assert shared.target is not None
    assert shared.conductor is not None
    if missing := _missing(scenario, shared.target):
        pytest.skip(f"not claimed: {', '.join(missing)}")
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
    """Attach the outcome, which crosses process borders with the report, and put the evidence under a failure."""
    report = yield
    scenario, shared = scenario_of(item), item.config.stash[SESSION]
    if scenario is None or report.when != "call" or shared.target is None:
        return report
    run = shared.runs.get(item.nodeid)
    outcome = outcome_of(run) if run else _not_claimed(scenario, shared.target)
    if run and report.failed:
        rerun = rerun_command(item.config, scenario.check_id)
        outcome = shared.recorder.weighed(dataclasses.replace(outcome, rerun=rerun))
        report.sections += [
            ("check", f"{scenario.check_id}: {scenario.title}\n{outcome.detail}"),
            ("requirements", sentences(outcome.cites)),
            ("exchanges", run.transcript.render()),
            ("run this check alone", f"{rerun}\nseed {shared.target.seed}"),
        ]
        if outcome.known or (outcome.state is State.FAILED and not outcome.scored):
            report.outcome = "skipped"
            report.wasxfail = outcome.known or "not scored"
    else:
        outcome = shared.recorder.weighed(outcome)
    item.user_properties += [("check", outcome.check_id), ("state", str(outcome.state))]  # JUnit's properties
    setattr(report, ATTACHED, outcome.to_json())
    return report


def _not_claimed(scenario: Scenario, target: Target) -> Outcome:
    return Outcome(
        check_id=scenario.check_id,
        title=scenario.title,
        state=State.NOT_CLAIMED,
        cites=scenario.cites,
        profiles=scenario.profiles,
        detail=f"needs {', '.join(_missing(scenario, target))}",
    )
