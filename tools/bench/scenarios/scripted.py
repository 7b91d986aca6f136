"""Trivial workflows with scripted workers, no handler process, in exchanges; the floor is measured in the same round.

The floor is what the stack can do at best with the same client: aiohttp, a strict decoder, one SQL commit a request;
with as many callers, and with one. A goal that needs more exchanges is out of reach, whatever is decided in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from bench.drivers.driving import rate
from bench.own import own_system
from bench.scenarios import Figures, Metric, Options
from bench.scenarios._floor import floor_of
from bench.scripted import Scripted

ABOUT = "trivial workflow, then tasks, scripted workers: exchanges, and the floor of one commit a request"
PEERS = False
METRICS = {
    "exchanges_per_second": Metric(unit="exchanges/s", better="more"),
    "floor_per_second": Metric(unit="exchanges/s"),
    "floor_alone_per_second": Metric(unit="exchanges/s, one after the other"),
    "share_of_floor": Metric(unit="of the floor", better="more"),
    "workflows_per_second": Metric(unit="workflows/s", better="more"),
    "exchanges_per_workflow": Metric(unit="exchanges", better="less"),
    "tasks_per_second": Metric(unit="tasks/s settled", better="more"),
}
LANES = 32
#: Between a submitter's looks at its workflow; shorter ones would be the load.
PAUSE_S = 0.03


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder) as own, floor_of(own) as floor:
        scripted = Scripted(own)
        async with scripted.working(LANES):
            await rate(lambda: workflow(scripted), LANES, 1.0)
            for _ in range(options.rounds):
                scripted.sent.clear()
                told = await rate(lambda: workflow(scripted), LANES, options.seconds)
                seconds = told["count"] / told["per_second"]
                exchanges = scripted.sent.total() / seconds
                per_workflow = scripted.sent.total() / told["count"]
                scripted.sent.clear()
                took = await rate(lambda: task(scripted), LANES, options.seconds)
                settled = scripted.sent["/v1/settlements"] * took["per_second"] / took["count"]
                best = (await rate(floor, LANES, options.seconds))["per_second"]
                alone = (await rate(floor, 1, options.seconds))["per_second"]
                yield {
                    "exchanges_per_second": exchanges,
                    "floor_per_second": best,
                    "floor_alone_per_second": alone,
                    "share_of_floor": exchanges / best,
                    "workflows_per_second": told["per_second"],
                    "exchanges_per_workflow": per_workflow,
                    "tasks_per_second": settled,
                }


async def workflow(scripted: Scripted) -> None:
    """Submitted, and looked at until it has ended."""
    workflow_id = await scripted.submit("workflows")
    await asyncio.sleep(PAUSE_S)
    while not await scripted.ended(workflow_id):
        await asyncio.sleep(PAUSE_S)


async def task(scripted: Scripted) -> None:
    """Submitted, as soon as few others are unsettled."""
    while scripted.sent["/v1/tasks"] - scripted.sent["/v1/settlements"] >= LANES:
        await asyncio.sleep(0.001)
    await scripted.submit("tasks")
