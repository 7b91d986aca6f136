"""Small checks that build up to the exact shape of every reply.

A check takes a decoded value and the place where it stands, and raises Violation. Objects are closed: a member that is
not listed is as wrong as one that is missing (CLI-023), booleans are no integers, floats are no integers (CLI-024).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from protocol3_conformance.bounds import bound, words
from protocol3_conformance.wire import text
from protocol3_conformance.wire.faults import Violation
from protocol3_conformance.wire.strict_json import JsonValue, compact_size, depth, encode

Check = Callable[[JsonValue, str], None]
Rule = Callable[[dict[str, Any], str], None]


def brief(value: JsonValue, size: int = 120) -> str:
    """A value as JSON, cut to a readable length."""
    shown = encode(value).decode("utf-8", "replace")
    return shown if len(shown) <= size else f"{shown[:size]}… ({len(shown)} characters)"


def record(
    members: Mapping[str, Check],
    *,
    optional: Mapping[str, Check] | None = None,
    rules: Iterable[Rule] = (),
    closed: Iterable[str] = (),
    exact: Iterable[str] = (),
) -> Check:
    """An object with exactly these members, then rules that relate them.

    `closed` are requirements that forbid others, `exact` those that demand these as well.
    """
    known = {**members, **(optional or {})}
    left_out = {name for name, check in (optional or {}).items() if not _takes_null(check)}
    relations = tuple(rules)
    no_less = ("CLI-023", *exact)
    no_others = (*no_less, *closed)

    def check(value: JsonValue, at: str) -> None:
        if not isinstance(value, dict):
            raise Violation(at, f"expected an object, came {brief(value)}", "CLI-023")
        if missing := [name for name in members if name not in value]:
            raise Violation(at, f"members are missing: {', '.join(missing)}", *no_less)
        if extra := [name for name in value if name not in known]:
            raise Violation(at, f"members that do not belong here: {', '.join(extra)}", *no_others)
        for name, item in value.items():
            if item is None and name in left_out:
                raise Violation(f"{at}.{name}", "is null; a member that is absent must be left out", "CLI-023")
            known[name](item, f"{at}.{name}")
        for rule in relations:
            rule(value, at)

    return check


def _takes_null(check: Check) -> bool:
    try:
        check(None, "")
    except Violation:
        return False
    return True


def tagged(member: str, variants: Mapping[str, Check], *requirements: str) -> Check:
    """An object whose member says which of the variants it is."""

    def check(value: JsonValue, at: str) -> None:
        tag = value.get(member) if isinstance(value, dict) else None
        if not isinstance(tag, str) or tag not in variants:
            raise Violation(at, f"{member} must be one of {', '.join(variants)}, came {brief(value)}", *requirements)
        variants[tag](value, at)

    return check


def nullable(inner: Check) -> Check:
    def check(value: JsonValue, at: str) -> None:
        if value is not None:
            inner(value, at)

    return check


def array(item: Check, *, most: int | None = None) -> Check:
    def check(value: JsonValue, at: str) -> None:
        if not isinstance(value, list):
            raise Violation(at, f"expected an array, came {brief(value)}", "CLI-023")
        if most is not None and len(value) > most:
            raise Violation(at, f"{len(value)} elements, at most {most} are allowed")
        for index, element in enumerate(value):
            item(element, f"{at}[{index}]")

    return check


def mapping(key: Check, item: Check, *, most: int) -> Check:
    def check(value: JsonValue, at: str) -> None:
        if not isinstance(value, dict):
            raise Violation(at, f"expected an object, came {brief(value)}", "CLI-023")
        if len(value) > most:
            raise Violation(at, f"{len(value)} members, at most {most} are allowed")
        for name, element in value.items():
            key(name, f"{at} (name)")
            item(element, f"{at}.{name}")

    return check


def integer(least: int, most: int) -> Check:
    def check(value: JsonValue, at: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Violation(at, f"expected an integer token, came {brief(value)}", "CLI-024", "JSON-027")
        if not least <= value <= most:
            raise Violation(at, f"{value} is outside {least}…{most}")

    return check


def boolean(value: JsonValue, at: str) -> None:
    if not isinstance(value, bool):
        raise Violation(at, f"expected true or false, came {brief(value)}", "CLI-024")


def string(problem: Callable[[str], str | None], *requirements: str) -> Check:
    def check(value: JsonValue, at: str) -> None:
        if not isinstance(value, str):
            raise Violation(at, f"expected a string, came {brief(value)}", *requirements)
        if wrong := problem(value):
            raise Violation(at, f"{brief(value)} {wrong}", *requirements)

    return check


def one_of(values: Iterable[str], *requirements: str) -> Check:
    allowed = tuple(values)

    def check(value: JsonValue, at: str) -> None:
        if not isinstance(value, str) or value not in allowed:
            raise Violation(at, f"must be one of {', '.join(allowed)}, came {brief(value)}", *requirements)

    return check


def only(expected: JsonValue, *requirements: str) -> Check:
    """Exactly this value, number class included."""

    def check(value: JsonValue, at: str) -> None:
        if encode(value) != encode(expected):
            raise Violation(at, f"must be {brief(expected)}, came {brief(value)}", *requirements)

    return check


def application(most_depth: str = "DATA_DEPTH", most_bytes: str | None = None) -> Check:
    """Any JSON value within the named limits of depth and compact size."""

    def check(value: JsonValue, at: str) -> None:
        if depth(value) > bound(most_depth):
            raise Violation(at, f"nests {depth(value)} containers, at most {bound(most_depth)}", "JSON-032")
        if most_bytes and compact_size(value) > bound(most_bytes):
            raise Violation(at, f"takes {compact_size(value)} compact bytes, at most {bound(most_bytes)}")

    return check


def identifier(limit: str = "ID_BYTES") -> Check:
    return string(lambda value: text.identifier(value, bound(limit)), "TXT-001")


def matching(pattern: Any, what: str, *requirements: str) -> Check:
    """A string that the compiled pattern matches as a whole."""
    return string(lambda value: None if pattern.fullmatch(value) else f"is no {what}", *requirements)


def vocabulary(name: str) -> Check:
    return one_of(words(name))
