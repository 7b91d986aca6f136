"""The contract's numbers and words, from `protocol3_spec`; no scenario writes one of them down a second time."""

from __future__ import annotations

from protocol3_spec.loader import limits, vocabularies


def bound(name: str) -> int:
    """The value of one entry of limits.json."""
    return limits()[name].value


def words(vocabulary: str, subset: str | None = None) -> tuple[str, ...]:
    """The words of one vocabulary of states.json, or of a named part of it."""
    entry = vocabularies()[vocabulary]
    return entry.subsets[subset] if subset else entry.values
