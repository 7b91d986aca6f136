"""The plugin from outside: options, states, exit codes, reports, selection, other plugins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

SCENARIOS = '''
import asyncio
import pytest
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.faults import NotDetermined


@scenario("sample/holds", cites=["TASK-100"])
async def test_holds(lab):
    """It holds."""
    assert (await lab.client.task())["state"] == "queued"


@scenario("sample/fails", cites=["TASK-104", "DLV-074"])
async def test_fails(lab):
    """It fails."""
    await lab.client.task(data="evidence")
    with lab.case("the second half"):
        assert (await lab.client.status("t")).accepted()


@scenario("sample/breaks", cites=["TASK-100"])
async def test_breaks(lab):
    """The suite itself is wrong."""
    raise RuntimeError("a mistake of the suite")


@scenario("sample/open", cites=["TASK-100"])
async def test_open(lab):
    """Nothing can be said."""
    raise NotDetermined("no occasion")


@scenario("sample/forks-only", cites=["FRK-002"], profile="core forks")
async def test_forks_only(lab):
    """Needs a profile."""


def test_ordinary():
    """A test beside the scenarios runs as usual."""
'''
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--revision", "all"]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run pytest with the plugin on the sample scenarios: run("sample/holds", "--target", URL)."""
    pytester.makepyfile(test_sample=SCENARIOS)

    def call(*checks: str, options: list[str]) -> pytest.RunResult:
        selected = [word for check in checks for word in ("--check", check)]
        return pytester.runpytest_subprocess(*PLUGIN, *selected, *options, timeout=60)

    return call


def test_without_target_one_sentence(run: Callable[..., pytest.RunResult]) -> None:
    result = run(options=[])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*name the service to judge with --target http://HOST:PORT*"])
    result.stderr.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", "ftp://x"], "*--target 'ftp://x' is not of the form http://HOST:PORT*"),
        (["--target", "http://h", "--profile", "core,fork"], "*--profile: fork is not one of core, forks*"),
        (["--target", "http://h", "--profile", "forks"], "*core is not optional*"),
        (["--target", "http://h", "--scope", "acme"], "*--scope acme: expected TENANT/NAMESPACE*"),
        (["--target", "http://h", "--program", "hello"], "*--program hello: expected ID@VERSION*"),
        (["--target", "http://h", "--patience", "0"], "*--patience must be a number above 0*"),
        (["--target", "http://h", "--check", "sample/nope"], "*--check sample/nope matches no check; did you mean*"),
        (["--explain", "TASK-10"], "*no requirement is called TASK-10; did you mean TASK-100*"),
        (["--explain", "task-104"], "*no requirement is called task-104; did you mean TASK-104?*"),
        (["--target", "http://h", "--patience", "inf"], "*--patience must be a number above 0*"),
        (["--target", "http://127.0.0.1:1"], "*cannot connect to 127.0.0.1:1*Start the server under test there*"),
    ],
)
def test_usage_errors(run: Callable[..., pytest.RunResult], options: list[str], sentence: str) -> None:
    """Wrong options end the run with exit code 4 and one sentence that says what to do."""
    result = run(options=options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([sentence])
    result.stderr.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    "option", ["--report-json", "--report-html", "--report-md", "--report-badge", "--write-baseline"]
)
@pytest.mark.parametrize("path", ["missing/file", "."])
def test_what_cannot_be_written_is_told_before_the_run(
    run: Callable[..., pytest.RunResult], obliging_target: str, option: str, path: str
) -> None:
    """Not after it, when the verdicts would be lost with it and the code would say that a check failed."""
    result = run("sample/holds", options=["--target", obliging_target, option, path])
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option} {path}: *cannot be written*"])
    result.stderr.no_fnmatch_line("*Traceback*")


def test_a_run_that_cannot_begin_writes_nothing(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    (pytester.path / "old.json").write_text("of an earlier run")
    reports = ["--report-json", "old.json", "--report-html", "new.html"]
    assert run("sample/holds", options=["--target", "http://127.0.0.1:1", *reports]).ret == pytest.ExitCode.USAGE_ERROR
    assert (pytester.path / "old.json").read_text() == "of an earlier run"
    assert not (pytester.path / "new.html").exists()


def test_all_hold(run: Callable[..., pytest.RunResult], obliging_target: str) -> None:
    result = run("sample/holds", options=["--target", obliging_target])
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["not determined: 1 passed, * checks of the suite left out; 1 exchanges*"])


