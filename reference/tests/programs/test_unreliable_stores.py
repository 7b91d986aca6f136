"""HTTP stores that trickle, break off, lie about lengths, or speak TLS of a private authority (PKG-039, PKG-040)."""

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.errors import ProgramError
from protocol3.programs.http_store import HttpStore

BLOB = b"x" * 1_000
DESCRIPTOR = Descriptor(program=ProgramRef(id="report", version="1"), digest="sha256:" + "a" * 64, size=len(BLOB))
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
Handle = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handle: Handle, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that does what `handle` says with each request; the connection ends then."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await handle(writer)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def broken_off(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % len(BLOB) + BLOB[:-1])


async def shorter(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % (len(BLOB) - 1) + BLOB[:-1])


async def longer(writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD % (len(BLOB) + 1) + BLOB + b"x")


async def without_a_length(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + BLOB + b"x")


async def no_http(writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 ready\r\n")


async def trickle(writer: asyncio.StreamWriter) -> None:
    """Never silent, never done."""
    writer.write(HEAD % len(BLOB))
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("handle", "kind"),
    [
        (broken_off, "unavailable"),
        (shorter, "integrity"),
        (longer, "invalid_input"),
        (without_a_length, "invalid_input"),
        (no_http, "unavailable"),
        (trickle, "timed_out"),
    ],
)
async def test_a_blob_that_does_not_come_as_it_should(handle: Handle, kind: str) -> None:
    """The time is that of the whole request, so a trickle ends too."""
    async with serving(handle) as port:
        reader = HttpStore(f"http://127.0.0.1:{port}", timeout_ms=300 if handle is trickle else 20_000)
        with pytest.raises(ProgramError) as caught:
            await reader.fetch(DESCRIPTOR)
        await reader.aclose()
    assert caught.value.kind == kind


FETCH = """
import asyncio, sys
from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.errors import ProgramError
from protocol3.programs.http_store import HttpStore

async def main():
    store = HttpStore(f"https://localhost:{sys.argv[1]}")
    program = ProgramRef(id="report", version="1")
    try:
        return len(await store.fetch(Descriptor(program=program, digest="sha256:" + sys.argv[2], size=1000)))
    except ProgramError as error:
        return error.kind
    finally:
        await store.aclose()

print(asyncio.run(main()))
"""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="nothing here makes a certificate")
@pytest.mark.parametrize("trusted", [True, False])
async def test_tls_of_a_private_authority(tmp_path: Path, trusted: bool) -> None:
    """PKG-039: trusted where SSL_CERT_FILE, OpenSSL's own variable, names it; else the store is `unavailable`."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(subprocess.run, make, check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"SSL_CERT_FILE": str(certificate)} if trusted else {}

    async def whole(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD % len(BLOB) + BLOB)

    async with serving(whole, tls) as port:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FETCH, str(port), "a" * 64, stdout=asyncio.subprocess.PIPE, env=environment
        )
        told, _ = await process.communicate()
    assert told.decode().strip() == ("1000" if trusted else "unavailable")
