"""States beyond a single check: requirements, profiles, the claim, the revision's set, the baseline, redaction."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from protocol3_conformance import baseline, catalogue, judgement, revision
from protocol3_conformance.smoke import SMOKE
from protocol3_conformance.target import COORDINATOR, PROFILES, TESTING, Patience, Target
from protocol3_conformance.verdict import ExitCode, Outcome, State, exit_code
from protocol3_conformance.wire import redaction
from protocol3_conformance.wire.peer import Endpoint

pytest_plugins = ["pytester"]
SUITE = catalogue.everything()
SAMPLE = '''
from protocol3_conformance.scenario import scenario

@scenario("sample/holds", cites=["TASK-100"])
async def test_holds(lab):
    """It holds."""

@scenario("sample/fails", cites=["TASK-104"])
async def test_fails(lab):
    """It fails."""
    raise AssertionError("as it does")
'''


def target(*profiles: str) -> Target:
    return Target(
        endpoint=Endpoint.parse("http://127.0.0.1:1"),
        profiles=frozenset(profiles or PROFILES),
        scope=None,
        program=("p", "1"),
        patience=Patience(),
        seed=1,
    )


def outcome(check_id: str = "sample/one", state: State = State.PASSED, *profiles: str, **more: object) -> Outcome:
    values = {"cites": ("TASK-100",), **more}
    return Outcome(check_id=check_id, title="", state=state, profiles=profiles or ("core",), **values)  # type: ignore[arg-type]  # of a test


def everything(state: State = State.PASSED, *, but: dict[str, State] | None = None) -> list[Outcome]:
    """An outcome of every check of the suite that a free target with all profiles owes."""
    due = [one for one in SUITE.values() if judgement.demanded(one, target())]
    states = but or {}
    return [
        Outcome(
            check_id=one.check_id,
            title="",
            state=states.get(one.check_id, state),
            cites=one.cites,
            profiles=one.profiles,
        )
        for one in due
    ]


def claimed(outcomes: list[Outcome], *profiles: str) -> tuple[str, str | None]:
    verdicts = judgement.by_profile(outcomes, SUITE.values(), target(*profiles))
    return judgement.overall(verdicts), judgement.claim(verdicts, "1.0")


def test_the_claim_of_a_run_without_a_flaw() -> None:
    word, claim = claimed(everything())
    assert word == "conformant"
    assert claim == (
        "conforms to core, forks, subworkflows, discovery of Ledgence runtime protocol 3, specification 1.0"
    )


def test_nothing_of_all_scenarios_is_changed_by_one_of_them() -> None:
    """On a bound service all share one clock and one list of fault rules: what changes those is not claimed there."""
    bound = dataclasses.replace(target(*PROFILES, *TESTING), scope=("t", "n"))
    for one in SUITE.values():
        changes = set(TESTING) & set(one.profiles)
        assert not (changes and all(map(bound.claims, one.profiles))), f"{one.check_id} needs {changes}"
    assert not any(one.point and "faults" in one.point.ways(bound) for one in SUITE.values())


@pytest.mark.parametrize("check", ["submission/first-acceptance", "forks/replay-and-conflict", "expiry/lease"])
@pytest.mark.parametrize(
    ("state", "word"),
    [
        (State.FAILED, "not conformant"),
        (State.KNOWN_FAILURE, "not conformant"),
        (State.NOT_DETERMINED, "not determined"),
        (State.HARNESS_ERROR, "not determined"),
    ],
)
def test_one_flaw_takes_the_claim_away(check: str, state: State, word: str) -> None:
    """Of any profile that is claimed, checks that wait for leases included."""
    chosen = next((one for one in SUITE if one == check), None) or next(
        one.check_id for one in SUITE.values() if "expiry" in one.profiles
    )
    assert claimed(everything(but={chosen: state})) == (word, None)


def test_a_check_left_out_takes_the_claim_away() -> None:
    for missing in everything():
        rest = [one for one in everything() if one.check_id != missing.check_id]
        assert claimed(rest) == ("not determined", None)


def test_a_profile_that_is_not_claimed_does_not_count() -> None:
    rest = ("core", "subworkflows", "discovery")
    of_forks = {one.check_id for one in SUITE.values() if "forks" in one.profiles}
    failed, unclaimed = (everything(but=dict.fromkeys(of_forks, state)) for state in (State.FAILED, State.NOT_CLAIMED))
    assert claimed(unclaimed, *rest) == (
        "conformant",
        "conforms to core, subworkflows, discovery of Ledgence runtime protocol 3, specification 1.0",
    )
    assert claimed(failed)[0] == "not conformant"


def test_what_is_not_scored_does_not_count() -> None:
    later = outcome(state=State.FAILED, scored=False)
    assert claimed([*everything(), later])[0] == "conformant"
    assert exit_code([outcome(), later]) == 0


def test_a_requirement_has_the_worst_state_of_its_checks() -> None:
    """And where the wire layer stopped a check, only the rule it names is broken."""
    stopped = outcome("sample/two", State.FAILED, cites=("HTTP-062", "TASK-100", "TASK-104"), broken=("HTTP-062",))
    states = {name: one["state"] for name, one in judgement.by_requirement([outcome(), stopped]).items()}
    assert states == {"HTTP-062": "failed", "TASK-100": "not-determined", "TASK-104": "not-determined"}


@pytest.mark.parametrize(
    ("states", "stale", "code"),
    [
        ([State.PASSED, State.NOT_CLAIMED, State.KNOWN_FAILURE], False, 0),
        ([State.NOT_DETERMINED], False, ExitCode.NOT_DETERMINED),
        ([State.NOT_DETERMINED], True, ExitCode.STALE_BASELINE),
        ([State.NOT_DETERMINED, State.HARNESS_ERROR], True, ExitCode.HARNESS_ERROR),
        ([State.NOT_DETERMINED, State.HARNESS_ERROR, State.FAILED], True, 1),
    ],
)
def test_exit_codes(states: list[State], stale: bool, code: int) -> None:
    assert exit_code([outcome(state=state) for state in states], stale=stale) == code


def test_the_revisions_are_sound() -> None:
    """A set whose seal is broken was edited by hand; a check that is gone was renamed."""
    for name in revision.names():
        assert revision.faults(name, SUITE) == []


def test_a_new_check_is_not_scored_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by being there, nor by a line in the file: that breaks the seal."""
    content = revision.read("1.0")
    assert not revision.revision("1.0").scores("sample/new")
    changed = {**content, "checks": {**content["checks"], "core": [*content["checks"]["core"], "sample/new"]}}
    monkeypatch.setattr(revision, "read", lambda _: changed)
    assert revision.faults("1.0", SUITE) == [
        "the set was changed without its seal",
        "sample/new is no check of profile core any more",
    ]