def test_a_failure_shows_its_evidence(run: Callable[..., pytest.RunResult], obliging_target: str) -> None:
    """Requirement texts, what was expected and came, the exchanges, and the command for this check alone."""
    result = run("sample/*", options=["--target", obliging_target, "--seed", "7"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=3, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*expected success of GET /v1/tasks/status, came 404*",
            "*in the case: the second half*",
            "*TASK-104  A second submission with the same key*",
            "*POST /v1/tasks*",
            "*evidence*",
            "*pytest conformance --target * --seed 7 --check sample/fails*",
            "*not conformant:*1 failed*",
        ]
    )


def test_a_bare_assertion_tells_both_sides(pytester: pytest.Pytester, obliging_target: str) -> None:
    """In roles as in scenarios, without help of the environment: a naked comparison is no message."""
    pytester.makepyfile(
        test_sample="""
        from protocol3_conformance.roles.values_for_tests import compare
        from protocol3_conformance.scenario import scenario

        @scenario("sample/naked", cites=["TASK-100"])
        async def test_naked(lab):
            compare(await lab.client.task())
        """
    )
    roles = pytester.mkdir("roles")
    (roles / "values_for_tests.py").write_text("def compare(task):\n    assert task['state'] == 'running'\n")
    pytester.makeconftest("import protocol3_conformance.roles as roles\n" + f"roles.__path__.append({str(roles)!r})\n")
    result = pytester.runpytest_subprocess(*PLUGIN, "--target", obliging_target, "--report-json", "report.json")
    result.stdout.fnmatch_lines(["*assert 'queued' == 'running'*"])
    (check,) = json.loads((pytester.path / "report.json").read_text("utf-8"))["checks"]
    assert check["detail"].startswith("assert 'queued' == 'running'")


def test_the_suites_own_errors_have_their_own_code(run: Callable[..., pytest.RunResult], obliging_target: str) -> None:
    result = run("sample/holds", "sample/breaks", "sample/open", options=["--target", obliging_target])
    assert result.ret == 11
    result.stdout.fnmatch_lines(["*RuntimeError: a mistake of the suite*", "not determined: *1 harness-error*"])


def test_what_was_not_determined_has_its_own_code(run: Callable[..., pytest.RunResult], obliging_target: str) -> None:
    result = run("sample/holds", "sample/open", options=["--target", obliging_target, "-rs"])
    assert result.ret == 10
    result.stdout.fnmatch_lines(["*not determined: no occasion*"])


def test_unclaimed_profiles_are_not_claimed(run: Callable[..., pytest.RunResult], obliging_target: str) -> None:
    checks = ("sample/holds", "sample/forks-only")
    result = run(*checks, options=["--target", obliging_target, "--profile", "core", "-rs"])
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*not claimed: forks*"])
    assert run(*checks, options=["--target", obliging_target]).ret == pytest.ExitCode.OK


def test_claims_that_a_bound_service_cannot_show_are_told(
    run: Callable[..., pytest.RunResult], obliging_target: str
) -> None:
    """Its checks would share one clock and one list of rules, so nobody judges them; that must not be overlooked."""
    words = ["--target", obliging_target, "--profile", "core,virtual-time,faults"]
    line = "virtual-time, faults: claimed, and not judged on a bound service*"
    bound = run("sample/holds", options=[*words, "--scope", "acme/demo"])
    bound.stdout.fnmatch_lines([line])
    run("sample/holds", options=words).stdout.no_fnmatch_line(line)


def test_waiting_checks_run_only_when_asked_for(pytester: pytest.Pytester, obliging_target: str) -> None:
    """`--with-expiry`, or their own name."""
    declaration = (
        '@scenario("sample/waits", cites=["DLV-110"], profile="core expiry")\nasync def test_waits(lab): ...\n'
    )
    pytester.makepyfile(test_sample=SCENARIOS.partition("@scenario")[0] + declaration)
    arguments = (*PLUGIN, "--target", obliging_target)
    assert pytester.runpytest_subprocess(*arguments).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    for option in (["--with-expiry"], ["--check", "sample/waits"]):
        pytester.runpytest_subprocess(*arguments, *option).assert_outcomes(passed=1)


