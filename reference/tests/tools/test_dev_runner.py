"""The counting of `./dev`: what a stage's commands said, added up honestly."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture(scope="module")
def dev() -> ModuleType:
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location("protocol3_dev", TOOLS / "dev.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules["protocol3_dev"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))


@pytest.mark.parametrize(
    ("output", "exit_code", "counted"),
    [
        (["1221 passed in 24.05s"], 0, (1221, 0, 0)),
        (["== 3 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors in 1.20s =="], 1, (2, 5, 2)),
        (["7 passed, 0 failed, 2 skipped"], 0, (7, 0, 2)),
        (["coordinator: 7 passed, 0 failed"], 0, (7, 0, 0)),
        (["7 passed, 0 failed", "report written"], 0, (7, 0, 0)),
        (["1 failed, 1 passed in 1s", "7 passed, 0 failed"], 0, (7, 0, 0)),
        (["All checks passed!"], 0, (1, 0, 0)),
        (["Found 3 errors."], 1, (0, 1, 0)),
        ([], 0, (1, 0, 0)),
        (["12 passed in 1s"], 3, (12, 1, 0)),
        (["no tests ran in 0.01s"], 5, (0, 1, 0)),
    ],
)
def test_a_command_counts_by_its_closing_line_or_its_exit_code(dev, output, exit_code, counted):
    """An exit code other than 0 is at least one failure, whatever the line says."""
    counts = dev.counts_of(output, exit_code)
    assert (counts.passed, counts.failed, counts.skipped) == counted


def test_every_command_runs_and_the_last_line_is_the_sum(dev, capfd):
    stages = {
        "first": {"about": "fails early", "commands": ["false", "echo 5 passed, 0 failed, 1 skipped"]},
        "second": {"about": "cannot run", "commands": ["/no/such/tool", "true"]},
    }
    assert dev.run_stages(stages) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "6 passed, 2 failed, 1 skipped"
    assert lines[-3].startswith("first: 5 passed, 1 failed, 1 skipped (")
    assert lines[-2].startswith("second: 1 passed, 1 failed (")


def test_a_run_without_failures_says_so(dev, capfd):
    assert dev.run_stages({"only": {"about": "fine", "commands": ["true"]}}) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


def run_dev(*words: str, reader: str = "cat") -> "subprocess.CompletedProcess[str]":
    """`tools/dev.py` as `./dev` starts it, its output read by `reader`."""
    command = f'{{ "$0" "$@"; echo "exit $?" >&2; }} | {reader}'
    return subprocess.run(
        ["sh", "-c", command, sys.executable, str(TOOLS / "dev.py"), *words],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("word", ["bogus", "-x", "--all", "py", ""])
def test_an_unknown_word_says_what_there_is(word):
    done = run_dev(word)
    assert "exit 2" in done.stderr
    assert f"no stage, job or environment {word!r}" in done.stderr
    for known in ("lint", "test", "demo", "py311"):
        assert known in done.stderr
    assert "tox" not in done.stderr.replace("tox environment", "")


def test_a_reader_that_has_seen_enough_is_no_failure_of_ours():
    for words in ([], ["help"]):
        done = run_dev(*words, reader="true")
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


def test_the_explanation_names_every_stage_and_job(dev):
    table = {
        "stage": {"lint": {"about": "looks", "test": True}, "slow": {"about": "waits"}},
        "job": {"demo": {"about": "shows"}},
    }
    text = dev.explain(table)
    assert "everything that must hold: lint" in text
    for word in ("./dev slow", "./dev demo", "./dev lint", "shows"):
        assert word in text


def test_a_stage_with_further_words_hands_them_to_its_command(dev, monkeypatch):
    """`./dev conformance --no-test-controls` is one run; `./dev lint` still takes none."""
    run = []
    monkeypatch.setattr(dev.os, "execvp", lambda file, words: run.append((file, words)) or sys.exit(0))
    with pytest.raises(SystemExit):
        dev.main(["conformance", "--no-test-controls"])
    assert run == [("python", ["python", "tools/run_conformance.py", "--test-controls", "--no-test-controls"])]
    assert dev.main(["lint", "--fast"]) == 2
