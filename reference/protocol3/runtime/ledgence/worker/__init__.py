"""What a program may ask about its running invocation, and two services of its process (HLP-001, HLP-143).

`workflow` holds the durable workflow API of protocol 3, `otel` the optional bridge to OpenTelemetry.
"""

from __future__ import annotations

from ._invocation import running
from ._registrations import REGISTRATIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from ._identity import InvocationContext, TraceContext

__all__ = ["InvocationContext", "TraceContext", "current_invocation", "get_logger", "register_shutdown"]


def current_invocation() -> InvocationContext:
    """The identity of the running invocation; `RuntimeError` outside one (HLP-002 … HLP-006).

    It comes with the context, never through the environment or user data (HLP-007).
    """
    from ._identity import describe

    invocation = running.get()
    if invocation is None:
        raise RuntimeError("no invocation is running here")
    return describe(invocation)


def register_shutdown(callback: Callable[[], object]) -> None:
    """Call `callback()` once when the host shuts this process down; an equal one is kept once (HLP-008)."""
    if not callable(callback):
        raise TypeError("callback is not callable")
    if callback not in REGISTRATIONS.shutdown_callbacks:
        REGISTRATIONS.shutdown_callbacks.append(callback)


def get_logger(name: str) -> logging.Logger:
    """The standard logger `name`, which also sends its records to the host (HLP-009 … HLP-018)."""
    from ._logging import configured

    return configured(name)


def __getattr__(name: str) -> object:
    # Data classes cost a tenth of a process start; most programs never name these two.
    if name in ("InvocationContext", "TraceContext"):
        from . import _identity

        globals().update(InvocationContext=_identity.InvocationContext, TraceContext=_identity.TraceContext)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