def test_json_report(run: Callable[..., pytest.RunResult], obliging_target: str, pytester: pytest.Pytester) -> None:
    report = pytester.path / "report.json"
    run("sample/*", options=["--target", obliging_target, "--report-json", str(report), "--seed", "3"])
    document = json.loads(report.read_text("utf-8"))
    assert (document["verdict"], document["seed"], document["claim"]) == ("not conformant", 3, None)
    assert document["target"]["url"] == obliging_target
    states = {check["id"]: check["state"] for check in document["checks"]}
    assert states == {
        "sample/holds": "passed",
        "sample/fails": "failed",
        "sample/breaks": "harness-error",
        "sample/open": "not-determined",
        "sample/forks-only": "passed",
    }
    assert document["requirements"]["TASK-100"]["state"] == "harness-error"
    assert document["requirements"]["DLV-074"].items() >= {"state": "failed", "checks": ["sample/fails"]}.items()


def test_list_and_explain_need_no_target(run: Callable[..., pytest.RunResult]) -> None:
    listed = run(options=["--list"])
    assert listed.ret == pytest.ExitCode.OK
    listed.stdout.fnmatch_lines(["sample/holds*core*It holds.", "*5 checks cite 4 requirements*"])
    explained = run(options=["--explain", "TASK-104"])
    assert explained.ret == pytest.ExitCode.OK
    explained.stdout.fnmatch_lines(["TASK-104 (MUST, coordinator, 06-tasks.md: Repetition)", "*sample/fails*It fails."])


def test_stop_at_the_first_failure(run: Callable[..., pytest.RunResult], obliging_target: str) -> None:
    result = run("sample/*", options=["--target", obliging_target, "-x"])
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    result.assert_outcomes(passed=1, failed=1)


def test_with_xdist(run: Callable[..., pytest.RunResult], obliging_target: str, pytester: pytest.Pytester) -> None:
    """Each process conducts its share by the one seed; the report has every check once."""
    report = pytester.path / "report.json"
    words = ["--target", obliging_target, "-p", "xdist", "-n", "2", "--report-json", str(report)]
    shown = run("sample/*", options=words).stdout.str()
    assert len(set(re.findall(r"seed (\d+)", shown))) == 1
    checks = [check["id"] for check in json.loads(report.read_text("utf-8"))["checks"]]
    assert sorted(checks) == ["sample/breaks", "sample/fails", "sample/forks-only", "sample/holds", "sample/open"]


@pytest.mark.parametrize("words", [["--list"], ["--explain", "TASK-100"], ["--list", "--check", "sample/h*"]])
def test_what_only_prints_is_the_same_with_xdist(run: Callable[..., pytest.RunResult], words: list[str]) -> None:
    alone, shared = (run(options=[*more, *words, "-q"]) for more in ([], ["-p", "xdist", "-n", "2"]))
    assert shared.ret == alone.ret == pytest.ExitCode.OK
    assert [line for line in shared.outlines if "sample/" in line] == [
        line for line in alone.outlines if "sample/" in line
    ]
    assert any("sample/holds" in line for line in alone.outlines)


BASELINED = """
from protocol3_conformance.scenario import scenario


@scenario("submission/first-acceptance", cites=["TASK-100"])
async def test_fails(lab):
    raise AssertionError("as known")


@scenario("events/wake", cites=["TASK-100"])
async def test_holds(lab): ...
"""