def test_unknown_revision() -> None:
    with pytest.raises(revision.UnknownRevision, match=r"there are .*1\.0.* and all"):
        revision.revision("0.9")


def test_the_first_look_is_small_and_touches_every_quick_subject() -> None:
    assert 25 <= len(SMOKE) <= 35
    assert set(SMOKE) <= set(SUITE)
    assert not [name for name in SMOKE if SUITE[name].slow]
    # with -n the controlling process takes the first look, and nobody but a single process may kill the target
    assert not [name for name in SMOKE if SUITE[name].deadly]
    subjects = {name.partition("/")[0] for name, one in SUITE.items() if one.role == COORDINATOR}
    deeper = {
        "races",
        "contests",
        "crashes",
        "expiry",
        "text",
        "activation",
        "order",
        "virtual-time",
        "faults",
        "workflow-time",
        "refusals",
        "trouble",
        "stateful",
        "together",
        "waiting",
    }
    assert subjects - {name.partition("/")[0] for name in SMOKE} <= deeper


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sample/onne", "no check is called sample/onne; did you mean sample/one?"),
        ("sample/one\nsample/one # again", "sample/one is listed twice"),
    ],
)
def test_a_baseline_that_names_nothing_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "known"
    path.write_text(text)
    with pytest.raises(baseline.BadBaseline, match=sentence.replace("?", r"\?")):
        baseline.read(path, ["sample/one"])


def test_a_baseline_of_any_editor(tmp_path: Path) -> None:
    """With a byte order mark and CRLF, as some write text."""
    path = tmp_path / "known"
    path.write_bytes(b"\xef\xbb\xbf# known\r\nsample/one  # issue 7\r\n")
    assert baseline.read(path, ["sample/one"]) == {"sample/one": "issue 7"}


