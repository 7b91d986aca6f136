"""The classes of text that the keyword `x-text` names, as predicates (chapters 02 and 19).

Where a class has a pattern in `schemas/scalars.json`, that pattern is its whole rule and nothing stands here.
"""

import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Mapping
from ipaddress import IPv6Address
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from protocol3_spec.loader import limits

_UNRESERVED_OR_SUB = r"[A-Za-z0-9._~!$&'()*+,;=-]"
_PCHAR = rf"(?:{_UNRESERVED_OR_SUB}|[:@]|%[0-9A-Fa-f]{{2}})"
_URI: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?"
    r"(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_PATH: Final = re.compile(rf"(?:{_PCHAR}|/)*")
_QUERY: Final = re.compile(rf"(?:{_PCHAR}|[/?])*")
_AUTHORITY: Final = re.compile(
    rf"(?:(?:{_UNRESERVED_OR_SUB}|:|%[0-9A-Fa-f]{{2}})*@)?"
    rf"(?:\[(?P<literal>[^\]]*)\]|(?:{_UNRESERVED_OR_SUB}|%[0-9A-Fa-f]{{2}})*)(?::[0-9]*)?"
)
_FUTURE: Final = re.compile(rf"v[0-9A-Fa-f]+\.(?:{_UNRESERVED_OR_SUB}|:)+")
_TIME: Final = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[Tt](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.\d+)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<offset_hour>\d\d):(?P<offset_minute>\d\d))",
    re.ASCII,
)
_STATE_KEY: Final = re.compile(r"[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}")
_STATE_VALUE: Final = re.compile(rf"[ -~]{{1,{limits()['TRACESTATE_VALUE_CHARS'].value}}}")


def uri_reference(text: str) -> bool:
    """An RFC 3986 URI reference, relative and empty ones included (TXT-030 to TXT-032)."""
    parts = _URI.fullmatch(text)
    assert parts is not None  # every text has these five parts; each is judged below
    authority, path = parts["authority"], parts["path"]
    if authority is not None and not _is_authority(authority):
        return False
    if parts["scheme"] is None and authority is None and ":" in path.partition("/")[0]:
        return False  # TXT-031
    return _PATH.fullmatch(path) is not None and all(
        part is None or _QUERY.fullmatch(part) is not None for part in (parts["query"], parts["fragment"])
    )


def absolute_uri(text: str) -> bool:
    """A URI with a scheme and without a fragment, an empty one included (TXT-024)."""
    return "#" not in text and re.match("[A-Za-z][A-Za-z0-9+.-]*:", text) is not None and uri_reference(text)


def time(text: str) -> bool:
    """The contract's profile of RFC 3339 (TXT-041 to TXT-044)."""
    parts = _TIME.fullmatch(text)
    if parts is None:
        return False
    given = {name: int(value or 0) for name, value in parts.groupdict().items() if name != "sign"}
    year, month, day = given["year"] or 400, given["month"], given["day"]  # year 0000 has the calendar of 0400
    if not (1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return False
    if given["hour"] > 23 or given["minute"] > 59 or given["offset_hour"] > 23 or given["offset_minute"] > 59:
        return False
    if given["second"] < 60:
        return True
    offset = (given["offset_hour"] * 60 + given["offset_minute"]) * (-1 if parts["sign"] == "-" else 1)
    days, minute = divmod(given["hour"] * 60 + given["minute"] - offset, 1440)
    last_day = day + days in (0, monthrange(year, month)[1])  # 0 is the last day of the month before
    return given["second"] == 60 and minute == 1439 and last_day


def tracestate(text: str) -> bool:
    """At most 32 comma separated members with distinct keys; empty ones count and are allowed (TRC-002 to TRC-004)."""
    members = text.split(",")
    pairs = [member.strip(" ").split("=") for member in members if member.strip(" ")]
    return (
        len(members) <= limits()["TRACESTATE_MEMBERS"].value
        and all(len(pair) == 2 and _STATE_KEY.fullmatch(pair[0]) and _STATE_VALUE.fullmatch(pair[1]) for pair in pairs)
        and len({pair[0] for pair in pairs}) == len(pairs)
    )


def _is_authority(text: str) -> bool:
    match = _AUTHORITY.fullmatch(text)
    if match is None or match["literal"] is None:
        return match is not None
    return _FUTURE.fullmatch(match["literal"]) is not None or _is_ipv6(match["literal"])


def _is_ipv6(text: str) -> bool:
    try:
        return "%" not in text and bool(IPv6Address(text))
    except ValueError:
        return False


def percent_correlation(text: str) -> bool:
    """A correlation key in percent form: canonical, and without control characters (CMP-036)."""
    try:
        key = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        return False
    long = len(key.encode()) > limits()["CORRELATION_KEY_BYTES"].value
    return quote(key, safe="") == text and not long and not any(unicodedata.category(c) == "Cc" for c in key)


CLASSES: Final[Mapping[str, Callable[[str], bool] | None]] = MappingProxyType(
    {
        "identifier": None,
        "correlation": None,
        "uncontrolled": None,
        "attribute": None,
        "program-name": None,
        "digest": None,
        "traceparent": None,
        "tracestate": tracestate,
        "uri-reference": uri_reference,
        "absolute-uri": absolute_uri,
        "time": time,
        "percent-correlation": percent_correlation,
    }
)
"""Every class by name; None where the pattern beside the keyword says it all."""
