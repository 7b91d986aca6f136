"""What the model says of an answer: an error code, or a pattern of the value.

A pattern is JSON. An object matches one that has at least its members, an array one of the same length, every other
value itself, number classes apart. Objects with one of the following members are more than that. Identifiers and
instants are whatever the caller names them by; the model only passes them on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SOME: Any = {"$some": True}
"""Any value but null."""
ABSENT: Any = {"$absent": True}
"""A member that is left out."""


def one_of(patterns: Iterable[Any]) -> Any:
    """Where the contract leaves several outcomes open."""
    found = list(patterns)
    return found[0] if len(found) == 1 else {"$any": found}


def by(pattern: Any, *rules: str) -> Any:
    """A pattern, and the requirements that a value which does not match it breaks."""
    return {"$by": list(rules), "is": pattern}


def exactly(members: dict[str, Any]) -> Any:
    """These members and no others."""
    return {"$exactly": members}


def fresh(known: Iterable[Any]) -> Any:
    """A value, but none of those known already."""
    return {"$new": [name for name in known if name is not None]}


def known(name: Any) -> Any:
    """The name of something, or any where nobody has learnt it yet."""
    return SOME if name is None else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`code` is None for 200; every code has one status. Another answer breaks `rules`, where no part says more."""

    code: str | None = None
    value: Any = None
    rules: tuple[str, ...] = ()


def accepted(value: Any, *rules: str) -> Answer:
    return Answer(value=value, rules=rules)


def refused(code: str, *rules: str) -> Answer:
    return Answer(code=code, value={"code": code}, rules=rules)
