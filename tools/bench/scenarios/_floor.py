"""The least that a durable exchange costs here and now, with the same client: a yardstick beside our own exchanges."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.own import Own

FLOOR = Path(__file__).parent.parent / "drivers/floor.py"


@asynccontextmanager
async def floor_of(own: Own) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """One exchange with a server that commits one row for it, in the database of our system."""
    dsn: Any = own.system.database[1]
    process = await asyncio.create_subprocess_exec(sys.executable, FLOOR, dsn, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        body = {"key": "k" * 40, "data": "d" * 300}
        numbers = itertools.count()

        async def floor() -> None:
            async with own.http.post(url, json=body | {"id": next(numbers)}) as reply:
                await reply.read()

        yield floor
    finally:
        process.terminate()
        await process.wait()
