"""The kill matrix on the site: its page leads to it as JSON, and each requirement to the mutants that prove it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mutants import entries, matrix

PAGE = "docs/kill-matrix.md"
DATA = "docs/kill-matrix.json"


def linked(text: str) -> str:
    """The page with a link to the data, after its first paragraph."""
    link = "The same [as JSON](kill-matrix.json): every mutant, what it breaks, and which checks killed it."
    return text.replace("\n| kind |", f"\n{link}\n\n| kind |", 1)


def data(mutants: Iterable[entries.Mutant], kept: matrix.Kept) -> list[dict[str, Any]]:
    """Every mutant with what the last run showed; `by` has the broken rules that each killer shows."""
    members = ("id", "role", "kind", "sentence", "breaks", "seen", "of")
    found = ({name: getattr(one, name) for name in members} | kept.get(one.id, {}) for one in mutants)
    return [{name: value for name, value in one.items() if value not in (None, ())} for one in found]


def proofs(rows: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    """By requirement: the mutants that break it and were killed over it."""
    by: dict[str, list[str]] = {}
    for row in rows:
        for rule in dict.fromkeys(rule for rules in row.get("by", {}).values() for rule in rules):
            by.setdefault(rule, []).append(row["id"])
    return by


def read() -> list[dict[str, Any]]:
    """The committed matrix."""
    return data(entries.read(), matrix.load())
