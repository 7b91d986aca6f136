"""One address before several services: each new connection goes to the next of them. It prints its URL.

    python tools/round_robin.py http://127.0.0.1:8081 http://127.0.0.1:8082

Bytes pass unchanged both ways. A client that keeps a connection stays with one service until it opens another.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

CHUNK = 65536
Address = tuple[str, int]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on until the reader's side ends or breaks off, and tell the other side so, which would wait for ever."""
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.write_eof()


async def forward(address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, until both sides have ended; either side's end closes what is left."""
    try:
        with suppress(OSError):
            behind_reader, behind_writer = await asyncio.open_connection(*address)
            try:
                await asyncio.gather(pump(reader, behind_writer), pump(behind_reader, writer))
            finally:
                behind_writer.close()
    finally:
        writer.close()


async def serve(addresses: Iterator[Address]) -> None:
    running: set[asyncio.Future[None]] = set()  # nothing else refers to a connection whose client has gone

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(forward(next(addresses), reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def address_of(url: str) -> Address:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise argparse.ArgumentTypeError(f"{url} is not of the form http://HOST:PORT")
    return parts.hostname, parts.port or 80


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", metavar="URL", nargs="+", type=address_of)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(itertools.cycle(parser.parse_args().urls)))


if __name__ == "__main__":
    main()
