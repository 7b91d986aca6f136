"""Callers that give a command what no command expects: other encodings, closed outputs, endless inputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROTOCOL3 = [sys.executable, "-m", "protocol3.cli"]
FULL = Path("/dev/full")


@pytest.mark.parametrize("word", [b"q\xff", "\u00e9".encode("latin-1"), b"\xed\xa0\x80"])
@pytest.mark.parametrize("command", [["task", "result", "--task"], ["task", "submit", "--queue"], ["workflow", "show"]])
def test_words_that_are_no_text_are_refused(command, word):
    """TXT-008: no lone surrogate gets any further."""
    done = subprocess.run([*PROTOCOL3, *command, word], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert json.loads(done.stderr)["code"] == "invalid_input"


def test_a_text_under_an_ascii_locale_is_refused_clearly():
    """Where the interpreter is told not to use UTF-8, the words arrive as bytes it cannot read."""
    ascii_only = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = [*PROTOCOL3, "task", "submit", "--queue", "\u00e9".encode()]
    done = subprocess.run(words, capture_output=True, check=False, env=ascii_only)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr


@pytest.fixture
def answered(coordinator):
    coordinator.reply({"items": [], "next_cursor": None})
    return [*PROTOCOL3, "task", "list", "--tenant", "a", "--namespace", "n", "--server", coordinator.url]


def test_a_closed_output_is_a_failure(answered):
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *answered], stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert json.loads(done.stderr)["code"] == "output"


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
def test_a_full_output_is_a_failure(answered):
    with FULL.open("wb") as full:
        done = subprocess.run(answered, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert json.loads(done.stderr)["code"] == "output"


@pytest.mark.parametrize("wait", ["nan", "inf", "1e999", "-1"])
def test_a_wait_is_a_time(shell, wait):
    refused = shell("task", "result", "--task", "t", "--wait", wait)
    assert refused.exit_code == 2
    assert "--wait" in refused.stderr


def test_an_endless_input_is_refused(shell):
    refused = shell("task", "submit", "--queue", "q", "--program", "p@1", "--data", "@/dev/zero")
    assert refused.exit_code == 2
    assert "bytes" in refused.stderr
