"""Working directories that a killed worker left behind (RUN-006, WRK-041)."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol3.worker import working_directory
from protocol3.worker.working_directory import PREFIX, WorkingDirectory, remove_leftovers

HOLD = (
    "import sys, time; from protocol3.worker.working_directory import WorkingDirectory; "
    "print(WorkingDirectory().path, flush=True); sys.stdin.read()"
)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def other(temporary: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Another worker with one working directory."""
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def test_leftovers_of_a_killed_worker_are_removed_and_nothing_before(
    other: tuple["subprocess.Popen[str]", Path],
) -> None:
    process, path = other
    (path / "deep/er").mkdir(parents=True)
    (path / "deep").chmod(0)
    remove_leftovers()
    assert path.is_dir()
    process.kill()
    process.wait()
    remove_leftovers()
    assert not path.exists()


def test_our_own_are_locked_too_until_they_are_removed() -> None:
    mine = WorkingDirectory()
    remove_leftovers()
    assert Path(mine.path).is_dir()
    mine.remove()
    mine.remove()
    assert not Path(mine.path).exists()


@pytest.mark.parametrize("name", [f"{PREFIX}x1y2", "ledgence-session", "protocol3-session-1"])
def test_directories_of_others_are_left_alone(temporary: Path, name: str) -> None:
    """Published workers use the same prefix and lock nothing."""
    (temporary / name).mkdir()
    remove_leftovers()
    assert (temporary / name).is_dir()


def test_links_and_files_of_our_name_are_left_alone(temporary: Path) -> None:
    (temporary / "precious").mkdir()
    (temporary / f"{PREFIX}protocol3-link").symlink_to("precious")
    (temporary / f"{PREFIX}protocol3-file").touch()
    remove_leftovers()
    assert len(list(temporary.iterdir())) == 3


def test_one_that_is_cleared_up_while_it_is_made_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment between the making and the locking belongs to whoever clears up."""
    made = []
    make = tempfile.mkdtemp

    def cleared_up(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            remove_leftovers()
        return made[-1]

    monkeypatch.setattr(working_directory.tempfile, "mkdtemp", cleared_up)
    directory = WorkingDirectory()
    assert [directory.path] == made[1:]
    directory.remove()
