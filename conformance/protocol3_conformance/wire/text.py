"""Text classes of replies: each function says what is wrong with a string, or returns None. (TXT-001..006, TRC)"""

from __future__ import annotations

import re
import unicodedata

NAME = re.compile(r"[a-z0-9._-]{1,128}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REQUEST_ID = re.compile(r"[!-~]{1,256}")
JSON_MEDIA_TYPE = re.compile(
    r'application/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*(?:utf-8|"utf-8")[ \t]*)?', re.IGNORECASE
)
TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
EMITTED_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?[Zz]")


def identifier(text: str, max_bytes: int) -> str | None:
    """TXT-001: 1..max UTF-8 bytes, no control character, no noncharacter."""
    if not text:
        return "is empty"
    return correlation(text, max_bytes) or ("contains a noncharacter" if any(map(_noncharacter, text)) else None)


def correlation(text: str, max_bytes: int) -> str | None:
    """TXT-004: 0..max UTF-8 bytes, no control character."""
    if any(unicodedata.category(character) == "Cc" for character in text):
        return "contains a control character"
    return free(text, max_bytes)


def free(text: str, max_bytes: int) -> str | None:
    """TXT-007: 0..max UTF-8 bytes."""
    size = len(text.encode("utf-8"))
    return f"is {size} bytes long, more than {max_bytes}" if size > max_bytes else None


def program_name(text: str) -> str | None:
    """TXT-005."""
    return None if NAME.fullmatch(text) and text not in (".", "..") else "is no program name"


def _noncharacter(character: str) -> bool:
    point = ord(character)
    return 0xFDD0 <= point <= 0xFDEF or point & 0xFFFE == 0xFFFE
