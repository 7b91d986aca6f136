"""The text classes of chapter 02. Each function takes a decoded value and returns it as text or refuses it.

Bodies and queries are judged by the same functions (TXT-009).
"""

import re
from typing import Final

from protocol3.contract.limits import (
    CORRELATION_KEY_BYTES,
    FREE_TEXT_BYTES,
    ID_BYTES,
    PROGRAM_NAME_BYTES,
    REQUEST_ID_CHARS,
)
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_CONTROL_OR_NONCHARACTER: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
    + "]"
)
_PROGRAM_NAME: Final = re.compile(rf"(?!\.{{1,2}}\Z)[a-z0-9._-]{{1,{PROGRAM_NAME_BYTES}}}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_REQUEST_ID: Final = re.compile(rf"[!-~]{{1,{REQUEST_ID_CHARS}}}")


def string(value: JsonValue, at: str) -> str:
    """Any JSON string."""
    if not isinstance(value, str):
        raise invalid(at, "must be a string")
    return value


def identifier(value: JsonValue, at: str, max_bytes: int = ID_BYTES) -> str:
    """Identifier text: 1…max UTF-8 bytes, no control characters, no noncharacters (TXT-001…003)."""
    if isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) <= max_bytes:
        return value  # nearly all of them; the rest says what is wrong with the others
    text = string(value, at)
    if not text:
        raise invalid(at, "must not be empty")
    _bounded(text, at, max_bytes)
    if has_forbidden_characters(text):
        raise invalid(at, "must not hold control characters or noncharacters")
    return text


def uncontrolled(value: JsonValue, at: str, max_bytes: int) -> str:
    """Text of 1…max UTF-8 bytes without control characters: names inside observations (chapter 07, Observations)."""
    text = string(value, at)
    if not text:
        raise invalid(at, "must not be empty")
    _bounded(text, at, max_bytes)
    if _CONTROL.search(text):
        raise invalid(at, "must not hold control characters")
    return text


def correlation(value: JsonValue, at: str) -> str:
    """Correlation text: 0…512 UTF-8 bytes, no control characters; noncharacters are allowed (TXT-004)."""
    text = string(value, at)
    _bounded(text, at, CORRELATION_KEY_BYTES)
    if _CONTROL.search(text):
        raise invalid(at, "must not hold control characters")
    return text


def program_name(value: JsonValue, at: str) -> str:
    """`program.id` or `program.version` (TXT-005)."""
    text = string(value, at)
    if not _PROGRAM_NAME.fullmatch(text):
        raise invalid(at, f"must be 1 to {PROGRAM_NAME_BYTES} of a-z 0-9 . _ - and neither . nor ..")
    return text


def digest(value: JsonValue, at: str) -> str:
    """`sha256:` and 64 lower-case hexadecimal digits (TXT-006)."""
    text = string(value, at)
    if not _DIGEST.fullmatch(text):
        raise invalid(at, "must be sha256: and 64 lower-case hexadecimal digits")
    return text


def free_text(value: JsonValue, at: str, max_bytes: int = FREE_TEXT_BYTES) -> str:
    """Free text: any string of 0…max UTF-8 bytes (TXT-007)."""
    text = string(value, at)
    _bounded(text, at, max_bytes)
    return text


def has_forbidden_characters(text: str) -> bool:
    """Whether text holds a control character or a noncharacter (TXT-001)."""
    return not (text.isascii() and text.isprintable()) and _CONTROL_OR_NONCHARACTER.search(text) is not None


def is_request_id(text: str) -> bool:
    """1…256 visible ASCII characters (HTTP-062, CLI-020)."""
    return _REQUEST_ID.fullmatch(text) is not None


def _bounded(text: str, at: str, max_bytes: int) -> None:
    if len(text) > max_bytes or (len(text) * 4 > max_bytes and len(text.encode("utf-8", "surrogatepass")) > max_bytes):
        raise invalid(at, f"must be at most {max_bytes} bytes")
