"""The worker's package cache: one owner, a quota, pins and eviction (PKG-066…076).

All methods block on the disk and may be called from several threads; callers serialise work on one digest.
"""

import contextlib
import fcntl
import os
import re
import secrets
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from protocol3.contract import limits
from protocol3.contract.models.common import Descriptor
from protocol3.programs.archive import verify
from protocol3.programs.cache_entry import (
    CONTENT,
    Fingerprint,
    disk_bytes,
    entry_bytes,
    fingerprint,
    is_untouched,
    remove_tree,
    verify_entry,
    write_entry,
)
from protocol3.programs.errors import ProgramError
from protocol3.programs.files import sync_directory
from protocol3.programs.manifest import Manifest, host_platform, require_platform

_LOCK: Final = ".lock"
_STAGING: Final = ".staging-"
_EVICTING: Final = ".evicting-"
_ENTRY: Final = re.compile("[0-9a-f]{64}")
_LEFT_OVER: Final = re.compile(rf"{re.escape(_STAGING)}.*|{re.escape(_EVICTING)}[0-9a-f]+", re.DOTALL)


class _Ownership:
    """The exclusive lock of a cache root, kept until the cache and every pin have let it go (PKG-067)."""

    def __init__(self, root: Path) -> None:
        self._descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._holders = 1
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise ProgramError(
                "unavailable", f"the cache {root} belongs to another running worker; give each worker its own"
            ) from None

    def share(self) -> Self:
        self._holders += 1
        return self

    def release(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            os.close(self._descriptor)


@dataclass(slots=True)
class _Entry:
    size: int
    used: int
    pins: int = 0


@dataclass(slots=True, kw_only=True)
class Pin:
    """A verified package that stays in the cache until :meth:`release` (PKG-074)."""

    descriptor: Descriptor
    manifest: Manifest
    content: Path
    _cache: "PackageCache"
    _fingerprint: Fingerprint = field(repr=False)
    _held: bool = True

    def is_untouched(self) -> bool:
        """Whether nothing in the entry was touched since it was verified; if not, look it up again."""
        return is_untouched(self._fingerprint)

    def release(self) -> None:
        if self._held:
            self._held = False
            self._cache._unpin(self.descriptor)


class PackageCache:
    """Opens ``root`` (created when missing). Raises ``invalid_input`` for a foreign directory, ``unavailable`` when
    another owner has it."""

    def __init__(self, root: Path, *, quota_bytes: int = limits.CACHE_BYTES) -> None:
        self._root = root
        self._quota = quota_bytes
        self._host = host_platform()
        self._mutex = threading.Lock()
        self._clock = 0
        self._charged = 0
        self._entries: dict[str, _Entry] = {}
        try:
            _prepare_root(root)
            self._ownership = _Ownership(root)
            try:
                self._recover()
            except BaseException:
                self._ownership.release()
                raise
        except OSError as error:
            raise ProgramError("io", f"cannot open the cache {root}: {error.strerror}") from None

    def lookup(self, descriptor: Descriptor) -> Pin | None:
        """The verified entry, pinned; None when there is none. Any damage is ``integrity`` (PKG-075, PKG-076)."""
        with self._mutex:
            entry = self._entries.get(_hex(descriptor))
            if entry is None:
                return None
            self._pin(entry)
        try:
            return self._verified_pin(descriptor)
        except BaseException:
            self._unpin(descriptor)
            raise

    def insert(self, descriptor: Descriptor, archive: bytes) -> Pin:
        """Verify, extract and pin a package that is not cached. A failure leaves nothing behind (PKG-069)."""
        package = verify(archive, descriptor)
        require_platform(package.manifest, self._host)
        size = entry_bytes(package)
        self._reserve(size)
        staging = self._root / (_STAGING + secrets.token_hex(8))
        final = self._root / _hex(descriptor)
        try:
            staging.mkdir(mode=0o700)
            write_entry(staging, package)
            staging.rename(final)
            self._sync_new(final)
        except BaseException as failure:
            with contextlib.suppress(OSError):
                remove_tree(staging)
            self._give_back(size)
            if isinstance(failure, OSError):
                raise ProgramError("io", f"cannot write the cache: {failure.strerror}") from None
            raise
        with self._mutex:
            entry = self._entries[_hex(descriptor)] = _Entry(size, 0)
            self._pin(entry)
        return self._new_pin(descriptor, package.manifest, fingerprint(final))

    def _sync_new(self, entry: Path) -> None:
        """An entry that might not outlive a power cut is taken back, in one step like an eviction."""
        try:
            sync_directory(self._root)
        except OSError:
            gone = self._root / (_EVICTING + secrets.token_hex(8))
            entry.rename(gone)
            remove_tree(gone)
            raise

    def close(self) -> None:
        """Let the root go. Pins that are still held keep it locked."""
        self._ownership.release()

    def _verified_pin(self, descriptor: Descriptor) -> Pin:
        directory = self._root / _hex(descriptor)
        try:
            before = fingerprint(directory)  # taken first: a change during verification shows later
        except OSError as error:
            raise ProgramError("integrity", f"the cached package cannot be read: {error.strerror}") from None
        return self._new_pin(descriptor, verify_entry(directory, descriptor).manifest, before)

    def _new_pin(self, descriptor: Descriptor, manifest: Manifest, seen: Fingerprint) -> Pin:
        content = (self._root / _hex(descriptor) / CONTENT).resolve()
        return Pin(descriptor=descriptor, manifest=manifest, content=content, _cache=self, _fingerprint=seen)

    def _pin(self, entry: _Entry) -> None:
        self._clock += 1
        entry.used = self._clock
        entry.pins += 1
        self._ownership.share()

    def _unpin(self, descriptor: Descriptor) -> None:
        with self._mutex:
            self._entries[_hex(descriptor)].pins -= 1
            self._ownership.release()

    def _reserve(self, size: int) -> None:
        """Charge ``size``, evicting the least recently used unpinned entries (PKG-071)."""
        if size > self._quota:
            raise ProgramError("invalid_input", f"the package needs {size} bytes, more than the whole cache has")
        with self._mutex:
            while self._charged + size > self._quota:
                idle = [(entry.used, name) for name, entry in self._entries.items() if not entry.pins]
                if not idle:
                    raise ProgramError("capacity", "the cache is full of packages in use")
                self._evict(min(idle)[1])
            self._charged += size

    def _give_back(self, size: int) -> None:
        with self._mutex:
            self._charged -= size

    def _evict(self, name: str) -> None:
        """Rename durably, then delete: a half deleted entry is never offered again, and stays charged (PKG-072)."""
        size = self._entries[name].size
        gone = self._root / (_EVICTING + secrets.token_hex(8))
        try:
            (self._root / name).rename(gone)
            del self._entries[name]
            sync_directory(self._root)
            remove_tree(gone)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._charged -= size - disk_bytes(gone)
            raise ProgramError("io", f"cannot evict from the cache: {error.strerror}") from None
        self._charged -= size

    def _recover(self) -> None:
        """Remove what an interrupted owner left (PKG-073) and take stock of the rest."""
        for name in _prepare_root(self._root):  # again, now as the owner
            if _LEFT_OVER.fullmatch(name):
                remove_tree(self._root / name)
            elif _ENTRY.fullmatch(name):
                size = disk_bytes(self._root / name)
                self._entries[name] = _Entry(size, 0)
                self._charged += size


def _prepare_root(root: Path) -> list[str]:
    """Names in the cache root, which is a real directory that holds nothing foreign (PKG-066)."""
    if root.is_symlink() or (root.exists() and not root.is_dir()):
        raise ProgramError("invalid_input", f"the cache {root} must be a real directory")
    root.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    with os.scandir(root) as found:
        for child in found:
            directory = child.is_dir(follow_symlinks=False)
            known = _ENTRY.fullmatch(child.name) or _LEFT_OVER.fullmatch(child.name)
            if not (directory and known) and not (child.name == _LOCK and child.is_file(follow_symlinks=False)):
                raise ProgramError(
                    "invalid_input", f"the cache {root} holds {child.name!r}; give the worker a directory of its own"
                )
            names.append(child.name)
    return names


def _hex(descriptor: Descriptor) -> str:
    return descriptor.digest.removeprefix("sha256:")
