"""The compact encoding of JSON-050 to JSON-055 and the depth of JSON-030: what limits of values are counted in.

Written for reading, not for speed, and independent of every implementation that is judged by it.
"""

import json
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any


def compact(value: Any, *, sort: bool = False) -> str:
    """The compact text of a decoded value; with `sort` the canonical one, equal exactly for identical values."""
    match value:
        case float():
            return float_text(value)
        case list():
            return f"[{','.join(compact(item, sort=sort) for item in value)}]"
        case dict():
            names = sorted(value) if sort else value
            return f"{{{','.join(f'{compact(name)}:{compact(value[name], sort=sort)}' for name in names)}}}"
    return json.dumps(value, ensure_ascii=False)


def compact_bytes(value: Any) -> int:
    """Bytes of the compact encoding."""
    return len(compact(value).encode("utf-8", "surrogatepass"))


def same(a: Any, b: Any) -> bool:
    """Identity of JSON-040 to JSON-044: 1, 1.0, true and -0.0 all differ; member order does not matter."""
    return compact(a, sort=True) == compact(b, sort=True)


def depth(value: Any) -> int:
    """Containers on the deepest path: 0 for a scalar, 1 for an empty array or object."""
    levels, level = 0, [value]
    while containers := [item for item in level if isinstance(item, list | dict)]:
        levels += 1
        level = list(chain.from_iterable(item.values() if isinstance(item, dict) else item for item in containers))
    return levels


def float_text(number: float) -> str:
    """JSON-054: the shortest digits that round-trip; plain from 1e-5 up to 1e16, with an exponent elsewhere."""
    return _spelled(repr(number))


@lru_cache(maxsize=4096)
def _spelled(shortest: str) -> str:
    sign = "-" if shortest.startswith("-") else ""
    parts = Decimal(shortest.removeprefix("-")).normalize().as_tuple()
    digits = "".join(map(str, parts.digits))
    if digits == "0":
        return f"{sign}0.0"
    point = len(digits) + int(parts.exponent)
    if point > 16 or point < -4:
        fraction = f".{digits[1:]}" if digits[1:] else ""
        return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    whole, fraction = digits[:point].ljust(point, "0"), digits[point:] or "0"
    return f"{sign}{whole}.{fraction}"
