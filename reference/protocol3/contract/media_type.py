"""Content-Type and Content-Encoding of requests and replies (chapter 03, Media types)."""

import re
from collections.abc import Sequence
from typing import Final

from protocol3.contract.refusal import Refusal

_JSON: Final = re.compile(
    r'[ \t]*application/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*(?:utf-8|"utf-8")[ \t]*)?', re.IGNORECASE | re.ASCII
)


def is_json(content_type: str) -> bool:
    """`application/json`, optionally with `charset=utf-8` and nothing else (HTTP-030, HTTP-031)."""
    return content_type == "application/json" or _JSON.fullmatch(content_type) is not None


def check(content_types: Sequence[str], content_encodings: Sequence[str]) -> None:
    """Refuses with 415 all but one JSON Content-Type and at most one Content-Encoding, `identity` (HTTP-032)."""
    if len(content_types) != 1 or not is_json(content_types[0]):
        raise Refusal("invalid_input", "Content-Type must be application/json", status=415)
    if list(content_encodings) not in ([], ["identity"]):
        raise Refusal("invalid_input", "Content-Encoding must be identity", status=415)
