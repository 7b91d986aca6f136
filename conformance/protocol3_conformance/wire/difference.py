"""Where two values differ: only the members that do, so that a large object does not hide a small difference."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

SHOWN, CUT = 12, 160


def differences(left: Any, right: Any, equal: Callable[[Any, Any], object] = operator.eq) -> list[str]:
    """One sentence per place, `.items[2].state: "queued" on the left, "running" on the right`; SHOWN at the most."""
    found = _places(left, right, equal, "")
    first = list(itertools.islice(found, SHOWN))
    more = sum(1 for _ in found)
    return [*first, f"and {more} more"] if more else first


def cut(value: object) -> str:
    """A value as Python writes it, cut to a readable length."""
    shown = repr(value)
    return shown if len(shown) <= CUT else f"{shown[:CUT]}… ({len(shown)} characters)"


def _places(left: Any, right: Any, equal: Callable[[Any, Any], object], at: str) -> Iterator[str]:
    if equal(left, right):
        return
    if isinstance(left, dict) and isinstance(right, dict):
        for name in {**left, **right}:
            place = f"{at}.{name}"
            if name not in right:
                yield f"{place}: {cut(left[name])} on the left only"
            elif name not in left:
                yield f"{place}: {cut(right[name])} on the right only"
            else:
                yield from _places(left[name], right[name], equal, place)
    elif isinstance(left, list | tuple) and type(left) is type(right):
        for number, (one, other) in enumerate(zip(left, right, strict=False)):
            yield from _places(one, other, equal, f"{at}[{number}]")
        for side, longer, shorter in (("left", left, right), ("right", right, left)):
            for number in range(len(shorter), len(longer)):
                yield f"{at}[{number}]: {cut(longer[number])} on the {side} only"
    else:
        yield f"{at}: ".removeprefix(": ") + f"{cut(left)} on the left, {cut(right)} on the right"
