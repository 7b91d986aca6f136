"""Trivial workflows with scripted workers, no handler process, in exchanges; the floor is measured in the same round.

The floor is what the stack can do at best with the same client: aiohttp, a strict decoder, one SQL commit a request.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.drivers.driving import rate
from bench.own import Own, own_system
from bench.scenarios import Figures, Metric, Options
from bench.scripted import Scripted

ABOUT = "trivial workflow, scripted workers: exchanges, and the floor of one commit a request"
PEERS = False
METRICS = {
    "exchanges_per_second": Metric(unit="exchanges/s", better="more"),
    "floor_per_second": Metric(unit="exchanges/s"),
    "share_of_floor": Metric(unit="of the floor", better="more"),
    "workflows_per_second": Metric(unit="workflows/s", better="more"),
    "exchanges_per_workflow": Metric(unit="exchanges", better="less"),
}
LANES = 32
#: Between a submitter's looks at its workflow; shorter ones would be the load.
PAUSE_S = 0.03
FLOOR = Path(__file__).parent.parent / "drivers/floor.py"


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, worker=False) as own, _floor(own) as url:
        scripted = Scripted(own)
        body = {"key": "k" * 40, "data": "d" * 300}
        numbers = itertools.count()

        async def floor() -> None:
            async with own.http.post(url, json=body | {"id": next(numbers)}) as reply:
                await reply.read()

        async with scripted.working(LANES):
            await rate(lambda: workflow(scripted), LANES, 1.0)
            for _ in range(options.rounds):
                scripted.sent.clear()
                told = await rate(lambda: workflow(scripted), LANES, options.seconds)
                seconds = told["count"] / told["per_second"]
                exchanges = scripted.sent.total() / seconds
                best = (await rate(floor, LANES, options.seconds))["per_second"]
                yield {
                    "exchanges_per_second": exchanges,
                    "floor_per_second": best,
                    "share_of_floor": exchanges / best,
                    "workflows_per_second": told["per_second"],
                    "exchanges_per_workflow": scripted.sent.total() / told["count"],
                }


async def workflow(scripted: Scripted) -> None:
    """Submitted, and looked at until it has ended."""
    workflow_id = await scripted.submit("workflows")
    await asyncio.sleep(PAUSE_S)
    while not await scripted.ended(workflow_id):
        await asyncio.sleep(PAUSE_S)


@asynccontextmanager
async def _floor(own: Own) -> AsyncIterator[str]:
    dsn: Any = own.system.database[1]
    process = await asyncio.create_subprocess_exec(sys.executable, FLOOR, dsn, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()
