"""What a directory store remembers of its descriptors, and what it must notice all the same (PKG-035…037)."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from protocol3.contract.models.common import ProgramRef
from protocol3.programs import remembered
from protocol3.programs.errors import ProgramError
from protocol3.programs.layout import descriptor_path
from protocol3.programs.publish import publish_directory
from protocol3.programs.stores import FilesystemStore

Source = Callable[..., Path]
REPORT = ProgramRef(id="report", version="1.0.0")
OTHER = "sha256:" + "b" * 64


@pytest.fixture
def root(source: Source, tmp_path: Path) -> Path:
    publish_directory(source(), tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tests run, and however young the files are."""
    monkeypatch.setattr(remembered, "_disk_of", lambda root: root.stat().st_dev)
    monkeypatch.setattr(remembered, "SETTLED_NS", 0)


def counting(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[FilesystemStore, list[str]]:
    """A store, and the names of what it read."""
    store, names = FilesystemStore(root), list[str]()
    read = store._read

    def counted(name: PurePosixPath, limit: int) -> bytes:
        names.append(str(name))
        return read(name, limit)

    monkeypatch.setattr(store, "_read", counted)
    return store, names


def rewritten(path: Path) -> bytes:
    """The descriptor with another digest: as long as before."""
    return json.dumps(json.loads(path.read_bytes()) | {"digest": OTHER}, separators=(",", ":")).encode()


@pytest.mark.usefixtures("on_a_disk")
async def test_a_descriptor_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, names = counting(root, monkeypatch)
    descriptors = [await store.resolve(REPORT) for _ in range(3)]
    assert descriptors == [descriptors[0]] * 3
    assert names == [str(descriptor_path(REPORT))]


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    content = rewritten(path)
    path.unlink()
    path.write_bytes(content)


def rename(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(rewritten(path))
    other.replace(path)


def write_over(path: Path) -> None:
    """The same file, of the same length, and dated as before."""
    before, content = path.stat(), rewritten(path)
    path.chmod(0o644)
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def lead_outside(path: Path) -> None:
    """The very same file, by a directory that became a link to a place outside of the store."""
    version, outside = path.parent, path.parents[4] / "outside"
    version.rename(outside)
    version.symlink_to(outside)


def lead_inside(path: Path) -> None:
    version, moved = path.parent, path.parent.with_name("moved")
    version.rename(moved)
    version.symlink_to(moved)
    replace(path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (remove, "not_found"),
        (replace, OTHER),
        (rename, OTHER),
        (write_over, OTHER),
        (pipe, "integrity"),
        (lead_outside, "integrity"),
        (lead_inside, OTHER),
    ],
)
@pytest.mark.usefixtures("on_a_disk")
async def test_a_change_is_noticed_at_once(root: Path, change: Callable[[Path], None], expected: str) -> None:
    """PKG-036, PKG-037: as if nothing were remembered."""
    store = FilesystemStore(root)
    await store.resolve(REPORT)
    await store.resolve(REPORT)
    change(root / descriptor_path(REPORT))
    try:
        found = (await store.resolve(REPORT)).digest
    except ProgramError as error:
        found = error.kind
    assert found == expected


@pytest.mark.usefixtures("on_a_disk")
async def test_a_young_file_is_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change once more within the same tick of the clock of its file system."""
    monkeypatch.setattr(remembered, "SETTLED_NS", 3_600_000_000_000)
    store, names = counting(root, monkeypatch)
    for _ in range(2):
        await store.resolve(REPORT)
    assert len(names) == 2


@pytest.mark.usefixtures("on_a_disk")
async def test_where_asking_may_stall_nothing_is_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of another machine is asked in threads alone."""
    monkeypatch.setattr(remembered, "_disk_of", lambda _root: None)
    store, names = counting(root, monkeypatch)
    asked, lstat = set[threading.Thread](), os.lstat

    def noticed(*path: Any, **how: Any) -> os.stat_result:
        asked.add(threading.current_thread())
        return lstat(*path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", noticed)
        for _ in range(2):
            await store.resolve(REPORT)
    assert len(names) == 2
    assert threading.current_thread() not in asked


@pytest.mark.usefixtures("on_a_disk")
async def test_few_are_remembered(root: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "REMEMBERED", 1)
    other = ProgramRef(id="report", version="2.0.0")
    publish_directory(source(program={"id": other.id, "version": other.version}), root)
    store, names = counting(root, monkeypatch)
    for program in (REPORT, other, other, REPORT):
        assert (await store.resolve(program)).program == program
    assert names == [str(descriptor_path(program)) for program in (REPORT, other, REPORT)]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a file system without a disk")
def test_only_disks_are_asked_on_the_event_loop() -> None:
    assert remembered._disk_of(Path("/proc")) is None
