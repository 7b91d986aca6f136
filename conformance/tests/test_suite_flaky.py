"""Checks that are known to be flaky: further attempts, what is told of them, and the list that names them."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]
PLUGIN = ["-p", "protocol3_conformance.plugin", "-p", "no:cacheprovider", "--revision", "all"]
FLAKY = """
from protocol3_conformance.scenario import scenario

TRIES = {"sample/settles": 0, "sample/never": 0}
SEEN = []


def tried(lab, wanted):
    name = lab.unique("name")
    if name in SEEN:
        raise RuntimeError("a further attempt has names of its own")
    SEEN.append(name)
    TRIES[lab.check_id] += 1
    assert TRIES[lab.check_id] > wanted, f"attempt {TRIES[lab.check_id]} failed"


@scenario("sample/settles", cites=["TASK-100"])
async def test_settles(lab):
    tried(lab, 2)


@scenario("sample/never", cites=["TASK-100"])
async def test_never(lab):
    tried(lab, 9)
"""


@pytest.mark.parametrize(
    ("listed", "code", "state", "attempts"),
    [
        ("sample/settles  # a slow disk", 0, "known-failure", 3),
        ("sample/never", 1, "failed", 3),
        ("", 1, "failed", 1),
    ],
)
def test_flaky_checks(
    pytester: pytest.Pytester, obliging_target: str, listed: str, code: int, state: str, attempts: int
) -> None:
    """One that held in a later attempt is told loudly and is never green; it does not end up in a baseline."""
    pytester.makepyfile(test_sample=FLAKY)
    (pytester.path / "flaky").write_text(listed)
    check = listed.partition(" ")[0] or "sample/settles"
    words = ["--known-flaky", "flaky", "--check", check, "--report-json", "report.json", "--write-baseline", "known"]
    result = pytester.runpytest_subprocess(*PLUGIN, "--target", obliging_target, *words)
    assert result.ret == code
    report = json.loads((pytester.path / "report.json").read_text("utf-8"))
    (entry,) = report["checks"]
    assert (entry["state"], entry["attempts"], report["verdict"]) == (state, attempts, "not conformant")
    assert entry["detail"].startswith("attempt 1 failed")
    in_baseline = check in (pytester.path / "known").read_text("utf-8")
    assert in_baseline == (code == 1)
    if code == 0:
        result.stdout.fnmatch_lines(["sample/settles: flaky, failed in 2 of 3 runs: a slow disk"])


@pytest.mark.parametrize(
    ("flaky", "known", "sentence"),
    [
        ("sample/nope", "", "*--known-flaky flaky:1: no check is called sample/nope*"),
        ("sample/never", "sample/never", "*--known-flaky: sample/never is in the baseline too*"),
    ],
)
def test_lists_of_flaky_checks_are_strict(
    pytester: pytest.Pytester, obliging_target: str, flaky: str, known: str, sentence: str
) -> None:
    pytester.makepyfile(test_sample=FLAKY)
    (pytester.path / "flaky").write_text(flaky)
    (pytester.path / "known").write_text(known)
    words = ["--known-flaky", "flaky", "--baseline", "known"]
    result = pytester.runpytest_subprocess(*PLUGIN, "--target", obliging_target, *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([sentence])
