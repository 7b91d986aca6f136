"""Judge again whenever the source of the target changes, for whoever is building one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

PAUSE_SECONDS = 0.5
NOT_YET, TRIES = 4, 20
"""The exit code of a run that could not begin, and how often that is taken for a service that is still starting."""

Seen = dict[str, tuple[int, int]]


def look(folder: Path) -> Seen:
    """Every file below the folder with time and size; hidden ones and bytecode are nobody's source."""
    return {path: (entry.st_mtime_ns, entry.st_size) for path, entry in _files(str(folder))}


def watch(folder: Path, command: Sequence[str]) -> None:
    """Run the command now and after every change below the folder, until Ctrl-C."""
    while True:
        before = look(folder)
        _judge(command, folder, before)
        _wait_for_a_change(folder, before)


def _judge(command: Sequence[str], folder: Path, before: Seen) -> None:
    """Run it; again and again where the target may not have started yet, as long as nothing else has changed."""
    for _ in range(TRIES):
        if subprocess.run(command, check=False).returncode != NOT_YET or look(folder) != before:
            return
        time.sleep(PAUSE_SECONDS)


def _wait_for_a_change(folder: Path, before: Seen) -> None:
    """Until something has changed and then nothing more for a moment: an editor or a build writes many files."""
    now = look(folder)
    while now == before:
        time.sleep(PAUSE_SECONDS)
        now = look(folder)
    while now != (now := _later(folder)):
        pass


def _later(folder: Path) -> Seen:
    time.sleep(PAUSE_SECONDS)
    return look(folder)


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # it went away meanwhile
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
            continue
        try:
            yield entry.path, entry.stat()
        except OSError:
            continue
