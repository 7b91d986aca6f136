"""RFC 3339 timestamps of CloudEvents (TXT-041 … TXT-044)."""

from __future__ import annotations

import re

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY_MINUTES = 24 * 60


def is_time(value: str) -> bool:
    found = _TIME.fullmatch(value)
    if found is None:
        return False
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    offset_hour, offset_minute = int(found[8] or 0), int(found[9] or 0)
    if not (1 <= month <= 12 and 1 <= day <= _days(year, month)):
        return False
    if hour > 23 or minute > 59 or second > 60 or offset_hour > 23 or offset_minute > 59:
        return False
    if second < 60:
        return True
    offset = (offset_hour * 60 + offset_minute) * (-1 if found[7] == "-" else 1)
    return _ends_month(year, month, day, hour * 60 + minute - offset)


def _ends_month(year: int, month: int, day: int, utc_minute: int) -> bool:
    """Is this minute, counted from the local day's start but in UTC, the last one of a UTC month? (TXT-044)"""
    shift, minute = divmod(utc_minute, _DAY_MINUTES)
    day += shift
    if day == 0:  # the UTC day is the last one of the month before
        month -= 1
        return minute == _DAY_MINUTES - 1
    return minute == _DAY_MINUTES - 1 and day == _days(year, month)


def _days(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap and month == 2 else _MONTH_DAYS[month - 1]
