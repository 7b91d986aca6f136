"""What a long run says of itself."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: What takes so long is worth a line of a log.
LONG_S = 5.0


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A line that a terminal overwrites with the next; elsewhere one for what took long, when it is over."""
    began = time.monotonic()
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text} ...", end="", file=sys.stderr, flush=True)
    yield
    took = time.monotonic() - began
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}: {took:.1f} s", end="", file=sys.stderr, flush=True)
    elif took >= LONG_S:
        print(f"{text}: {took:.1f} s", file=sys.stderr, flush=True)
