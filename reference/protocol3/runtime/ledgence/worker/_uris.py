"""RFC 3986 syntax, nothing else: no text is ever rewritten (TXT-030 … TXT-033)."""

from __future__ import annotations

import re

_ENCODED = "%[0-9A-Fa-f]{2}"
_PLAIN = r"A-Za-z0-9\-._~!$&'()*+,;="
_SEGMENT = rf"(?:[{_PLAIN}:@]|{_ENCODED})*"
_PATH = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_QUERY = re.compile(rf"(?:[{_PLAIN}:@/?]|{_ENCODED})*")
_USER = re.compile(rf"(?:[{_PLAIN}:]|{_ENCODED})*")
_HOST = re.compile(rf"(?:[{_PLAIN}]|{_ENCODED})*")
_LITERAL = re.compile(rf"\[(?:[vV][0-9A-Fa-f]+\.[{_PLAIN}:]+|([0-9A-Fa-f:.]+))\]")
_PORT = re.compile(r"(?::[0-9]*)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+\-.]*")
_GROUP = re.compile(r"[0-9A-Fa-f]{1,4}")
_OCTET = re.compile(r"[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5]")


def is_uri_reference(value: str) -> bool:
    return _is_uri(value, _split_scheme(value))


def is_absolute_uri(value: str) -> bool:
    """A URI with a scheme and without a fragment."""
    return "#" not in value and _split_scheme(value) is not None and is_uri_reference(value)


def _split_scheme(value: str) -> str | None:
    scheme, colon, _ = value.partition(":")
    return scheme if colon and _SCHEME.fullmatch(scheme) else None


def _is_uri(value: str, scheme: str | None) -> bool:
    rest = value if scheme is None else value[len(scheme) + 1 :]
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    if not (_QUERY.fullmatch(query) and _QUERY.fullmatch(fragment)):
        return False
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(authority) and _PATH.fullmatch(slash + path) is not None
    # Without a scheme the first segment must not look like one (TXT-031).
    first = rest.partition("/")[0]
    return _PATH.fullmatch(rest) is not None and (scheme is not None or ":" not in first)


def _is_authority(authority: str) -> bool:
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        return False
    literal = _LITERAL.match(host)
    if literal is not None:
        port = host[literal.end() :]
        return _PORT.fullmatch(port) is not None and (literal[1] is None or _is_ipv6(literal[1]))
    name, colon, digits = host.partition(":")
    return _HOST.fullmatch(name) is not None and _PORT.fullmatch(colon + digits) is not None


def _is_ipv6(address: str) -> bool:
    head, compressed, tail = address.partition("::")
    left, right = _groups(head, last=not compressed), _groups(tail, last=True)
    if left is None or right is None:
        return False
    return left + right <= 7 if compressed else left == 8


def _groups(text: str, *, last: bool) -> int | None:
    """How many 16-bit groups this part of an address holds; a dotted IPv4 tail counts two. None if malformed."""
    if not text:
        return 0
    parts = text.split(":")
    dotted = parts.pop() if last and "." in parts[-1] else None
    if not all(_GROUP.fullmatch(part) for part in parts):
        return None
    if dotted is None:
        return len(parts)
    octets = dotted.split(".")
    return len(parts) + 2 if len(octets) == 4 and all(_OCTET.fullmatch(octet) for octet in octets) else None