def test_a_written_baseline_keeps_its_reasons(tmp_path: Path) -> None:
    path = tmp_path / "known"
    found = [outcome("sample/b", State.KNOWN_FAILURE), outcome("sample/a", State.FAILED), outcome("sample/c")]
    assert baseline.write(path, found, {"sample/b": "issue 7"}) == 2
    assert baseline.read(path, ["sample/a", "sample/b"]) == {"sample/a": "to do", "sample/b": "issue 7"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a":1,"access_token":"s3cret","b":"x"}', '{"a":1,"access_token":"[redacted]","b":"x"}'),
        ('{"Password" : "s3\\"cret"}', '{"Password" : "[redacted]"}'),
        ('{"api_key":"s3cre', '{"api_key":"[redacted]"'),
        ("postgres://user:s3cret@db/x", "postgres://[redacted]@db/x"),
        ('{"source":"urn:a","cursor":"c"}', '{"source":"urn:a","cursor":"c"}'),
    ],
)
def test_credentials_are_masked(text: str, shown: str) -> None:
    assert redaction.text(text) == shown


def test_headers_are_masked() -> None:
    assert redaction.header("Set-Cookie", "s3cret") == redaction.header("Authorization", "s3cret") == "[redacted]"
    assert redaction.header("Content-Type", "application/json") == "application/json"


@pytest.fixture
def run(pytester: pytest.Pytester, obliging_target: str) -> Callable[..., pytest.RunResult]:
    pytester.makepyfile(test_sample=SAMPLE)
    plugin = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--target", obliging_target]
    return lambda *options: pytester.runpytest_subprocess(*plugin, *options, timeout=60)


def test_known_failures_are_strict_both_ways(run: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    """What is known to fail is no failure; what is known and holds is an error; the rest fails as ever."""
    everything = ("--revision", "all")
    assert run(*everything, "--write-baseline", "known").ret == 1
    assert (pytester.path / "known").read_text().splitlines()[1:] == ["sample/fails  # to do"]
    accepted = run(*everything, "--baseline", "known", "--report-json", "report.json")
    assert accepted.ret == 0
    accepted.assert_outcomes(passed=1, xfailed=1)
    accepted.stdout.fnmatch_lines(["not conformant: 1 passed, 1 known-failure*"])
    states = {one["id"]: one for one in json.loads((pytester.path / "report.json").read_text())["checks"]}
    assert (states["sample/fails"]["state"], states["sample/fails"]["known"]) == ("known-failure", "to do")
    (pytester.path / "known").write_text("sample/fails\nsample/holds\n")
    over = run(*everything, "--baseline", "known")
    assert over.ret == ExitCode.STALE_BASELINE
    over.stdout.fnmatch_lines(["known failure that did not fail: sample/holds; take it out of known"])
    (pytester.path / "known").write_text("sample/gone\n")
    refused = run(*everything, "--baseline", "known")
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*--baseline known:1: no check is called sample/gone*"])


def test_a_check_that_does_not_score(run: Callable[..., pytest.RunResult]) -> None:
    """It runs, its failure is told, and the exit code is that of the others."""
    result = run("--revision", "1.0")
    assert result.ret == 0
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(["failed, not scored by revision 1.0: sample/fails"])


def test_the_command_of_a_run_repeats_its_choices(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    """And JUnit names check and state of every test."""
    chosen = ("--seed", "4", "--revision", "all", "--concurrency", "2", "--shuffle", "--check", "sample/*")
    run(*chosen, "--report-json", "report.json", "--junitxml", "junit.xml")
    report = json.loads((pytester.path / "report.json").read_text())
    command = report["reproduce"].partition(" --seed ")[2]
    assert command == "4 --revision all --concurrency 2 --shuffle --check 'sample/*'"
    properties = [one.attrib for one in ElementTree.parse(pytester.path / "junit.xml").iter("property")]
    found = {(one["name"], one["value"]) for one in properties}
    assert {("check", "sample/fails"), ("state", "failed"), ("check", "sample/holds"), ("state", "passed")} <= found


def test_by_requirement_and_shuffled(run: Callable[..., pytest.RunResult]) -> None:
    run("--requirement", "TASK-100", "--shuffle").assert_outcomes(passed=1)
    refused = run("--requirement", "TASK-105")
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*no check cites TASK-105*"])
