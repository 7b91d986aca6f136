"""Generated histories against a broken service: found, shrunk, shown by a script that needs nothing of the suite."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from judging import judged

from protocol3_conformance.breaker.breakings import BREAKINGS
from protocol3_conformance.target import Patience
from protocol3_conformance.verdict import State

MACHINES = ("stateful/tasks", "stateful/workflows", "stateful/forks", "stateful/two-scopes")
FOUND_BY = {
    "attempts-not-counted": ("stateful/tasks", 12),
    "early-events-lost": ("stateful/workflows", 8),
    "inputs-twice": ("stateful/workflows", 26),
    "fork-replay-forgets": ("stateful/forks", 9),
    "cancel-in-any-scope": ("stateful/two-scopes", 3),
}
"""Breaking -> the machine that finds it, and how many calls the shrunk script may have."""
SHORT = Patience(factor=0.5)
"""A broken rule is waited for in vain, again and again."""
MOST_BLAMED = 2
"""Rules that one differing answer may break."""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("asyncpg") is None, reason="our own coordinator needs the packages of protocol3[server]"
)


def run(script: Path, url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(script), url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_broken_rule_is_found_shrunk_and_shown(
    broken: Callable[[str], str], coordinator: str, tmp_path: Path, name: str
) -> None:
    check_id, calls = FOUND_BY[name]
    url = broken(name)
    outcome = judged(url, check_id, exports=tmp_path / "out", patience=SHORT)[check_id]
    assert outcome.state == State.FAILED, f"{outcome.state}: {outcome.detail}"
    assert set(outcome.broken) & set(BREAKINGS[name].rules), f"broken {outcome.broken}"
    assert len(outcome.broken) <= MOST_BLAMED
    (script,) = (tmp_path / "out").iterdir()
    assert f"python3 {script} {url}" in outcome.detail
    shown = run(script, url)
    assert shown.returncode == 1, shown.stdout + shown.stderr
    assert "DIFFERS" in shown.stdout
    assert 1 <= shown.stdout.count("as expected") + 1 <= calls, shown.stdout
    right = run(script, coordinator)
    assert right.returncode == 0, right.stdout + right.stderr


def test_a_script_that_cannot_be_written_hides_nothing(broken: Callable[[str], str], tmp_path: Path) -> None:
    taken = tmp_path / "out"
    taken.write_text("a file stands where the folder would be")
    outcome = judged(broken("cancel-in-any-scope"), "stateful/two-scopes", exports=taken, patience=SHORT)
    assert outcome["stateful/two-scopes"].state == State.FAILED
    assert "--export-dir" in outcome["stateful/two-scopes"].detail


def test_the_proxy_itself_breaks_nothing(broken: Callable[[str], str], tmp_path: Path) -> None:
    """The control; and nothing is left behind by histories that hold."""
    outcomes = judged(broken("nothing"), *MACHINES, examples=3, exports=tmp_path / "out")
    assert {check_id: outcome.detail for check_id, outcome in outcomes.items() if outcome.state != State.PASSED} == {}
    assert list(tmp_path.iterdir()) == []
