"""Removing what a program left, with the rights of an ordinary user (WRK-041)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from protocol3.worker.directories import remove_directory

AS_ORDINARY_USER = """\
import os, sys, tempfile
from pathlib import Path
from protocol3.worker.directories import remove_directory

if os.geteuid() == 0:
    os.seteuid(65534)
directory = Path(tempfile.mkdtemp(prefix="ledgence-session-"))
for mode in (0, 0o100, 0o300, 0o400, 0o500):
    place = directory / f"{mode:o}" / "b" / "c"
    place.mkdir(parents=True)
    (place / "file").write_text("x")
    for locked in (place, *place.parents[:2]):
        locked.chmod(mode)
directory.chmod(int(sys.argv[1], 8))
remove_directory(str(directory))
assert not directory.exists()
"""


@pytest.mark.parametrize("mode", ["0", "500", "700"])
def test_missing_permissions_are_restored_first(mode: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_ORDINARY_USER, mode],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    outside.chmod(0o500)
    directory = tmp_path / "directory"
    (directory / "inner").mkdir(parents=True)
    for place in (directory, directory / "inner"):
        (place / "link").symlink_to(outside)
        (place / "file link").symlink_to(outside / "file")
        (place / "broken").symlink_to("nowhere")
    remove_directory(str(directory))
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_directory_that_became_a_link_leaves_its_target_alone(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "directory").symlink_to("outside")
    remove_directory(str(tmp_path / "directory"))
    assert [path.name for path in tmp_path.iterdir()] == ["outside"]


def test_no_depth_is_too_deep(tmp_path: Path) -> None:
    """Deeper than paths, open files and recursion can be."""
    directory = tmp_path / "directory"
    directory.mkdir()
    here = os.open(directory, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("deep", dir_fd=here)
        inner = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        remove_directory(str(directory))
        assert not directory.exists()
        remove_directory(str(directory))
    finally:
        subprocess.run(["/bin/rm", "-rf", directory], check=True)  # pytest could not remove it either
