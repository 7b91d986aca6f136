"""A disk that is full, read-only or broken at any one step of the cache: `io`, and nothing half-written (PKG-069)."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol3.programs.archive import Package
from protocol3.programs.build import build_package
from protocol3.programs.cache import PackageCache
from protocol3.programs.cache_entry import entry_bytes
from protocol3.programs.errors import ProgramError

Source = Callable[..., Path]
STEPS = ("open", "mkdir", "fchmod", "chmod", "fsync", "rename")


class BrokenDisk:
    """The step number `at` of those that change the disk fails, the others work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.error, self.taken = -1, 0, 0
        for name in STEPS:
            monkeypatch.setattr(os, name, self._breaking(getattr(os, name)))

    def breaks(self, at: int, error: int) -> None:
        self.at, self.error, self.taken = at, error, 0

    def _breaking(self, step: Callable[..., object]) -> Callable[..., object]:
        make_directory = getattr(os, "mkdir", None) if step.__name__ == "mkdir" else None

        def taken(*words: object, **names: object) -> object:
            if step is make_directory and Path(str(words[0])).is_dir():  # it changes nothing: the error is no matter
                return step(*words, **names)
            self.taken += 1
            if self.taken - 1 == self.at:
                raise OSError(self.error, os.strerror(self.error))
            return step(*words, **names)

        return taken


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> BrokenDisk:
    return BrokenDisk(monkeypatch)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def failed(action: Callable[[], object]) -> str | None:
    try:
        action()
    except ProgramError as error:
        return error.kind
    return None


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT], ids=errno.errorcode.get)
def test_an_insertion_that_fails_at_any_step_leaves_nothing(
    root: Path, source: Source, disk: BrokenDisk, error: int
) -> None:
    """PKG-069, PKG-071: neither entry nor staging directory nor charge; the same insertion works later."""
    package = build_package(source({"deep/inner.py": "x = 1\n", "empty.txt": ""}))
    cache = PackageCache(root, quota_bytes=entry_bytes(package))

    def insert() -> None:
        cache.insert(package.descriptor, package.archive).release()

    steps = 0
    while True:
        disk.breaks(steps, error)
        kind = failed(insert)
        if disk.taken <= steps:  # it had fewer steps: nothing broke
            break
        assert kind == "io", steps
        assert names(root) == {".lock"}, steps
        assert cache.lookup(package.descriptor) is None
        steps += 1
    assert steps > 20
    assert kind is None
    cache.close()
    assert names(root) == {".lock", package.descriptor.digest[7:]}


def test_an_eviction_that_fails_at_any_step_loses_no_account(root: Path, source: Source, disk: BrokenDisk) -> None:
    """PKG-072: the old entry is offered whole or not at all, and there is room once the disk works."""
    old, new = build_package(source({"old.py": "x = 1\n"})), build_package(source({"new.py": "x = 1\n"}))
    quota = max(entry_bytes(old), entry_bytes(new))
    steps = 0
    while True:
        disk.breaks(-1, 0)
        folder = root / f"{steps}"
        cache = PackageCache(folder, quota_bytes=quota)
        cache.insert(old.descriptor, old.archive).release()
        disk.breaks(steps, errno.EIO)
        kind = failed(lambda cache=cache: cache.insert(new.descriptor, new.archive).release())
        broke = disk.taken > steps
        disk.breaks(-1, 0)
        assert kind == ("io" if broke else None), steps
        if any(name.startswith(".evicting-") for name in names(folder)):  # half deleted: charged until the next start
            assert cache.lookup(old.descriptor) is None
        else:
            put(cache, new)
            put(cache, old)
        cache.close()
        again = PackageCache(folder, quota_bytes=quota)
        put(again, new)
        put(again, old)
        again.close()
        if not broke:
            break
        steps += 1
    assert steps > 20


def put(cache: PackageCache, package: Package) -> None:
    pin = cache.lookup(package.descriptor) or cache.insert(package.descriptor, package.archive)
    pin.release()


@pytest.mark.parametrize("step", range(3))
def test_a_cache_on_a_disk_that_cannot_be_written(root: Path, disk: BrokenDisk, step: int) -> None:
    """PKG-066, PKG-067: `io` at the start, not with the first task."""
    disk.breaks(step, errno.EROFS)
    assert failed(lambda: PackageCache(root).close()) == ("io" if disk.taken > step else None)


def test_a_limit_of_the_system_on_the_size_of_files(root: Path, source: Source) -> None:
    """PKG-069: here a write itself fails, after a part of it was done."""
    package = build_package(source({"big.txt": "x" * 300_000}))
    cache = PackageCache(root)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        kind = failed(lambda: cache.insert(package.descriptor, package.archive))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (kind, names(root)) == ("io", {".lock"})
    cache.insert(package.descriptor, package.archive).release()
