"""Timestamps of the protocol (Unix milliseconds) and the text form in CloudEvents (chapter 02, Time as text)."""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import Final

from protocol3.contract.limits import MAX_TIMESTAMP_MS
from protocol3.contract.refusal import invalid
from protocol3.contract.strict_json import JsonValue
from protocol3.contract.text import string

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MINUTE: Final = 23 * 60 + 59
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def timestamp(value: JsonValue, at: str) -> int:
    """An integer token, Unix milliseconds UTC, up to the last instant of year 9999 (TXT-040)."""
    if type(value) is not int or not 0 <= value <= MAX_TIMESTAMP_MS:
        raise invalid(at, f"must be an integer from 0 to {MAX_TIMESTAMP_MS}")
    return value


def time_text(value: JsonValue, at: str) -> str:
    """The `time` attribute of a CloudEvent, kept as it is (TXT-041…045)."""
    text = string(value, at)
    if not is_time_text(text):
        raise invalid(at, "must be an RFC 3339 time")
    return text


def is_time_text(text: str) -> bool:
    """Whether text is a time by TXT-041…044, leap seconds and year 0000 included."""
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
    sign, offset_hour, offset_minute = match[7], int(match[8] or 0), int(match[9] or 0)
    if not 1 <= month <= 12 or not 1 <= day <= _days(year, month):
        return False
    if hour > 23 or minute > 59 or second > 60 or offset_hour > 23 or offset_minute > 59:
        return False
    offset = offset_hour * 60 + offset_minute
    utc_minute = hour * 60 + minute - (-offset if sign == "-" else offset)
    return second < 60 or _is_last_minute_of_month(year, month, day, utc_minute)


def event_time(ms: int) -> str:
    """The text of a timestamp: UTC with `Z`, the fraction without trailing zeros and omitted when zero (TXT-046)."""
    text = (_EPOCH + timedelta(milliseconds=ms)).replace(tzinfo=None).isoformat(timespec="milliseconds")
    return text.rstrip("0").rstrip(".") + "Z" if ms % 1000 else text[:19] + "Z"


def _days(year: int, month: int) -> int:
    # The Gregorian calendar repeats every 400 years, so year 0000 is counted as 2000.
    return monthrange(2000 + year % 400, month)[1]


def _is_last_minute_of_month(year: int, month: int, day: int, utc_minute: int) -> bool:
    """Whether minute `utc_minute` of a day, counted in UTC and possibly outside 0…1439, ends a UTC month (TXT-044)."""
    shift, minute = divmod(utc_minute, 24 * 60)  # -1: the UTC day before, +1: the one after
    if minute != _LAST_MINUTE:
        return False
    return day == 1 if shift < 0 else day + shift == _days(year, month)
