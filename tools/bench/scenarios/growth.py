"""Trivial workflows with scripted workers, with few and with many finished tasks in the tables.

Rounds with few come first: what is filled in cannot be taken out again. The order is the scenario's weakness; a machine
that slows down meanwhile looks like growth.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from bench.drivers.driving import rate
from bench.filling import OF_TASK, copy, finished_task
from bench.own import Own, own_system
from bench.processes import cpu_seconds
from bench.scenarios import Figures, Metric, Options
from bench.scenarios.scripted import LANES, workflow
from bench.scripted import Scripted

ABOUT = "trivial workflows with 10,000 and with --rows finished tasks in the tables"
PEERS = False
FEW = 10_000
METRICS = {
    "few_per_second": Metric(unit="workflows/s", better="more"),
    "many_per_second": Metric(unit="workflows/s", better="more"),
    "many_to_few": Metric(unit="of the rate with few", better="more"),
    "few_database_cpu": Metric(unit="ms CPU/workflow", better="less"),
    "many_database_cpu": Metric(unit="ms CPU/workflow", better="less"),
}


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with own_system(folder, worker=False) as own:
        scripted = Scripted(own)
        finished = await finished_task(Scripted(own, "filled"))
        await copy(own, OF_TASK, finished, FEW)
        async with scripted.working(LANES):
            await rate(lambda: workflow(scripted), LANES, 1.0)
            few = [await _round(own, scripted, "few", options) for _ in range(options.rounds)]
            again = await finished_task(Scripted(own, "filled more"))
            await copy(own, OF_TASK, again, max(options.rows - FEW, 1))
            for figures in few:
                both = figures | await _round(own, scripted, "many", options)
                yield both | {"many_to_few": both["many_per_second"] / both["few_per_second"]}


async def _round(own: Own, scripted: Scripted, name: str, options: Options) -> Figures:
    before = cpu_seconds(own.pids["database"])
    told = await rate(lambda: workflow(scripted), LANES, options.seconds)
    spent = cpu_seconds(own.pids["database"]) - before
    return {f"{name}_per_second": told["per_second"], f"{name}_database_cpu": spent * 1000 / told["count"]}
