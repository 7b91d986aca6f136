"""A small HTTP client for one exchange at a time, as a client of the protocol must behave (chapter 24)."""

import http.client
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode, urlsplit

from protocol3 import __version__
from protocol3.cli.failure import CliFailure, Rejected
from protocol3.contract import limits
from protocol3.contract.refusal import Refusal
from protocol3.contract.strict_json import InvalidJson, JsonValue, decode, encode

TIMEOUT_S: Final = limits.EXCHANGE_MS / 1000

HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"protocol3/{__version__}",
}

#: Most codes carry no message (HTTP-064): what they mean to the caller of these commands.
MEANING: Final = {
    "not_found": "there is nothing of that name in this scope",
    "conflict": "the key already stands for something different",
    "obsolete_operation": "it came too late",
    "busy": "too much is pending",
}
ADVICE: Final = {
    "invalid_input": "correct the input; nothing was accepted",
    "not_found": "check the ids, the program and the scope: what lies in another scope is not found either",
    "conflict": "repeat the original command, or use a new key",
    "obsolete_operation": "look at the current state with the status command",
    "busy": "repeat the same command once some of it has been consumed",
    "unavailable": "repeat the same command later",
}


#: Says of a failed exchange what it leaves open: (message, code, status) to the failure.
Failed = Callable[[str, str, int | None], CliFailure]


class Client:
    """Speaks to one coordinator. Its methods raise CliFailure and nothing else.

    No redirect is followed and no proxy is used (CLI-004); a POST is sent once (CLI-005).
    """

    def __init__(self, server: str) -> None:
        """Raises ValueError for anything but `http[s]://HOST[:PORT][/PREFIX]`; a path is kept (HTTP-005)."""
        parts = urlsplit(server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("must look like http://HOST:PORT")
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError("holds more than scheme, host, port and path")
        self._make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self.server = f"{parts.scheme}://{parts.netloc}{self._prefix}"

    def get(self, path: str, query: Mapping[str, str]) -> JsonValue:
        """The JSON reply to a GET; the query is form-encoded (CLI-003)."""
        return self._exchange("GET", f"{path}?{urlencode(query, safe='/:@?~')}", None, self._failed)

    def post(self, path: str, command: JsonValue, *, repeat: str) -> JsonValue:
        """The JSON reply to a command. `repeat` tells how to send the same one again when its outcome is unknown."""

        def failed(message: str, code: str, status: int | None) -> CliFailure:
            advice = f"whether it was accepted is unknown: {repeat}"  # CLI-022
            return CliFailure(message, code=code, status=status, advice=advice)

        return self._exchange("POST", path, encode(command), failed)

    def _failed(self, message: str, code: str, status: int | None) -> CliFailure:
        advice = ADVICE["unavailable"] if status else f"is a coordinator running at {self.server}? See --server"
        return CliFailure(message, code=code, status=status, advice=advice)

    def _exchange(self, method: str, target: str, body: bytes | None, failed: Failed) -> JsonValue:
        connection = self._make(self._host, self._port, timeout=TIMEOUT_S)
        headers = HEADERS if body is None else {**HEADERS, "Content-Type": "application/json"}
        try:
            connection.connect()
        except OSError as failure:  # nothing was sent, so nothing was accepted
            raise self._failed(f"cannot connect to {self.server}: {failure}", "transport", None) from failure
        try:
            connection.request(method, self._prefix + target, body, headers)
            reply = connection.getresponse()
            content = reply.read(limits.REPLY_BYTES + 1)
        except (OSError, http.client.HTTPException) as failure:
            raise failed(f"the exchange with {self.server} broke: {failure!r}", "transport", None) from failure
        finally:
            connection.close()
        return _judged(reply, content, failed)


def _judged(reply: http.client.HTTPResponse, content: bytes, failed: Failed) -> JsonValue:
    """The value of a good reply; anything but a reply of this protocol is a failed exchange (CLI-010…019)."""
    kind = reply.headers.get_content_type()
    if kind != "application/json":
        raise failed(f"the reply has status {reply.status} and is {kind}, not JSON", "protocol", None)
    if len(content) > limits.REPLY_BYTES:
        raise failed("the reply is too large", "protocol", None)
    try:
        value = decode(content, max_depth=limits.REPLY_DEPTH)
    except InvalidJson as failure:
        raise failed(f"the reply is {failure}", "protocol", None) from failure
    if reply.status == HTTPStatus.OK:
        return value
    try:
        refusal = _refusal(value, reply.status)
    except ValueError as failure:
        raise failed(f"the reply has status {reply.status}, and {failure}", "protocol", None) from failure
    message = refusal.message or MEANING.get(refusal.code, refusal.code)
    if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise failed(message, refusal.code, reply.status)
    advice = ADVICE.get(refusal.code)
    raise Rejected(message, code=refusal.code, status=reply.status, advice=advice)


def _refusal(value: JsonValue, status: int) -> Refusal:
    """The error object as a Refusal; ValueError when it is none that a client may take for an answer (CLI-016…018)."""
    match value:
        case {"code": ("route_not_found" | "method_not_allowed") as code, **none} if not none:
            raise ValueError(f"{code}: this is no coordinator of protocol 3")
        case {"code": str(code), "message": str(message), **none} if not none:
            return Refusal(code, message, status=status)
        case {"code": str(code), **none} if not none:
            return Refusal(code, status=status)
    raise ValueError("its body is no error object")
