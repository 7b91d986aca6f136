"""The table of meant differences: each names its cases, the places in them, a requirement and a reason."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from parity.compare import Difference

TABLE = Path(__file__).with_name("explained.toml")
REQUIREMENTS = Path(__file__).resolve().parents[2] / "spec" / "protocol3_spec" / "requirements.json"


class TableError(Exception):
    """The table says something that is not so."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """`cases` and `paths` are shell patterns over case names and difference paths."""

    id: str
    reason: str
    cases: tuple[str, ...]
    paths: tuple[str, ...]

    def covers(self, case: str, difference: Difference) -> bool:
        return any(fnmatchcase(case, pattern) for pattern in self.cases) and any(
            fnmatchcase(difference.path, pattern) for pattern in self.paths
        )


class Explanations:
    """Looks differences up and remembers which entries were needed."""

    def __init__(self, entries: Iterable[Explanation]) -> None:
        self._entries = tuple(entries)
        self._used: set[tuple[Explanation, str]] = set()

    def of(self, case: str, found: list[Difference]) -> tuple[Explanation, ...] | None:
        """The explanations of all the differences, or None when one of them has none."""
        needed: dict[Explanation, None] = {}
        for difference in found:
            entry = next((entry for entry in self._entries if entry.covers(case, difference)), None)
            if entry is None:
                return None
            needed[entry] = None
            self._used |= {(entry, pattern) for pattern in entry.cases if fnmatchcase(case, pattern)}
        return tuple(needed)

    def concern(self, case: str) -> bool:
        """Whether an entry names the case."""
        return any(fnmatchcase(case, pattern) for entry in self._entries for pattern in entry.cases)

    def unused(self) -> list[str]:
        """What no case needed, a pattern of an entry as well as a whole entry."""
        wanted = [(entry, pattern) for entry in self._entries for pattern in entry.cases]
        return [f"{entry.id}: {pattern}" for entry, pattern in wanted if (entry, pattern) not in self._used]


def load(path: Path = TABLE) -> Explanations:
    """Read the table. Raises TableError for an entry without reason, cases, places or a known requirement."""
    known = {item["id"] for item in json.loads(REQUIREMENTS.read_text())["requirements"]}
    entries = []
    for item in tomllib.loads(path.read_text()).get("difference", []):
        entry = Explanation(
            id=item["id"], reason=item["reason"], cases=tuple(item["cases"]), paths=tuple(item["paths"])
        )
        if not (entry.reason and entry.cases and entry.paths):
            raise TableError(f"{entry.id}: a reason, a case or a place is missing")
        if entry.id not in known:
            raise TableError(f"{entry.id} is no requirement")
        entries.append(entry)
    return Explanations(entries)
