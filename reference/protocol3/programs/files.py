"""Durable file operations that publication and cache share."""

import contextlib
import os
import secrets
from pathlib import Path


def sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Create ``path`` with exactly ``mode``, written and synced; its directory is not synced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        view = memoryview(content)
        while view:
            view = view[file.write(view) or 0 :]
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def create_durably(path: Path, content: bytes) -> bool:
    """Give ``path`` its content in one step, read-only, never replacing what is there (PKG-051). False: it existed.

    A reader sees either nothing or the complete file: the content is written under a temporary name beside it and
    then linked (a link, unlike a rename, fails when the name is taken).
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        write_new(temporary, content, 0o444)
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    return True
