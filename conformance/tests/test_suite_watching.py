"""`watch`: a run at once, and one more for every change of the source."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol3_conformance import watching

SECONDS = 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "server.py").write_text("one")
    return folder


def holds(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + SECONDS
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return held


@contextmanager
def watched(source: Path, runs: Path, code: str = "0") -> Iterator[Callable[[], int]]:
    """Watch in a process of its own with a command that writes a line for each run; how many there were."""
    judge = f"import pathlib, sys; pathlib.Path({str(runs)!r}).open('a').write('run\\n'); sys.exit({code})"
    words = [sys.executable, "-c", judge]
    watch = "import pathlib; from protocol3_conformance.watching import watch"
    program = f"{watch}; watch(pathlib.Path({str(source)!r}), {words!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    watching_it = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.DEVNULL)
    try:
        yield lambda: runs.read_text().count("run") if runs.exists() else 0
    finally:
        watching_it.terminate()  # a test run in the background ignores SIGINT, and its children with it
        watching_it.wait(SECONDS)


def test_every_change_is_judged(source: Path, tmp_path: Path) -> None:
    """A change of a file, a new one, one that goes; what is hidden or bytecode is no change."""
    server, new = source / "inner" / "server.py", source / "new.py"
    with watched(source, tmp_path / "runs") as runs:
        assert holds(lambda: runs() == 1)
        for number, change in enumerate((lambda: server.write_text("more"), new.touch, new.unlink), 2):
            change()
            assert holds(lambda number=number: runs() == number)
    (source / ".swap").touch()
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "server.pyc").touch()
    assert [Path(path).name for path in watching.look(source)] == ["server.py"]


def test_a_target_that_is_still_starting_is_asked_again(source: Path, tmp_path: Path) -> None:
    """Exit code 4 twice, then 1: three runs for one look at the source, and then it waits."""
    runs = tmp_path / "runs"
    code = f"4 if pathlib.Path({str(runs)!r}).read_text().count('run') < 3 else 1"
    with watched(source, runs, code) as count:
        assert holds(lambda: count() == 3)
        (source / "new.py").touch()
        assert holds(lambda: count() == 4)


def test_changes_in_a_row_are_one(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits until a look is like the one before it."""
    still, first, second = ({"server.py": (instant, 1)} for instant in range(3))
    looks = [still, still, first, second, second]
    monkeypatch.setattr(watching, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(watching, "look", lambda _: looks.pop(0))
    watching._wait_for_a_change(source, still)
    assert looks == []
