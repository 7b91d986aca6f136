"""`result` frames (RUN-053 … RUN-057, RUN-093)."""

from __future__ import annotations

import sys

from ._frames import ProtocolViolation, compact

# RUN-057
_MESSAGE_CHARACTERS = 512

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._invocation import Invocation


class Results:
    """Builds the one result frame of an invocation; `limit` is the frame limit in bytes.

    Raises ProtocolViolation when not even an empty failure fits (RUN-050), so build it before calling the handler.
    """

    __slots__ = ("_head", "limit")

    def __init__(self, protocol: int, invocation: Invocation, limit: int) -> None:
        identity = {"event_id": invocation.event_id, "attempt_id": invocation.attempt_id}
        try:
            self._head = compact({"v": protocol, "type": "result", **identity})[:-1]
        except ValueError as error:
            raise ProtocolViolation(f"identities are not JSON: {error}") from None
        self.limit = limit
        status = "error" if invocation.extension is None else "runtime_error"
        if len(self._failure(status, "invalid_output", "")) > limit:  # all failure kinds are of this length
            raise ProtocolViolation("the identities leave no room for a result")

    def success(self, output: bytes) -> bytes | None:
        """The frame with this compact output, or None if it does not fit."""
        frame = b'%b,"status":"success","output":%b}\n' % (self._head, output)
        return frame if len(frame) <= self.limit else None

    def failure(self, status: str, kind: str, error: BaseException) -> bytes:
        """The frame with the longest prefix of the error's text that fits."""
        text = _text_of(error)
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if len(self._failure(status, kind, text[:middle])) <= self.limit:
                low = middle
            else:
                high = middle - 1
        return self._failure(status, kind, text[:low])

    def observed(self, frame: bytes, observations: bytes | None) -> bytes:
        """The frame with observations if they fit, else without."""
        if observations is None:
            return frame
        longer = b'%b,"observations":%b}\n' % (frame[:-2], observations)
        return longer if len(longer) <= self.limit else frame

    def _failure(self, status: str, kind: str, message: str) -> bytes:
        body = compact({"status": status, "error": {"kind": kind, "message": message}})
        return b"%b,%b\n" % (self._head, body[1:])


def report(error: BaseException) -> None:
    """Write the traceback to stderr; the interpreter's own writer needs no import."""
    sys.__excepthook__(type(error), error, error.__traceback__)


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)[:_MESSAGE_CHARACTERS]
    except Exception:  # noqa: BLE001 - the application's exception class is broken; its failure is still to be told
        return "the exception has no text"
    return text.encode("utf-8", "replace").decode()
