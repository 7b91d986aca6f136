"""`get_logger`: standard logging, with one more handler (HLP-009 … HLP-012, HLP-017, HLP-018)."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any

from ._limits import INTEGER_MAX, INTEGER_MIN
from ._registrations import REGISTRATIONS

_VALUES = 64
_CHARACTERS = 4096
_CONTAINERS = 4
_ENTRIES = 32
_KEY_CHARACTERS = 256
_TOO_DEEP = "[truncated]"
_UNSUPPORTED = "[unsupported]"
_SENT = "_ledgence_sent"


def configured(name: str) -> logging.Logger:
    """The standard logger with exactly one frame handler; an unset level becomes INFO, nothing else changes."""
    logger = logging.getLogger(name)
    if not any(isinstance(handler, _FrameHandler) for handler in logger.handlers):
        logger.addHandler(_FrameHandler())
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    return logger


class _FrameHandler(logging.Handler):
    """Hands records to the process's log sink; without one (no host, or protocol 1) it does nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        sink = REGISTRATIONS.log_sink
        if sink is None or hasattr(record, _SENT):
            return
        setattr(record, _SENT, True)
        with suppress(Exception):  # logging never fails a task (RUN-104)
            sink.take(
                time=_timestamp(record.created),
                severity=record.levelname,
                logger=record.name,
                message=record.getMessage(),
                attributes=_bounded(getattr(record, "attributes", None)),
            )


def _timestamp(seconds: float) -> str:
    whole, microseconds = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{microseconds:06d}+00:00"


def _bounded(attributes: object) -> dict[str, Any]:
    return _Bounds().object_of(attributes, _CONTAINERS - 1) if isinstance(attributes, dict) else {}


class _Bounds:
    """A copy of the attribute tree within HLP-018: what does not fit is left out, cut, or named by a marker."""

    __slots__ = ("_characters", "_values")

    def __init__(self) -> None:
        self._values = _VALUES - 1  # the attribute object is the first
        self._characters = _CHARACTERS

    def object_of(self, attributes: dict[Any, Any], containers: int) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for key, value in attributes.items():
            if len(copy) == _ENTRIES or not self._values or not self._characters:
                break
            if isinstance(key, str):
                name = self._text(key[:_KEY_CHARACTERS])
                copy[name] = self._value_of(value, containers)
        return copy

    def _value_of(self, value: object, containers: int) -> Any:
        self._values -= 1
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            return value if INTEGER_MIN <= value <= INTEGER_MAX else _UNSUPPORTED
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict | list | tuple):
            if not containers:
                return _TOO_DEEP
            return (
                self.object_of(value, containers - 1)
                if isinstance(value, dict)
                else [self._value_of(item, containers - 1) for item in value[: min(_ENTRIES, self._values)]]
            )
        return _UNSUPPORTED

    def _text(self, text: str) -> str:
        kept = text[: self._characters]
        self._characters -= len(kept)
        return kept
