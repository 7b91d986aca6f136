"""The runners beside the vectors need nothing but their language, and they do find what is wrong."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VECTORS = ROOT / "fixtures/vectors"
NODE = shutil.which("node")
COMMANDS = {"python": [sys.executable, "-S", "run.py"], "node": [NODE or "node", "run.mjs"]}
HOOKS = {
    "python": "def judge(schema, text):\n    return True\n",
    "node": "export const judge = (schema, text) => true;\n",
}


@pytest.fixture(params=COMMANDS)
def language(request: pytest.FixtureRequest) -> str:
    if request.param == "node" and NODE is None:
        pytest.skip("node is not installed: NOTHING is known of the vectors in JavaScript")
    name: str = request.param
    return name


def run(language: str, folder: Path, *hook: str, **variables: str) -> tuple[int, int, int, str]:
    """Exit code, passed, failed, everything that was printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        [*COMMANDS[language], *hook], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    assert counts, done.stdout + done.stderr
    return done.returncode, int(counts[1]), int(counts[2]), done.stdout


def test_every_vector_has_its_verdict(language: str) -> None:
    code, passed, failed, said = run(language, VECTORS)
    assert (code, failed) == (0, 0), said
    assert passed > 1000


@pytest.mark.parametrize("change", ["bytes", "verdict"])
def test_a_wrong_vector_is_found(language: str, change: str, tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    shutil.copytree(VECTORS, folder)
    path = folder / ("messages/scope.json" if change == "bytes" else "json-profile.json")
    file = json.loads(path.read_text(encoding="utf-8"))
    if change == "bytes":
        file["valid"][0]["compact_bytes"] += 1
    else:
        del next(case for case in file["decode"] if case["verdict"] == "accept")["compact_len"]
    path.write_text(json.dumps(file), encoding="utf-8")
    assert run(language, folder)[0::2] == (1, 1)


def test_the_judge_is_asked(language: str, tmp_path: Path) -> None:
    """One that takes everything is wrong about exactly the invalid messages."""
    hook = tmp_path / {"python": "hook.py", "node": "hook.mjs"}[language]
    hook.write_text(HOOKS[language], encoding="utf-8")
    files = [json.loads(path.read_text(encoding="utf-8")) for path in (VECTORS / "messages").glob("*.json")]
    named = "hook:judge" if language == "python" else str(hook)
    code, _, failed, _ = run(language, VECTORS, named, PYTHONPATH=str(tmp_path))
    assert (code, failed) == (1, sum(len(file["invalid"]) for file in files))
