"""The optional bridge to the application's own `opentelemetry-api` (HLP-019 … HLP-022).

It carries the host's processing context into the handler. It configures no provider and creates no span.
"""

from __future__ import annotations

from ._registrations import REGISTRATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Bridge(Protocol):
        def attach(self, carrier: tuple[str, str | None] | None) -> Any: ...
        def detach(self, token: Any) -> None: ...
        def active_ids(self) -> tuple[str, str] | None: ...


def enable_context() -> None:
    """Run each later invocation in the extracted context. `ImportError` without `opentelemetry-api` in the package."""
    if REGISTRATIONS.bridge is None:
        from ._otel_bridge import OpenTelemetryBridge

        REGISTRATIONS.bridge = OpenTelemetryBridge()
