"""Removing the working directory of a program, whatever the program made of it (WRK-041)."""

import os
import stat
import sys
from pathlib import Path
from typing import Final
from uuid import uuid4

_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove_directory(path: str) -> None:
    """Remove everything at ``path``; fine if it is gone. Raises OSError while something stays.

    Permissions are restored first. Links are removed, never followed; every step is relative to an open directory, so
    nothing outside is touched. Inner directories are moved up to the top before they are emptied: depth costs neither
    recursion nor open files.
    """
    try:
        is_directory = stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_directory:
        Path(path).unlink()
        return
    _permit(path, None)
    top = os.open(path, _OPEN_DIRECTORY)
    try:
        while names := _strip(top):
            for name in names:
                _remove_inner(name, top)
    finally:
        os.close(top)
    Path(path).rmdir()


def _remove_inner(name: str, top: int) -> None:
    inner = os.open(name, _OPEN_DIRECTORY, dir_fd=top)
    try:
        for child in _strip(inner):
            os.rename(child, uuid4().hex, src_dir_fd=inner, dst_dir_fd=top)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _strip(directory: int) -> list[str]:
    """Remove everything but directories; those are named, and permitted now."""
    with os.scandir(directory) as listing:
        entries = list(listing)
    names = []
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            _permit(entry.name, directory)
            names.append(entry.name)
        else:
            os.unlink(entry.name, dir_fd=directory)
    return names


def _permit(name: str, parent: int | None) -> None:
    """Give the owner all rights on a directory, which need not be readable for that."""
    if sys.platform != "linux":
        os.chmod(name, stat.S_IRWXU, dir_fd=parent, follow_symlinks=False)
        return
    directory = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if os.fstat(directory).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{directory}").chmod(stat.S_IRWXU)  # a descriptor of this kind takes no fchmod
    finally:
        os.close(directory)
