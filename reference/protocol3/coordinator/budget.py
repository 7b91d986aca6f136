"""What the present exchange may take: until when it must be answered, and what it must not do on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")

THREAD_BYTES: Final = 262_144
"""Bodies above this size are worked on in a thread: 8 MiB take seconds, and other exchanges must not wait for them."""

#: Loop time, for operations that wait on purpose (HTTP-080, DLV-036); None outside an exchange.
exchange_deadline: Final[ContextVar[float | None]] = ContextVar("exchange_deadline", default=None)

#: Size of the raw body; 0 outside an exchange and for a GET.
body_bytes: Final[ContextVar[int]] = ContextVar("body_bytes", default=0)


async def computed(work: Callable[[], T]) -> T:
    """The result of a computation whose cost grows with the body: decoding or encoding it."""
    if body_bytes.get() > THREAD_BYTES:
        return await asyncio.to_thread(work)
    return work()
