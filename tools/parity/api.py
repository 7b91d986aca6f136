"""The public names of the helper, side by side: signatures, members, bases, data class fields, enumerations.

Names are those of chapter 23: classes and functions that the helper defines in its three
public modules, and `SCHEMA`. Where the published name is annotated, ours has the same annotation; where it is not, ours
may have one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

from parity.runtime import OURS

PROBE = Path(__file__).with_name("probe.py")


def compare(homes: dict[str, Path]) -> list[str]:
    """One sentence for every place in which ours and a release differ; `homes` are bootstrap files by release."""
    ours = _look(OURS)
    found = []
    for release, bootstrap in homes.items():
        for path, mine, theirs in _differences("", ours, _look(bootstrap)):
            found.append(f"API of {release}, {path}: ours {json.dumps(mine)}, theirs {json.dumps(theirs)}")
        if not (bootstrap.parent / "py.typed").is_file() or not (OURS.parent / "py.typed").is_file():
            found.append(f"API of {release}: py.typed is missing on one side")
    return found


def _look(bootstrap: Path) -> dict[str, Any]:
    command = [sys.executable, "-I", "-S", "-B", str(PROBE), str(bootstrap.parents[2])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _as_annotated(mine: list[Any] | None, theirs: list[Any] | None) -> list[Any] | None:
    """Our parameter, with their annotation where they have none or ours is the same with its type arguments."""
    if mine is None or theirs is None:
        return mine
    wanted = theirs[3]
    free = wanted is None or str(mine[3]).startswith(f"{wanted}[")
    return [*mine[:3], wanted if free else mine[3]]


def _differences(path: str, ours: Any, theirs: Any) -> list[tuple[str, Any, Any]]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        names = [*theirs, *(name for name in ours if name not in theirs)]
        pairs = [(f"{path}.{name}".removeprefix("."), ours.get(name), theirs.get(name)) for name in names]
        return [item for where, mine, other in pairs for item in _differences(where, mine, other)]
    if path.endswith(".signature.returns") and theirs is None:
        return []
    if path.endswith(".signature.parameters") and ours is not None and theirs is not None:
        ours = [_as_annotated(mine, other) for mine, other in zip_longest(ours, theirs)]
    return [] if ours == theirs else [(path, ours, theirs)]