def test_a_baseline_with_xdist(pytester: pytest.Pytester, obliging_target: str) -> None:
    """Written, read and strict as without it."""
    pytester.makepyfile(test_sample=BASELINED)
    known = pytester.path / "known"

    def shared(*words: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(*PLUGIN, "--target", obliging_target, "-p", "xdist", "-n", "2", *words)

    assert shared("--write-baseline", "known").ret == 1
    assert "submission/first-acceptance" in known.read_text("utf-8")
    assert shared("--baseline", "known").ret == 0
    known.write_text("submission/first-acceptance\nevents/wake\n")
    stale = shared("--baseline", "known")
    assert stale.ret == 12
    stale.stdout.fnmatch_lines(["known failure that did not fail: events/wake*"])
    known.write_text("events/woke\n")
    unknown = shared("--baseline", "known")
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    unknown.stderr.fnmatch_lines(["*--baseline known:1: no check is called events/woke; did you mean events/wake?*"])


def test_xdist_is_left_alone_where_the_suite_is_not_named(pytester: pytest.Pytester) -> None:
    """Its conftest loads the plugin for the tests beside the suite as well; each of them runs once."""
    folder = pytester.mkdir("tests")
    (folder / "conftest.py").write_text(
        "def pytest_addoption(pluginmanager): pluginmanager.import_plugin('protocol3_conformance.plugin')"
    )
    (folder / "test_ordinary.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(6))\n"
        "def test_ordinary(n, request): assert request.config.workerinput and request.config.option.seed == 3\n"
    )
    result = pytester.runpytest_subprocess("-p", "xdist", "-n", "2", "--seed", "3", "-v", "tests", timeout=60)
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["scheduling tests via LoadScheduling"])


def test_two_checks_with_one_id(pytester: pytest.Pytester) -> None:
    one = SCENARIOS.partition("@scenario")[0]
    twice = '@scenario("sample/same", cites=["TASK-100"])\nasync def test_{}(lab): ...\n'
    pytester.makepyfile(test_sample=one + twice.format("a") + twice.format("b"))
    result = pytester.runpytest_subprocess(*PLUGIN, "--list")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*declared twice: sample/same*"])


@pytest.mark.parametrize(
    ("declaration", "sentence"),
    [
        ('scenario("sample/x", cites=["TASK-999"])', "*cites requirements that do not exist: TASK-999*"),
        ('scenario("sample/x", cites=[])', "*cites no requirement*"),
        ('scenario("Sample", cites=["TASK-100"])', "*is not of the form subject/what-is-checked*"),
        ('scenario("sample/x", cites=["TASK-100"], profile="core fork")', "*profiles that do not exist: fork*"),
    ],
)
def test_ill_declared_checks(pytester: pytest.Pytester, declaration: str, sentence: str) -> None:
    pytester.makepyfile(test_sample=f"from protocol3_conformance.scenario import scenario\n{declaration}")
    result = pytester.runpytest_subprocess(*PLUGIN, "--list")
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines([sentence])


def test_a_foreign_option_of_the_same_name(pytester: pytest.Pytester) -> None:
    """One sentence names the option and the remedy."""
    pytester.makepyfile(foreign="def pytest_addoption(parser): parser.addoption('--target')")
    result = pytester.runpytest_subprocess("-p", "foreign", *PLUGIN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--target is also an option of another installed plugin*add -p no:THAT_PLUGIN*"])


def test_other_projects_see_nothing(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the suite is not named only the shim is loaded, and the project's own --target works."""
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--target')")
    pytester.makepyfile(
        test_mine="""
        import sys

        def test_mine(request):
            assert request.config.option.target == "mine"
            loaded = [name for name in sys.modules if name.startswith("protocol3_conformance")]
            assert loaded in (["protocol3_conformance", "protocol3_conformance._entry"], [])
        """
    )
    monkeypatch.setenv("PYTEST_PLUGINS", "protocol3_conformance._entry")
    result = pytester.runpytest_subprocess("--target", "mine")
    assert result.ret == pytest.ExitCode.OK


def test_named_as_a_package(pytester: pytest.Pytester) -> None:
    """`--pyargs protocol3_conformance` in an empty folder knows the options (the shim loads the plugin early)."""
    arguments = ["--pyargs", "protocol3_conformance", "--list", "-p", "no:cacheprovider"]
    result = pytester.runpytest_subprocess("-p", "protocol3_conformance._entry", *arguments)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["submission/first-acceptance*"])


def test_help_shows_the_options(pytester: pytest.Pytester) -> None:
    arguments = ["--pyargs", "protocol3_conformance", "--help"]
    result = pytester.runpytest_subprocess("-p", "protocol3_conformance._entry", *arguments)
    result.stdout.fnmatch_lines(["*conformance with runtime protocol 3*", "*--target=URL*", "*--explain=REQ-ID*"])
