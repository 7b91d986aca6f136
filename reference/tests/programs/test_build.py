"""Archive bytes of a package directory (PKG-041…048)."""

import io
import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol3.contract import limits
from protocol3.programs import build as build_module
from protocol3.programs.build import build_package
from protocol3.programs.errors import ProgramError

Source = Callable[..., Path]


def kind_of(root: Path) -> str:
    with pytest.raises(ProgramError) as caught:
        build_package(root)
    return caught.value.kind


def test_entries_are_ordered_by_component_with_fixed_times_and_modes(source: Source) -> None:
    """PKG-042…045: `a/…` before `a-b` and `a.txt`; empty directories, execute bits, no comment."""
    root = source({"a/z.py": "1", "a-b": "2", "a.txt": "3", "b/run": "4"})
    (root / "b/run").chmod(0o7751)
    (root / "empty").mkdir()
    with zipfile.ZipFile(io.BytesIO(build_package(root).archive)) as packed:
        entries = {entry.filename: entry for entry in packed.infolist()}
        assert packed.comment == b""
    assert list(entries) == [
        "a/", "a/z.py", "a-b", "a.txt", "b/", "b/run", "empty/", "ledgence-program.json", "program.py",
    ]  # fmt: skip
    assert {entry.date_time for entry in entries.values()} == {(1980, 1, 1, 0, 0, 0)}
    modes = {name: entry.external_attr >> 16 for name, entry in entries.items()}
    assert modes["a/"] == stat.S_IFDIR | 0o755
    assert modes["a.txt"] == stat.S_IFREG | 0o644
    assert modes["b/run"] == stat.S_IFREG | 0o755
    assert {entry.compress_type for name, entry in entries.items() if not name.endswith("/")} == {zipfile.ZIP_DEFLATED}


def test_times_write_bits_and_creation_order_do_not_change_the_bytes(source: Source) -> None:
    """PKG-046."""
    one = source({"b.py": "1", "d/a.py": "2"})
    two = source({"d/a.py": "2", "b.py": "1"})
    os.utime(two / "b.py", (1, 1))
    (two / "b.py").chmod(0o600)
    (two / "d").chmod(0o700)
    assert build_package(one).archive == build_package(two).archive
    (two / "b.py").chmod(0o755)
    assert build_package(one).archive != build_package(two).archive


def test_a_source_that_is_no_directory_is_refused(source: Source, tmp_path: Path) -> None:
    """PKG-041."""
    root = source()
    (tmp_path / "link").symlink_to(root)
    assert kind_of(tmp_path / "link") == "invalid_input"
    assert kind_of(tmp_path / "absent") == "invalid_input"
    assert kind_of(root / "program.py") == "invalid_input"


def test_the_manifest_is_a_regular_file_and_checked_first(source: Source) -> None:
    """PKG-041: before the rest of the tree is looked at."""
    root = source({"link-target": ""}, handler="x")
    (root / "link").symlink_to("link-target")
    assert kind_of(root) == "invalid_input"
    manifest = source() / "ledgence-program.json"
    text = manifest.read_text()
    manifest.write_text(text + " " * limits.MANIFEST_BYTES)
    assert kind_of(manifest.parent) == "invalid_input"
    manifest.rename(manifest.with_name("other"))
    assert kind_of(manifest.parent) == "integrity"
    manifest.symlink_to("other")
    assert kind_of(manifest.parent) == "integrity"
    manifest.unlink()
    os.mkfifo(manifest)
    assert kind_of(manifest.parent) == "integrity"


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("program.py"), os.mkfifo])
def test_links_and_special_files_are_integrity(source: Source, make: Callable[[Path], None]) -> None:
    """PKG-042."""
    root = source()
    (root / "sub").mkdir()
    make(root / "sub/odd")
    assert kind_of(root) == "integrity"


def test_names_outside_the_profile_are_integrity(source: Source) -> None:
    """PKG-019, PKG-047: what was built is verified like any other archive."""
    for name in ("é.py", "con.py", "a\\b", "ledgence/__init__.py"):
        assert kind_of(source({name: "1"})) == "integrity"
    assert kind_of(source({"A.py": "1", "a.py": "2"})) == "integrity"


def test_a_directory_beyond_the_limits_is_invalid_input(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """PKG-042, PKG-047."""
    root = source({"a": "x" * 500, "b": "y" * 500})
    for name, value in (("ARCHIVE_ENTRIES", 3), ("ARCHIVE_FILE_BYTES", 499), ("ARCHIVE_EXPANDED_BYTES", 1000)):
        with monkeypatch.context() as patch:
            patch.setattr(build_module.limits, name, value)
            assert kind_of(root) == "invalid_input"
    deep = root
    for _ in range(6):
        deep = deep / ("d" * 200)
        deep.mkdir()
    assert kind_of(root) == "invalid_input"
