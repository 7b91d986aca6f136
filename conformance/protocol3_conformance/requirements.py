"""The requirement sentences that scenarios cite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from protocol3_spec.loader import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One numbered sentence of the contract: `part` is the document, `owned_by` the IDs that decide instead."""

    id: str
    part: str
    section: str
    level: str
    text: str
    owned_by: tuple[str, ...]


@cache
def requirements() -> Mapping[str, Requirement]:
    """Every requirement of the contract by its ID."""
    rows = read("requirements.json")["requirements"]
    return MappingProxyType(
        {
            row["id"]: Requirement(
                id=row["id"],
                part=row["part"],
                section=row["section"],
                level=row["level"],
                text=row["text"],
                owned_by=tuple(row["owned_by"]),
            )
            for row in rows
        }
    )
