"""aiohttp's request parser, of which no failure escapes: each becomes the bare 400 of bytes that are no request."""

from typing import Any

from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, InvalidURLError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import _ErrInfo

_Parsed = tuple[RawRequestMessage | _ErrInfo, StreamReader]


class Parser:
    """Stands in for the parser of one connection, which is `parser`. aiohttp answers only an `HttpProcessingError`.

    Anything else, raised here or later where aiohttp makes the request, would leave the client without a reply and the
    connection open for good.
    """

    __slots__ = ("_parser",)

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    def feed_data(self, data: bytes) -> tuple[list[_Parsed], bool, bytes]:
        """Requests found, whether an upgrade was offered, bytes behind that offer. Raises HttpProcessingError only."""
        try:
            messages, upgraded, tail = self._parser.feed_data(data)
        except HttpProcessingError:
            raise
        except Exception:  # noqa: BLE001  # whatever it is; its text may quote the request
            raise BadHttpMessage("unreadable") from None
        found: list[_Parsed] = []
        for head, body in messages:
            if not _has_readable_host(head):
                error = _ErrInfo(status=400, exc=InvalidURLError("unreadable"), message="unreadable")
                return [*found, (error, EMPTY_PAYLOAD)], False, b""  # what follows has no meaning
            found.append((head, body))
        return found, upgraded, tail


def _has_readable_host(head: RawRequestMessage) -> bool:
    """The host of an absolute target is decoded on first use, and a bad IDNA label is an error only then."""
    if head.path.startswith("/"):
        return True
    try:
        head.url.host  # noqa: B018
    except ValueError:
        return False
    return True
