"""The suite's own JSON codec: decoding by the strict profile, identity, compact size.

Written as a scanner over text, not on top of the standard library's decoder, so that a mistake in another
implementation's use of that decoder is not repeated here. (JSON-001..055)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

from protocol3_conformance.wire.difference import differences

JsonValue: TypeAlias = Any
"""None, bool, int, float, str, list or dict with string keys. `Any`, because scenarios index replies freely."""

WHITESPACE = re.compile(r"[ \t\n\r]*")
PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
HEX4 = re.compile(r"[0-9a-fA-F]{4}")
MUST_ESCAPE = re.compile(r'["\\\x00-\x1f]')

LITERALS = {"n": ("null", None), "t": ("true", True), "f": ("false", False)}
UNESCAPE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
ESCAPE = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
SCANNER_DEPTH = 200
"""Deeper documents are refused unread; every depth limit of the contract lies far below."""


GRAMMAR = ("JSON-001", "JSON-005", "JSON-026")
"""What forbids bytes that the grammar does not have."""


class InvalidJson(ValueError):
    """The bytes are not one JSON value of the strict profile. `rules` are the requirements that say so."""

    def __init__(self, why: str, *rules: str) -> None:
        super().__init__(why)
        self.rules = rules


def decode(body: bytes) -> JsonValue:
    """One JSON value. Raises InvalidJson naming the offset."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson(f"not UTF-8 at byte {error.start}", "JSON-003") from None
    if text.startswith("\ufeff"):
        raise InvalidJson("a byte order mark (offset 0)", "JSON-004")
    scanner = _Scanner(text)
    value, end = scanner.value(scanner.skip(0), 0)
    end = scanner.skip(end)
    if end != len(text):
        raise InvalidJson(f"more than one value (offset {end})", "JSON-001")
    return value


class _Scanner:
    """Every method takes the offset where something starts and returns it with the offset behind it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def fail(self, at: int, why: str, *rules: str) -> InvalidJson:
        return InvalidJson(f"{why} (offset {at})", *(rules or GRAMMAR))

    def skip(self, at: int) -> int:
        found = WHITESPACE.match(self.text, at)
        return found.end() if found else at

    def char(self, at: int) -> str:
        return self.text[at : at + 1]

    def value(self, at: int, depth: int) -> tuple[JsonValue, int]:
        first = self.char(at)
        if first == '"':
            return self.string(at + 1)
        if first in ("{", "["):
            if depth >= SCANNER_DEPTH:
                raise self.fail(at, "too deep", "JSON-033")
            return self.members(at + 1, depth + 1) if first == "{" else self.elements(at + 1, depth + 1)
        if first in LITERALS and first:
            word, value = LITERALS[first]
            if not self.text.startswith(word, at):
                raise self.fail(at, "unknown literal")
            return value, at + len(word)
        return self.number(at)

    def elements(self, at: int, depth: int) -> tuple[list[JsonValue], int]:
        items: list[JsonValue] = []
        at = self.skip(at)
        if self.char(at) == "]":
            return items, at + 1
        while True:
            value, at = self.value(at, depth)
            items.append(value)
            at = self.skip(at)
            if self.char(at) == "]":
                return items, at + 1
            at = self.skip(self.expect(at, ","))

    def members(self, at: int, depth: int) -> tuple[dict[str, JsonValue], int]:
        members: dict[str, JsonValue] = {}
        at = self.skip(at)
        if self.char(at) == "}":
            return members, at + 1
        while True:
            name, behind = self.string(self.expect(at, '"'))
            if name in members:
                raise self.fail(at, "repeated member name", "JSON-006")
            at = self.skip(self.expect(self.skip(behind), ":"))
            members[name], at = self.value(at, depth)
            at = self.skip(at)
            if self.char(at) == "}":
                return members, at + 1
            at = self.skip(self.expect(at, ","))

    def expect(self, at: int, character: str) -> int:
        if self.char(at) != character:
            raise self.fail(at, f"expected {character!r}")
        return at + 1

    def string(self, at: int) -> tuple[str, int]:
        """`at` is behind the opening quote."""
        pieces: list[str] = []
        while True:
            found = PLAIN.match(self.text, at)
            assert found is not None
            pieces.append(found[0])
            at = found.end()
            stop = self.char(at)
            if stop == '"':
                return "".join(pieces), at + 1
            if stop != "\\":
                raise self.fail(at, "raw control character or end inside a string", "JSON-009")
            piece, at = self.escape(at + 1)
            pieces.append(piece)

    def escape(self, at: int) -> tuple[str, int]:
        """`at` is behind the backslash."""
        letter = self.char(at)
        if letter in UNESCAPE and letter:
            return UNESCAPE[letter], at + 1
        if letter != "u":
            raise self.fail(at, "unknown escape", "JSON-010")
        unit, at = self.hex4(at + 1)
        if not 0xD800 <= unit <= 0xDFFF:
            return chr(unit), at
        if unit > 0xDBFF or self.text[at : at + 2] != "\\u":
            raise self.fail(at, "lone surrogate escape", "JSON-011", "TXT-008")
        low, behind = self.hex4(at + 2)
        if not 0xDC00 <= low <= 0xDFFF:
            raise self.fail(at, "lone surrogate escape", "JSON-011", "TXT-008")
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), behind

    def hex4(self, at: int) -> tuple[int, int]:
        found = HEX4.match(self.text, at)
        if not found:
            raise self.fail(at, "four hexadecimal digits expected", "JSON-010")
        return int(found[0], 16), at + 4

    def number(self, at: int) -> tuple[int | float, int]:
        found = NUMBER.match(self.text, at)
        if not found:
            raise self.fail(at, "no value here")
        digits = found[0]
        if found[1] is None and found[2] is None and digits != "-0":
            # 20 characters hold every integer of the profile; longer ones must not reach int().
            if len(digits) > 20 or not MIN_INTEGER <= int(digits) <= MAX_INTEGER:
                raise self.fail(at, "integer out of range", "JSON-020")
            return int(digits), found.end()
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            raise self.fail(at, "number too large", "JSON-024")
        return number, found.end()


def encode(value: JsonValue) -> bytes:
    """The service's compact encoding (JSON-050..054), members in the order of the object."""
    return _text(value, ordered=False).encode("utf-8")


