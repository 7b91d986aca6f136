"""Spans, as coordinator and worker ask for them. Without OpenTelemetry, or unless it is asked for, there are none.

Nothing here ever raises or waits, and nothing durable depends on it but the carriers that the contract lets a service
and a worker add (TRC-014, TRC-016, TRC-020). Attributes are durable ids and words of ours, never application data.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias

from protocol3.contract.models.common import TraceContext

Kind: TypeAlias = Literal["server", "client", "producer", "consumer"]
Attributes: TypeAlias = Mapping[str, str | int | None]

NONE: Final[Attributes] = MappingProxyType({})

#: Any of them asks for traces; the rest of OpenTelemetry's variables says how.
ASKING: Final = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_log: Final = logging.getLogger("protocol3.telemetry")


class Span(Protocol):
    """Something under way. One that is never ended is never exported."""

    @property
    def carrier(self) -> TraceContext | None:
        """Its context for others to continue; None without tracing."""

    def child(self, name: str) -> Span:
        """A request to another service, a part of this span."""

    def link(self, carrier: TraceContext) -> None:
        """This span has to do with another trace as well."""

    def end(self, *, error: str | None = None, attributes: Attributes = NONE) -> None:
        """It is over, with an error of ours or none. Attributes of None are left out."""


class Tracing(Protocol):
    """Where spans begin."""

    def span(
        self,
        name: str,
        kind: Kind,
        *,
        parent: TraceContext | None,
        attributes: Attributes = NONE,
        began_ago_s: float = 0.0,
    ) -> Span:
        """A span below `parent`, or the root of a new trace."""

    async def close(self) -> None:
        """Export what is left, for a few seconds at most."""


class _NoSpan:
    carrier: TraceContext | None = None

    def child(self, name: str) -> Span:
        return self

    def link(self, carrier: TraceContext) -> None: ...

    def end(self, *, error: str | None = None, attributes: Attributes = NONE) -> None: ...


class _Untraced:
    def span(
        self,
        name: str,
        kind: Kind,
        *,
        parent: TraceContext | None,
        attributes: Attributes = NONE,
        began_ago_s: float = 0.0,
    ) -> Span:
        return NO_SPAN

    async def close(self) -> None: ...


NO_SPAN: Final[Span] = _NoSpan()
UNTRACED: Final[Tracing] = _Untraced()

#: What the present task works on, so that its requests can say so.
current_span: Final[ContextVar[Span]] = ContextVar("current_span", default=NO_SPAN)


def from_environment(service: str, *, instance: str | None = None) -> Tracing:
    """What OpenTelemetry's own variables ask for (`ASKING`, OTEL_SDK_DISABLED, ...).

    `service` and `instance` name what exports, unless the variables do.

    A configuration that cannot work is told in the log and leaves the process without traces.
    """
    if not asked_for(os.environ):
        return UNTRACED
    try:
        from protocol3.telemetry.opentelemetry import OpenTelemetry  # the extra may be missing
    except ImportError:
        _log.warning("traces are asked for, but not made: pip install 'protocol3[otel]'")
        return UNTRACED
    try:
        return OpenTelemetry.from_environment(service, instance)
    except Exception as error:  # noqa: BLE001  # whatever the variables say, the process serves
        _log.warning("traces are asked for, but not made: the configuration is refused (%s)", type(error).__name__)
        return UNTRACED


def asked_for(environment: Mapping[str, str]) -> bool:
    """Whether these variables ask for traces."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return any(environment.get(name, "").strip() for name in ASKING)
