"""Which mutants a run is for: by name and kind, by what a change touched, and a sample that every change rotates."""

from __future__ import annotations

import inspect
import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from mutants.entries import HOME, ROOT, Mutant
from protocol3_conformance import catalogue

MAIN = ("origin/HEAD", "origin/main", "main")


def named(mutants: Iterable[Mutant], *, ids: Sequence[str], kind: str | None, role: str | None) -> list[Mutant]:
    """`ids` are patterns of an ID or of the file's name without its ending; a twin comes with its mutant."""
    return [
        mutant
        for mutant in mutants
        if (kind is None or mutant.kind == kind)
        and (role is None or mutant.role == role)
        and (not ids or any(fnmatch(name, one) for one in ids for name in (mutant.id, mutant.of or "", mutant.source)))
    ]


def unmet(mutants: Sequence[Mutant], *, ids: Sequence[str], kind: str | None, role: str | None) -> list[str]:
    """The patterns, all there are if none is given, that choose nothing: a mistake of whoever asks."""
    return [one for one in ids or ["*"] if not named(mutants, ids=[one], kind=kind, role=role)]


def changed_files(root: Path = ROOT) -> tuple[str, set[str]]:
    """Since when, in words, and the files that differ since: the branch from the main one, else the last commit.

    A clone without history, or none at all, has no such files; the words say so.
    """
    head = _git(root, "rev-parse", "HEAD")
    bases = (_git(root, "merge-base", "HEAD", name) for name in MAIN)
    base = next((one for one in bases if one and one != head), None) or _git(root, "rev-parse", "--verify", "HEAD~1")
    if base is None:
        return "there is no history to tell what changed", set()
    names = _git(root, "diff", "--name-only", base) or ""
    return f"changed since {base[:12]}", set(names.splitlines())


def touched(mutants: Iterable[Mutant], files: set[str]) -> Iterator[Mutant]:
    """Those whose description, edited files or citing checks are among the files."""
    citing: set[str] = set()
    for check in catalogue.everything().values():
        if Path(inspect.getfile(check.body)).relative_to(ROOT).as_posix() in files:
            citing.update(check.cites)
    for mutant in mutants:
        own = {(HOME / f"{mutant.source}.toml").relative_to(ROOT).as_posix(), *(edit.path for edit in mutant.edits)}
        if own & files or citing.intersection(mutant.breaks):
            yield mutant


def sample(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """So many of them, in an order drawn from the seed."""
    return random.Random(seed).sample(mutants, min(count, len(mutants)))  # noqa: S311 - not for secrets


def seed_of_commit(root: Path = ROOT) -> int:
    """Another one for every commit, the same for all who run it; 0 without git."""
    return int((_git(root, "rev-parse", "HEAD") or "0")[:8], 16)


def last_change(paths: Iterable[Path], root: Path = ROOT) -> str:
    """The last commit that changed any of them, short."""
    return _git(root, "log", "-1", "--abbrev=12", "--format=%h", "--", *map(str, paths)) or "unknown"


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
