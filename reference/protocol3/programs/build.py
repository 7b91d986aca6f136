"""Deterministic archive bytes of a package directory (PKG-041…048)."""

import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from protocol3.contract import limits
from protocol3.programs.archive import Package, verify
from protocol3.programs.errors import ProgramError
from protocol3.programs.manifest import MANIFEST_NAME, Manifest, parse_manifest
from protocol3.programs.zip_names import check_name

_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
_DEFLATE_LEVEL: Final = 9
_UNIX: Final = 3
_DIRECTORY_MODE: Final = stat.S_IFDIR | 0o755
_FILE_MODE: Final = stat.S_IFREG | 0o644


def build_package(source: Path) -> Package:
    """Pack ``source`` and verify the result. The same files and execute bits always give the same bytes (PKG-046).

    Raises :class:`ProgramError`: ``invalid_input`` for limits, ``integrity`` for links and special files, the kinds of
    PKG-001…003 for the manifest, ``io`` when a file cannot be read.
    """
    try:
        read_source_manifest(source)
        archive = _pack(source)
    except OSError as error:
        raise ProgramError("io", f"cannot read {error.filename or source}: {error.strerror}") from None
    return verify(archive)


def read_source_manifest(source: Path) -> Manifest:
    """The manifest of a package directory, validated before anything else is read (PKG-041)."""
    if source.is_symlink() or not source.is_dir():
        raise ProgramError("invalid_input", f"{source} is not a directory")
    path = source / MANIFEST_NAME
    if not path.is_symlink() and not path.exists():
        raise ProgramError("integrity", f"{source} holds no {MANIFEST_NAME}")
    return parse_manifest(_read(path, limits.MANIFEST_BYTES)[0])


def _pack(source: Path) -> bytes:
    """Bounded while it grows (PKG-047); a linked zlib decides about the last byte (PKG-048)."""
    buffer = io.BytesIO()
    expanded = 0
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_DEFLATE_LEVEL) as output:
        for number, (name, path) in enumerate(_entries(source, ""), start=1):
            if number > limits.ARCHIVE_ENTRIES:
                raise ProgramError("invalid_input", f"more than {limits.ARCHIVE_ENTRIES} files and directories")
            if name.endswith("/"):
                output.writestr(_entry(name, _DIRECTORY_MODE), b"", zipfile.ZIP_STORED)
                continue
            content, execute = _read(path, limits.ARCHIVE_FILE_BYTES)
            expanded += len(content)
            if expanded > limits.ARCHIVE_EXPANDED_BYTES:
                raise ProgramError(
                    "invalid_input", f"the files are larger than {limits.ARCHIVE_EXPANDED_BYTES} bytes together"
                )
            output.writestr(_entry(name, _FILE_MODE | execute), content, zipfile.ZIP_DEFLATED, _DEFLATE_LEVEL)
            if buffer.tell() > limits.ARCHIVE_BYTES:
                raise ProgramError("invalid_input", f"the archive exceeds {limits.ARCHIVE_BYTES} bytes")
    return buffer.getvalue()


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    """PKG-043, PKG-045."""
    entry = zipfile.ZipInfo(name, _FIXED_TIME)
    entry.create_system = _UNIX
    entry.external_attr = mode << 16
    return entry


def _entries(directory: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Name in the archive and path, ordered component by component: a directory, then all in it (PKG-042, PKG-044)."""
    with os.scandir(directory) as found:
        children = sorted(found, key=lambda child: os.fsencode(child.name))
    for child in children:
        name, path = prefix + child.name, Path(child.path)
        if len(os.fsencode(name)) > limits.ARCHIVE_NAME_BYTES:
            raise ProgramError(
                "invalid_input", f"a path below {prefix[:100]!r} exceeds {limits.ARCHIVE_NAME_BYTES} bytes"
            )
        check_name(name)
        if child.is_symlink() or not (child.is_dir() or child.is_file()):
            raise ProgramError("integrity", f"{name} is a link or a special file")
        if child.is_dir():
            yield name + "/", path
            yield from _entries(path, name + "/")
        else:
            yield name, path


def _read(path: Path, limit: int) -> tuple[bytes, int]:
    """Content and execute bits of a regular file; never follows a link, never blocks on a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise ProgramError("integrity", f"{path.name} is a link") from None
        raise error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ProgramError("integrity", f"{path.name} is not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ProgramError("invalid_input", f"{path.name} is larger than {limit} bytes")
    return content, status.st_mode & 0o111
