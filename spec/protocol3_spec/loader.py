"""Typed access to the specification's data files: limits, error codes, state vocabularies."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One bound of the protocol: inclusive `value` in `unit`, what is counted, and the statements behind it.

    `profile` is the optional profile that it belongs to, None for a bound that everybody keeps.
    """

    name: str
    value: int
    unit: str
    counted: str
    about: str
    group: str
    requirements: tuple[str, ...]
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """One error code (HTTP-066): `statuses`, ordinary one first; `message`: whether the error object carries one.

    `profile` is the optional profile that it belongs to, or None.
    """

    code: str
    statuses: tuple[int, ...]
    message: bool
    level: str
    meaning: str
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """A closed set of words; `subsets` are named parts of it, such as `terminal`."""

    name: str
    values: tuple[str, ...]
    subsets: Mapping[str, tuple[str, ...]]
    requirements: tuple[str, ...]
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A permitted change of state; `source` is None for creation."""

    source: str | None
    event: str
    target: str


def read(name: str) -> Any:
    """The parsed content of one JSON data file of this package."""
    return json.loads(files(__package__).joinpath(name).read_text(encoding="utf-8"))


@cache
def limits() -> Mapping[str, Limit]:
    """Every bound of `limits.json` by name."""
    return MappingProxyType(
        {
            name: Limit(name=name, group=group, **{**body, "requirements": tuple(body["requirements"])})
            for group, bounds in read("limits.json")["groups"].items()
            for name, body in bounds.items()
        }
    )


@cache
def errors() -> Mapping[str, ErrorCode]:
    """Every error code of `errors.json` by code."""
    return MappingProxyType(
        {
            code: ErrorCode(code=code, **{**body, "statuses": tuple(body["statuses"])})
            for code, body in read("errors.json")["errors"].items()
        }
    )


@cache
def vocabularies() -> Mapping[str, Vocabulary]:
    """Every closed set of words of `states.json` by name."""
    return MappingProxyType(
        {
            name: Vocabulary(
                name=name,
                values=tuple(body["values"]),
                subsets={k: tuple(v) for k, v in body.items() if k not in ("values", "requirements", "profile")},
                requirements=tuple(body["requirements"]),
                profile=body.get("profile"),
            )
            for name, body in read("states.json")["vocabularies"].items()
        }
    )


@cache
def transitions(machine: str) -> tuple[Transition, ...]:
    """The transitions of `task` or `workflow` (chapter 41, WF-050)."""
    return tuple(
        Transition(source=row["from"], event=row["event"], target=row["to"])
        for row in read("states.json")["transitions"][machine]
    )