def canonical(value: JsonValue) -> bytes:
    """Compact with members sorted by name: equal bytes mean identical values (JSON-040..044)."""
    return _text(value, ordered=True).encode("utf-8")


def compact_size(value: JsonValue) -> int:
    """Bytes of the compact encoding."""
    return len(encode(value))


@dataclass(frozen=True, slots=True, eq=False)
class Sameness:
    """Whether two values are one JSON value; a failed `assert` shows it by the members that differ."""

    left: JsonValue
    right: JsonValue

    def __bool__(self) -> bool:
        return canonical(self.left) == canonical(self.right)

    def __repr__(self) -> str:
        return "; ".join(differences(self.left, self.right, Sameness)) or "the same"


def same(one: JsonValue, other: JsonValue) -> Sameness:
    """JSON identity: 1, 1.0 and true all differ, member order does not matter (JSON-040..044)."""
    return Sameness(one, other)


def depth(value: JsonValue) -> int:
    """Containers on the deepest path; a scalar has depth 0 (JSON-030)."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def _text(value: JsonValue, *, ordered: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, list):
        return "[" + ",".join(_text(item, ordered=ordered) for item in value) + "]"
    if isinstance(value, dict):
        names = sorted(value) if ordered else list(value)
        return "{" + ",".join(f"{_string(name)}:{_text(value[name], ordered=ordered)}" for name in names) + "}"
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def _string(text: str) -> str:
    return '"' + MUST_ESCAPE.sub(lambda found: ESCAPE.get(found[0]) or f"\\u{ord(found[0]):04x}", text) + '"'


def float_text(number: float) -> str:
    """The service's spelling of a float (JSON-054): shortest digits, its own rule for the exponent."""
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("not a finite number")
    sign = "-" if str(number).startswith("-") else ""
    digits, point = _shortest(abs(number))
    if not digits:
        return sign + "0.0"
    if len(digits) <= point <= 16:
        return sign + digits + "0" * (point - len(digits)) + ".0"
    if 0 < point < len(digits) and point <= 16:
        return sign + digits[:point] + "." + digits[point:]
    if -4 <= point <= 0:
        return sign + "0." + "0" * -point + digits
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def _shortest(number: float) -> tuple[str, int]:
    """(d1…dn, p) with number = 0.d1…dn x 10^p and neither end of the digits a zero; no digits for zero."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return digits.rstrip("0"), point
