"""Until when the present exchange must be answered, for operations that wait on purpose (HTTP-080, DLV-036)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

#: Loop time; None outside an exchange.
exchange_deadline: Final[ContextVar[float | None]] = ContextVar("exchange_deadline", default=None)
