"""An ordinary task of protocols 1 and 2, and what all protocols share of it (RUN-048 … RUN-056)."""

from __future__ import annotations

from contextvars import Context

from . import _values
from ._invocation import running
from ._observations import Meter
from ._registrations import REGISTRATIONS
from ._results import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._invocation import Invocation
    from ._results import Results


def run(handler: Callable[..., Any], invocation: Invocation, results: Results) -> bytes:
    """Call the handler with the event, in an empty context, and return the result frame (RUN-048, RUN-049)."""
    return Context().run(_call, handler, invocation, results)


def _call(handler: Callable[..., Any], invocation: Invocation, results: Results) -> bytes:
    running.set(invocation)
    bridge = REGISTRATIONS.bridge
    token = bridge.attach(invocation.carrier) if bridge else None
    meter = Meter() if invocation.observe else None
    try:
        value, error = handler(invocation.event), None
    except Exception as raised:  # noqa: BLE001 - RUN-056
        value, error = None, raised
    finally:
        if bridge:
            bridge.detach(token)
    observations = meter.read() if meter else None
    frame = returned(results, value) if error is None else failed(results, error)
    return results.observed(frame, observations)


def returned(results: Results, value: Any) -> bytes:
    """The frame for a handler's value: success, or `invalid_output` (RUN-055)."""
    try:
        if hasattr(type(value), "__await__"):
            if hasattr(value, "close"):
                value.close()  # a coroutine that nobody will await (RUN-051)
            raise _values.InvalidOutput("the handler returned an awaitable")
        frame = results.success(_values.output(value, results.limit))
        if frame is None:
            raise _values.InvalidOutput(f"output does not fit a frame of {results.limit} bytes")
        return frame
    except Exception as error:  # noqa: BLE001 - also whatever a subclass of dict or list raises while it is read
        return results.failure("error", "invalid_output", error)


def failed(results: Results, error: Exception) -> bytes:
    """The frame for an exception of the handler; its traceback goes to stderr."""
    report(error)
    return results.failure("error", "business_error", error)
