"""The JSON profile of chapter 01: strict decoding, compact and canonical encoding, identity, depth.

Values are plain Python: None, bool, int, float, str, list, dict. The seven classes never mix: `1`, `1.0`, `True` and
`-0.0` are four different values (JSON-040…042), so compare with `same` or `digest`, never with `==`.
"""

import json
import re
from collections import Counter
from hashlib import sha256
from itertools import accumulate
from math import isfinite
from typing import Final, TypeAlias

from protocol3.contract.limits import INTEGER_MAX, INTEGER_MIN, REQUEST_DEPTH

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


class InvalidJson(ValueError):
    """The document breaks the JSON profile. The text names the rule and never quotes the document.

    `repeated` is the name that an object has twice, if that was it.
    """

    def __init__(self, reason: str, *, repeated: str | None = None) -> None:
        super().__init__(reason)
        self.repeated = repeated


def decode(body: bytes, *, max_depth: int = REQUEST_DEPTH) -> JsonValue:
    """The one value of a document. Raises InvalidJson, however deep, long or odd the document is.

    Grammar, white space, strings and escapes are the standard decoder's (JSON-001, JSON-002, JSON-005, JSON-008 to
    JSON-010, JSON-012, JSON-026); to it a byte order mark is no white space (JSON-004). The hooks below do the rest.
    `max_depth` stays in the hundreds: the standard decoder and encoder recurse that deep.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidJson("not UTF-8") from None  # JSON-003
    if deeper_than(max_depth, body):
        raise InvalidJson(f"nested deeper than {max_depth}")  # JSON-031, JSON-033
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise InvalidJson(f"not JSON at character {error.pos}") from None
    if _SURROGATE_ESCAPE.search(body):
        encode(value)  # a lone surrogate has no UTF-8 form; an escaped pair is one scalar by now (JSON-011, TXT-008)
    return value


def encode(value: JsonValue) -> bytes:
    """Compact UTF-8 text (JSON-050…054). Raises InvalidJson for NaN, infinities and lone surrogates."""
    return _utf8(_COMPACT, value)


def canonical(value: JsonValue) -> bytes:
    """Compact text with the members of every object in code point order: equal exactly for identical values."""
    return _utf8(_CANONICAL, value)


def compact_size(value: JsonValue) -> int:
    """Bytes of the compact encoding, the measure of every limit marked compact (JSON-055)."""
    return len(encode(value))


def fits(value: JsonValue, text: bytes, limit: int) -> bool:
    """Whether the compact form of a value has at most ``limit`` bytes; ``text`` is, or holds, what it was decoded from.

    A short text settles it: only floats get longer, the most `1e15`, which becomes `1000000000000000.0`.
    """
    return 5 * len(text) <= limit or compact_size(value) <= limit


def same(a: JsonValue, b: JsonValue) -> bool:
    """Identity of JSON-040…044: classes, floats bit for bit, array order; member order does not matter."""
    return canonical(a) == canonical(b)


def digest(value: JsonValue) -> bytes:
    """SHA-256 (32 bytes) of the canonical text."""
    return sha256(canonical(value)).digest()


def depth(value: JsonValue) -> int:
    """Containers on the deepest path: 0 for a scalar, 1 for `[]` (JSON-030). Works on any nesting."""
    levels = 0
    level: list[JsonValue] = [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        levels += 1
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return levels


def deeper_than(limit: int, text: bytes) -> bool:
    """Whether a JSON text nests beyond the limit, told from its brackets alone, before anything recursive reads it.

    For text that is not JSON the answer is right up to the place where a decoder stops.
    """
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = text.translate(None, _NOT_STRUCTURE)
    outside_strings = b"".join(structure.split(b'"')[::2])
    return max(accumulate(map(_STEP.__getitem__, outside_strings)), default=0) > limit


def float_text(number: float) -> str:
    """The text of a finite float (JSON-054), built from its shortest round-trip digits."""
    sign, digits, point = _shortest(number)
    count = len(digits)
    if not digits:
        return f"{sign}0.0"
    if count <= point <= 16:
        return f"{sign}{digits}{'0' * (point - count)}.0"
    if 0 < point <= 16:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -4 <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _shortest(number: float) -> tuple[str, str, int]:
    """Sign, digits d1…dn and point p of JSON-054: |number| = 0.d1…dn * 10^p; no digits for zero."""
    if not isfinite(number):
        raise InvalidJson("not a finite number")
    mantissa, _, exponent = repr(number).partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    return sign, digits.rstrip("0"), len(whole) - leading + int(exponent or 0)


# Decoding. The standard decoder does the work; the hooks refuse what it would let through.


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        # JSON-006, JSON-007: names are unescaped by now
        raise InvalidJson("repeated member name", repeated=Counter(name for name, _ in pairs).most_common(1)[0][0])
    return members


def _integer(digits: str) -> int | float:
    """JSON-020, JSON-021."""
    if digits == "-0":
        return -0.0  # JSON-022
    if len(digits) > 20:  # the longest in range; also keeps the conversion of huge numbers cheap
        raise InvalidJson("integer out of range")
    number = int(digits)
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        raise InvalidJson("integer out of range")
    return number


def _float(token: str) -> float:
    """JSON-023 to JSON-025: Python rounds and underflows as they want."""
    number = float(token)
    if not isfinite(number):
        raise InvalidJson("float out of range")
    return number


def _constant(_: str) -> None:
    raise InvalidJson("NaN and Infinity are not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_STRUCTURE: Final = bytes(set(range(256)) - set(b'"[]{}'))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


# Encoding. The standard encoder writes everything but floats as JSON-050…052 want it. Its float text differs from
# JSON-054 exactly where an exponent has a leading zero: 1e-05 is 0.00001, and 1e-06 to 1e-09 lose the zero.

_COMPACT: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))
_CANONICAL: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), sort_keys=True
)
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_FIFTH_PLACE: Final = re.compile(r"([0-9])\.?([0-9]*)e-05")


def _respelled(text: str) -> str:
    """The text with the floats of JSON-054, changed all at once: a call for each float would cost seconds in 8 MiB."""
    structure = _STRING.sub("%s", text)  # outside of strings JSON has no percent sign
    if "e-0" not in structure:
        return text
    if "e-05" in structure:
        pieces = _FIFTH_PLACE.split(structure)  # what is between, d1, d2…dn, what is between, ...
        pieces[1::3] = ["0.0000" + first for first in pieces[1::3]]
        structure = "".join(pieces)
    return structure.replace("e-0", "e-") % tuple(_STRING.findall(text))


def _utf8(encoder: json.JSONEncoder, value: JsonValue) -> bytes:
    try:
        text = encoder.encode(value)
        if "e-0" in text:
            text = _respelled(text)
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidJson("lone surrogate") from None
    except ValueError:
        raise InvalidJson("not a finite number") from None
