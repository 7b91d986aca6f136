"""RFC 3986 syntax of URI references and absolute URIs; nothing is normalised (chapter 02, URIs, TXT-033)."""

import re
from ipaddress import AddressValueError, IPv6Address
from typing import Final

_CHARS: Final = r"A-Za-z0-9\-._~!$&'()*+,;="  # unreserved and sub-delims
_PCT: Final = r"%[0-9A-Fa-f]{2}"
_PCHAR: Final = rf"(?:[{_CHARS}:@]|{_PCT})"
_AUTHORITY: Final = (
    rf"(?:(?:[{_CHARS}:]|{_PCT})*@)?"
    rf"(?:\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|v[0-9A-Fa-f]+\.[{_CHARS}:]+)\]|(?:[{_CHARS}]|{_PCT})*)"
    r"(?::[0-9]*)?"
)
_HIERARCHY: Final = rf"(?://{_AUTHORITY}(?:/{_PCHAR}*)*|/(?:{_PCHAR}+(?:/{_PCHAR}*)*)?|{{first}}(?:/{_PCHAR}*)*|)"
_TAIL: Final = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?P<fragment>#(?:{_PCHAR}|[/?])*)?"

_ABSOLUTE: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:" + _HIERARCHY.replace("{first}", f"{_PCHAR}+") + _TAIL)
_RELATIVE: Final = re.compile(_HIERARCHY.replace("{first}", rf"(?:[{_CHARS}@]|{_PCT})+") + _TAIL)


def is_uri_reference(text: str) -> bool:
    """Whether text is a URI-reference, relative and empty ones included (TXT-030…032)."""
    return any((match := form.fullmatch(text)) is not None and _host_is_valid(match) for form in (_ABSOLUTE, _RELATIVE))


def is_absolute_uri(text: str) -> bool:
    """Whether text is a URI with a scheme and without a fragment, an empty fragment included (TXT-024)."""
    match = _ABSOLUTE.fullmatch(text)
    return match is not None and match["fragment"] is None and _host_is_valid(match)


def _host_is_valid(match: re.Match[str]) -> bool:
    if match["ipv6"] is None:
        return True
    try:
        IPv6Address(match["ipv6"])
    except AddressValueError:
        return False
    return True
