"""Strict query strings (chapter 03, Queries): decoded once, every name known and given once."""

import re
from typing import Final

from protocol3.contract.refusal import invalid, spelled, unknown

_PCT: Final = re.compile(rb"%([0-9A-Fa-f]{2})?")


def decode(raw: str | bytes) -> dict[str, str]:
    """Names and values of a raw query (HTTP-050…053). Raises Refusal; any name is taken."""
    octets = raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw
    if b"#" in octets:  # would begin a fragment, so it is not legal in a query (HTTP-052)
        raise invalid("query", "a # must be escaped")
    found: dict[str, str] = {}
    for piece in octets.split(b"&"):
        name, equals, value = piece.partition(b"=")
        if not equals:
            raise invalid("query", "every piece needs a name and =")
        text = _text(name)
        if text in found:
            raise invalid("query", f"{spelled(text)} is given twice")
        found[text] = _text(value)
    return found


def fields(raw: str | bytes, required: frozenset[str], optional: frozenset[str] = frozenset()) -> dict[str, str]:
    """The decoded query, all required names there and no name besides the optional ones (HTTP-053…055, HTTP-059)."""
    given = decode(raw)
    known = required | optional
    for name in given:
        if name not in known:
            raise invalid("query", unknown("name", name, known))
    for name in sorted(required - given.keys()):
        raise invalid(f"query.{name}", "is missing")
    return given


def number(text: str, at: str, low: int, high: int) -> int:
    """One or more ASCII digits, leading zeros allowed, within low…high (HTTP-056)."""
    digits = text.lstrip("0") or text[-1:]
    if not (text.isascii() and text.isdigit()) or len(digits) > len(str(high)) or not low <= int(digits) <= high:
        raise invalid(at, f"must be digits, {low} to {high}")
    return int(digits)


def _text(octets: bytes) -> str:
    try:
        return _PCT.sub(_octet, octets.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("query", "not UTF-8") from None


def _octet(escape: re.Match[bytes]) -> bytes:
    if escape[1] is None:
        raise invalid("query", "malformed percent escape")
    return bytes.fromhex(escape[1].decode("ascii"))
