"""Collects the outcomes from pytest's reports, which also cross process borders, draws the verdict, writes reports."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from protocol3_conformance import baseline, catalogue
from protocol3_conformance.options import roles_of, target_of, whole_command, with_expiry
from protocol3_conformance.report import document, writers
from protocol3_conformance.revision import Revision, UnknownRevision, revision
from protocol3_conformance.target import EXPIRY, RESTART, TESTING
from protocol3_conformance.verdict import Outcome, State, exit_code

ATTACHED = "protocol3_outcome"
"""The attribute of a pytest report that holds the outcome as JSON."""


class Recorder:
    """One run: its outcomes, what counts of them, and what is known to fail."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._outcomes: list[Outcome] = []
        self._known: dict[str, str] = {}
        self.flaky: dict[str, str] = {}
        self._stale: list[str] = []
        self._stopped: str | None = None
        self._began = dt.datetime.now(dt.UTC)
        self._document: dict[str, Any] | None = None
        try:
            self._revision: Revision = revision(config.option.revision)
        except UnknownRevision as error:
            raise pytest.UsageError(f"--revision: {error}") from None

    def begin(self, check_ids: Iterable[str]) -> None:
        """Read what is known to fail or to be flaky, now that all checks are known. Raises UsageError."""
        names = {*catalogue.everything(), *check_ids}
        self._known, self.flaky = self._list("baseline", names), self._list("known-flaky", names)
        if both := sorted(self._known.keys() & self.flaky):
            raise pytest.UsageError(f"--known-flaky: {both[0]} is in the baseline too; take it out of one of them")

    def _reports(self) -> dict[str, str | None]:
        return {name: getattr(self._config.option, f"report_{name}") for name in writers.WRITERS}

    def refuse_unwritable(self) -> None:
        """See that all that is asked for can be written when the run has ended. Raises UsageError."""
        asked = {f"--report-{name}": path for name, path in self._reports().items()}
        for option, path in {**asked, "--write-baseline": self._config.option.write_baseline}.items():
            try:
                if path:
                    writers.probe(path)
            except OSError as error:
                raise pytest.UsageError(f"{option} {path}: this file cannot be written: {error.strerror}") from None

    def _list(self, option: str, names: set[str]) -> dict[str, str]:
        path = self._config.getoption(f"--{option}")
        try:
            return baseline.read(Path(path), names, option=option) if path else {}
        except baseline.BadBaseline as error:
            raise pytest.UsageError(f"--{option} {error}") from None

    def stop_after_first_look(self, failed: int, of: int) -> None:
        """The run ends here; the summary says how to go on."""
        self._stopped = (
            f"{failed} of the {of} checks of the first look failed, so the others were not run: correct these first "
            f"(--smoke runs just them), or add --no-smoke to judge the whole suite all the same"
        )

    def weighed(self, outcome: Outcome) -> Outcome:
        """The outcome with what revision and baseline say of it."""
        scored = self._revision.scores(outcome.check_id)
        known = self._known.get(outcome.check_id) if outcome.state is State.FAILED else None
        if outcome.flaky:
            reason = self.flaky[outcome.check_id]
            known = f"flaky, failed in {outcome.attempts - 1} of {outcome.attempts} runs: {reason}"
        state = State.KNOWN_FAILURE if known else outcome.state
        return dataclasses.replace(outcome, scored=scored, known=known, state=state)

    def pytest_report_header(self) -> str | None:
        option = self._config.option
        named = (option.target, option.runtime_command, option.worker_command, option.target_file)
        place = ", ".join(one for one in named if one)
        return f"protocol3: judging {place} by revision {self._revision.name}, seed {option.seed}" if place else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if attached := getattr(report, ATTACHED, None):
            self._outcomes.append(Outcome.from_json(attached))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if not self._outcomes or hasattr(self._config, "workerinput"):
            return
        self.begin(outcome.check_id for outcome in self._outcomes)  # with xdist the others read it, not this process
        self._stale = baseline.stale(self._known, self._outcomes)
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not self._others_failed(session):
            session.exitstatus = exit_code(self._outcomes, stale=bool(self._stale))
        option = self._config.option
        self._document = document.document(
            target_of(self._config),
            self._outcomes,
            revision=self._revision,
            suite=[one for one in catalogue.everything().values() if self._revision.scores(one.check_id)],
            began=self._began,
            command=whole_command(self._config),
            stale=self._stale,
        )
        writers.write(self._document, self._reports())
        if option.write_baseline:
            baseline.write(Path(option.write_baseline), self._outcomes, self._known)

    def _others_failed(self, session: pytest.Session) -> bool:
        """Whether tests beside the scenarios failed, or a scenario outside its call: the code is pytest's then."""
        bad = [one for one in self._outcomes if one.state in (State.FAILED, State.HARNESS_ERROR)]
        return session.testsfailed > sum(one.scored or one.state is State.HARNESS_ERROR for one in bad)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        report = self._document
        if report is None:
            return
        counts = Counter(outcome.state for outcome in self._outcomes)
        summary = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
        exchanges = sum(outcome.exchanges for outcome in self._outcomes)
        left_out = sum(len(one["left_out"]) for one in report["profiles"].values())
        rest = f", {left_out} checks of the suite left out" if left_out else ""
        terminalreporter.section("conformance")
        for line in self._loud(left_out):
            terminalreporter.line(line)
        for one in report["measurements"]:
            if one["check"]:
                terminalreporter.line(f"measured: {one['check']}: {one['name']} {one['value']:g} {one['unit']}")
        for name, one in report["profiles"].items():
            terminalreporter.line(f"  {name:14} {one['verdict']}")
        if report["claim"]:
            terminalreporter.line(f"The target {report['claim']}.")
        terminalreporter.line(f"{report['verdict']}: {summary}{rest}; {exchanges} exchanges, seed {report['seed']}")

    def _loud(self, left_out: int) -> Iterable[str]:
        """What must not be overlooked, a line each."""
        if self._stopped:
            yield self._stopped
        for outcome in self._outcomes:
            if outcome.state is State.NOT_DETERMINED:
                yield f"not determined: {outcome.check_id}: {outcome.detail.partition(chr(10))[0]}"
            if outcome.flaky:
                yield f"{outcome.check_id}: {outcome.known}"
            if outcome.state is State.FAILED and not outcome.scored:
                yield f"failed, not scored by revision {self._revision.name}: {outcome.check_id}"
        for check_id in self._stale:
            yield f"known failure that did not fail: {check_id}; take it out of {self._config.option.baseline}"
        target = target_of(self._config)
        unreached = [one for one in self._outcomes if RESTART in one.profiles and one.state is State.NOT_CLAIMED]
        if unreached and not target.claims(RESTART):
            yield (
                f"the target must be killed and started again for {len(unreached)} of the checks: name commands in "
                "--target-file, and one process only (no -n)"
            )
        if unseen := [name for name in TESTING if name in target.profiles and not target.claims(name)]:
            yield (
                f"{', '.join(unseen)}: claimed, and not judged on a bound service, where all checks would share one "
                "clock and one list of fault rules; judge a service that serves any scope, without --scope"
            )
        everything = catalogue.everything()
        judged = {outcome.check_id for outcome in self._outcomes}
        due = [one for one in everything.values() if EXPIRY in one.profiles and one.role in roles_of(self._config)]
        if left_out and not with_expiry(self._config) and any(one.check_id not in judged for one in due):
            yield "the checks that wait for leases were left out; a claim needs them: --with-expiry"
