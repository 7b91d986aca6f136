"""A program store behind HTTP(S) (PKG-039, PKG-040)."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from protocol3.contract import limits
from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.errors import ProgramError
from protocol3.programs.fetching import check_fetchable, check_fetched
from protocol3.programs.layout import blob_path, decode_descriptor, descriptor_path

_OK: Final = 200
_NOT_FOUND: Final = 404


class HttpStore:
    """Reads the store layout below a base URL over kept connections. Times out after ``timeout_ms`` per request."""

    def __init__(self, base_url: str, *, timeout_ms: int = limits.STORE_REQUEST_MS) -> None:
        self._base = check_store_url(base_url)
        self._timeout = aiohttp.ClientTimeout(total=timeout_ms / 1000)
        self._session: aiohttp.ClientSession | None = None

    async def resolve(self, program: ProgramRef) -> Descriptor:
        raw = await self._get(str(descriptor_path(program)), limits.DESCRIPTOR_BYTES)
        return decode_descriptor(raw, program)

    async def fetch(self, descriptor: Descriptor) -> bytes:
        check_fetchable(descriptor)
        return check_fetched(await self._get(str(blob_path(descriptor)), descriptor.size), descriptor)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get(self, name: str, limit: int) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False, trust_env=False, headers={"Accept-Encoding": "identity"}, timeout=self._timeout
            )
        try:
            async with self._session.get(URL(f"{self._base}/{name}", encoded=True), allow_redirects=False) as reply:
                _check_head(reply, name, limit)
                return await _body(reply, name, limit)
        except TimeoutError:
            raise ProgramError("timed_out", f"the program store did not deliver {name} in time") from None
        except aiohttp.ClientPayloadError:
            raise ProgramError("unavailable", f"the program store broke off while it sent {name}") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ProgramError("unavailable", f"the program store cannot be reached: {error}") from None


def check_store_url(text: str) -> str:
    """The base URL without its last slash; PKG-039 says which are allowed."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise ProgramError("invalid_input", "the program store URL is not valid") from None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise ProgramError("invalid_input", "a program store URL is https://HOST[/PREFIX]")
    if url.scheme == "http" and not _is_loopback(url.hostname):
        raise ProgramError("invalid_input", "http program stores are allowed on a literal loopback address only")
    if "@" in url.netloc or "?" in text or "#" in text:
        raise ProgramError("invalid_input", "a program store URL has no user info, query or fragment")
    return text.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_head(reply: aiohttp.ClientResponse, name: str, limit: int) -> None:
    if reply.status == _NOT_FOUND:
        raise ProgramError("not_found", f"the program store has no {name}")
    if reply.status != _OK:
        raise ProgramError("unavailable", f"the program store answered {reply.status} for {name}")
    if reply.headers.getall("Content-Encoding", ["identity"]) != ["identity"]:
        raise ProgramError("unavailable", f"the program store encoded {name}")
    if reply.content_length is not None and reply.content_length > limit:
        raise ProgramError("invalid_input", f"{name} is larger than {limit} bytes")


async def _body(reply: aiohttp.ClientResponse, name: str, limit: int) -> bytes:
    body = bytearray()
    async for chunk in reply.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise ProgramError("invalid_input", f"{name} is larger than {limit} bytes")
    return bytes(body)
