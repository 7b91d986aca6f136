"""One exchange with the coordinator, judged as CLI-010…018 say: a value, a definite refusal, or "outcome unknown"."""

from collections.abc import Callable
from typing import Final

from protocol3 import __version__
from protocol3.contract import limits
from protocol3.contract.media_type import is_json
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode
from protocol3.telemetry.tracing import Span, current_span
from protocol3.worker.connections import Broken, Connections, Fields, Head

_OK: Final = 200
_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": f"protocol3-worker/{__version__}",
}


class Uncertain(Exception):
    """The outcome of the exchange is unknown: repeat the identical command (DLV-207, DLV-208)."""


class Refused(Exception):
    """A definite answer of the service. ``busy`` is definite too, but asks to be repeated."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.code: str = refusal.code


class Coordinator:
    """Exchanges with one coordinator over kept connections; no redirects, no proxies, no cookies (CLI-004).

    A path prefix of its URL is kept (HTTP-005).
    """

    def __init__(self, server: str, *, request_timeout_ms: int, notice: Callable[[str], None] = lambda _: None) -> None:
        """``notice`` gets a line when the coordinator stops answering and when it answers again."""
        self._notice = notice
        self._answers = True
        self._base = server.rstrip("/")
        self._connections = Connections(self._base, timeout_s=request_timeout_ms / 1000, fields=_HEADERS.items())

    async def post(self, path: str, body: bytes, *, reply_bytes: int = limits.REPLY_BYTES) -> JsonValue:
        """The reply to one POST, sent once. Raises :class:`Uncertain` or :class:`Refused`."""
        try:
            value = await self._exchange(path, body, reply_bytes)
        except Uncertain as uncertain:
            if self._answers:
                self._answers = False
                self._notice(f"no answer from {self._base}: {uncertain}; exchanges are repeated until there is one")
            raise
        except Refused:
            self._answered()
            raise
        self._answered()
        return value

    async def close(self) -> None:
        await self._connections.close()

    def _answered(self) -> None:
        if not self._answers:
            self._answers = True
            self._notice(f"{self._base} answers again")

    async def _exchange(self, path: str, body: bytes, reply_bytes: int) -> JsonValue:
        span = current_span.get().child(f"POST {path}")
        try:
            value = await self._sent(path, body, reply_bytes, span)
        except Uncertain:
            span.end(error="uncertain")
            raise
        except Refused as refused:
            span.end(error=refused.code)
            raise
        span.end()
        return value

    async def _sent(self, path: str, body: bytes, reply_bytes: int, span: Span) -> JsonValue:
        def judge(head: Head) -> int:
            _check_head(head)
            return reply_bytes if head.status == _OK else limits.ERROR_REPLY_BYTES

        try:
            status, content = await self._connections.post(path, body, judge, _trace(span))
        except TimeoutError:
            raise Uncertain("no reply in time") from None
        except Broken as broken:
            raise Uncertain(str(broken)) from None
        except OSError as error:
            raise Uncertain(f"{type(error).__name__}: {error}") from None
        try:
            value = decode(content, max_depth=limits.REPLY_DEPTH)
        except InvalidJson as error:
            raise Uncertain(f"the reply is {error}") from None
        if status != _OK:
            raise _refusal(status, value)
        return value


def _trace(span: Span) -> Fields:
    """Headers of this exchange alone, fresh for each repetition (TRC-023)."""
    carrier = span.carrier
    if carrier is None:
        return ()
    parent = ("traceparent", carrier.traceparent)
    return (parent,) if carrier.tracestate is None else (parent, ("tracestate", carrier.tracestate))


def _check_head(head: Head) -> None:
    types = head.all(b"content-type")
    if len(types) != 1 or not is_json(types[0]):
        raise Uncertain(f"the reply (status {head.status}) is not JSON; is the server URL right?")
    encodings = head.all(b"content-encoding")
    if len(encodings) > 1 or any(encoding.lower() != "identity" for encoding in encodings):
        raise Uncertain("the reply is encoded")


def _refusal(status: int, value: JsonValue) -> Uncertain | Refused:
    """The error object as a refusal; anything the error table does not pair is no answer (CLI-016…018)."""
    try:
        match value:
            case {"code": str(code), "message": str(message), **rest} if not rest:
                refusal = Refusal(code, message, status=status)
            case {"code": str(code), **rest} if not rest:
                refusal = Refusal(code, status=status)
            case _:
                return Uncertain(f"the reply (status {status}) is no error object")
    except ValueError:
        return Uncertain(f"the reply pairs status {status} with an unknown error")
    if code in ("route_not_found", "method_not_allowed"):
        return Uncertain(f"{code}: the server does not know the route; is the server URL right?")
    if code == "unavailable":
        return Uncertain("it answers unavailable")  # its own log says why; nothing that it was told is repeated here
    return Refused(refusal)
