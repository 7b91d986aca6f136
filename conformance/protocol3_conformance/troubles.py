"""Failures of real engines and the checks that look for them: `troubles.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from importlib.resources import files

COUNT = 57
"""How many reports were collected; each is numbered."""
SOURCE = re.compile(r"[\w.-]+/[\w.-]+#[1-9][0-9]*")
RESTARTING = "crashes/"
"""The subject of the checks that kill and start the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One kind of failure. `sources` are OWNER/REPOSITORY#NUMBER of issues or pull requests."""

    number: int
    sources: tuple[str, ...]
    report: str
    checks: tuple[str, ...] = ()
    excluded: str | None = None
    restart: bool = False

    @property
    def awaits_restart(self) -> bool:
        """Whether a check that kills and starts the target would play it better than those named."""
        return self.restart and not any(check.startswith(RESTARTING) for check in self.checks)


def troubles() -> list[Trouble]:
    """All of them in the order of the file. Raises TypeError for a row with a missing or unknown member."""
    rows = tomllib.loads(files(__package__).joinpath("troubles.toml").read_text(encoding="utf-8"))["trouble"]
    return [
        Trouble(**{**row, "sources": tuple(row["sources"]), "checks": tuple(row.get("checks", ()))}) for row in rows
    ]


def faults(rows: list[Trouble], known: Container[str]) -> Iterator[str]:
    """What is wrong with them, a sentence each; `known` are the IDs of the checks there are."""
    numbers = [row.number for row in rows]
    if numbers != [*range(1, COUNT + 1)]:
        yield f"the numbers are not 1 to {COUNT}, each once and in order"
    for row in rows:
        if bool(row.checks) == bool(row.excluded):
            yield f"{row.number}: needs checks or a reason why it is excluded, and not both"
        for wrong in [source for source in row.sources if not SOURCE.fullmatch(source)] if row.sources else ["nothing"]:
            yield f"{row.number}: {wrong} is no source of the form OWNER/REPOSITORY#NUMBER"
        for name in row.checks:
            if name not in known:
                yield f"{row.number}: there is no check {name}"
        if len(set(row.checks)) < len(row.checks):
            yield f"{row.number}: names a check twice"
