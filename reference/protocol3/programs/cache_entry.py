"""One entry of the package cache on disk: writing it, verifying it again, removing it (PKG-068…070, PKG-075).

``<hex>/artifact.zip``, ``<hex>/descriptor.json`` and ``<hex>/content/``, all read-only.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from protocol3.contract.models.common import Descriptor
from protocol3.programs.archive import Package, verify
from protocol3.programs.errors import ProgramError
from protocol3.programs.files import sync_directory, write_new
from protocol3.programs.layout import encode_descriptor

ARCHIVE: Final = "artifact.zip"
DESCRIPTOR: Final = "descriptor.json"
CONTENT: Final = "content"

_FILE_MODE: Final = 0o444
_DIRECTORY_MODE: Final = 0o555

Fingerprint = dict[str, tuple[int, int, int, int, int]]


def entry_bytes(package: Package) -> int:
    """What an entry is charged with: archive, extracted files, descriptor (PKG-071)."""
    return len(package.archive) + package.expanded_bytes + len(encode_descriptor(package.descriptor))


def write_entry(directory: Path, package: Package) -> None:
    """Fill the empty ``directory`` (PKG-068, PKG-070). Every file and directory is synced, their parent is not."""
    write_new(directory / ARCHIVE, package.archive, _FILE_MODE)
    write_new(directory / DESCRIPTOR, encode_descriptor(package.descriptor), _FILE_MODE)
    content = directory / CONTENT
    content.mkdir()
    for file, data in package.contents():
        path = content / file.path
        if file.is_directory:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, data, _FILE_MODE | file.execute)
    for path in _directories_inside_out(content):
        path.chmod(_DIRECTORY_MODE)
        sync_directory(path)
    sync_directory(directory)


def verify_entry(directory: Path, descriptor: Descriptor) -> Package:
    """Everything of the entry again: descriptor, archive, each file's bytes and mode, nothing beside them.

    Any difference is ``integrity`` (PKG-075, PKG-076); a damaged entry is never repaired by itself.
    """
    try:
        if {name for name, _ in _children(directory)} != {ARCHIVE, DESCRIPTOR, CONTENT}:
            raise _damaged("it holds other files than archive, descriptor and content")
        if _read(directory / DESCRIPTOR, _FILE_MODE) != encode_descriptor(descriptor):
            raise _damaged("its descriptor differs")
        package = verify(_read(directory / ARCHIVE, _FILE_MODE), descriptor)
        _verify_content(directory / CONTENT, package)
    except OSError as error:
        raise _damaged(f"it cannot be read: {error.strerror}") from None
    return package


def fingerprint(directory: Path) -> Fingerprint:
    """Size, times, inode and mode of every file and directory: equal fingerprints mean an untouched entry."""
    found: Fingerprint = {}
    for path, status in _walk(directory):
        found[path] = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def is_untouched(known: Fingerprint) -> bool:
    """Cheap: one ``lstat`` per known path. New files show in the times of their directory."""
    try:
        for path, expected in known.items():
            status = os.lstat(path)
            seen = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if seen != expected:
                return False
    except OSError:
        return False
    return bool(known)


def disk_bytes(directory: Path) -> int:
    """File bytes below ``directory``, whatever it holds."""
    return sum(status.st_size for _, status in _walk(directory) if stat.S_ISREG(status.st_mode))


def remove_tree(directory: Path) -> None:
    """Delete a tree with read-only directories. Raises ``OSError`` when something stays."""
    for path in [directory, *_directories_inside_out(directory)]:
        path.chmod(0o700)
    shutil.rmtree(directory)


def _verify_content(content: Path, package: Package) -> None:
    expected: set[str] = set()
    for file, data in package.contents():
        parts = file.path.split("/")
        expected.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        if not file.is_directory and _read(content / file.path, _FILE_MODE | file.execute) != data:
            raise _damaged("the bytes of a file differ")
    files = {file.path for file in package.files() if not file.is_directory}
    _require_directory(content.lstat())
    found: set[str] = set()
    for path, status in _walk(content):
        name = os.path.relpath(path, content)
        if name == ".":
            continue
        found.add(name)
        if name not in files:
            _require_directory(status)
    if found != expected:
        raise _damaged("it holds other files than its archive")


def _require_directory(status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode) or stat.S_IMODE(status.st_mode) != _DIRECTORY_MODE:
        raise _damaged("it holds a link, a special file or a directory with another mode")


def _read(path: Path, mode: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) != mode:
            raise _damaged("a file has another type or mode")
        return file.read()


def _children(directory: Path) -> list[tuple[str, os.stat_result]]:
    with os.scandir(directory) as found:
        return [(child.name, child.stat(follow_symlinks=False)) for child in found]


def _walk(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    """``directory`` and everything below, links not followed."""
    pending = [(str(directory), os.lstat(directory))]
    while pending:
        path, status = pending.pop()
        yield path, status
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(path) as found:
                pending.extend((child.path, child.stat(follow_symlinks=False)) for child in found)


def _directories_inside_out(directory: Path) -> list[Path]:
    return [Path(path) for path, status in _walk(directory) if stat.S_ISDIR(status.st_mode)][::-1]


def _damaged(reason: str) -> ProgramError:
    return ProgramError("integrity", f"the cached package is damaged: {reason}; remove its cache entry by hand")
