"""Trivial workflows through a real worker, with few and with many finished tasks in the tables.

Two systems side by side, each with a database, a coordinator and a worker, are measured in turns, so that a ratio is of
the same round and a machine that slows down meanwhile does not look like growth.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from bench.engines import Engine, ours
from bench.filling import OF_TASK, copy, finished_task
from bench.own import Own
from bench.scenarios import Figures, Metric, Options, in_turn
from bench.scripted import Scripted

ABOUT = "trivial workflow, real worker, 32 submitters, with 10,000 and with --rows finished tasks, in turns"
PEERS = False
LANES = 32
FEW = 10_000
_METRICS = {
    "per_second": Metric(unit="workflows/s", better="more"),
    "p50_ms": Metric(unit="ms", better="less"),
    "cpu_ms": Metric(unit="ms CPU/workflow, without the client", better="less"),
    "database_cpu": Metric(unit="ms CPU/workflow", better="less"),
}
METRICS = {
    **{f"{size}_{name}": metric for name, metric in _METRICS.items() for size in ("few", "many")},
    "many_to_few": Metric(unit="of the rate with few", better="more"),
    "cpu_many_to_few": Metric(unit="of the CPU with few", better="less"),
}


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    async with ours(folder / "few", options.slots) as few, ours(folder / "many", options.slots) as many:
        systems = {"few": few[1], "many": many[1]}
        await _fill(few[0], min(FEW, options.rows))
        await _fill(many[0], options.rows)
        for engine in systems.values():
            await engine.ask("rate", lanes=max(LANES, 2 * options.slots), seconds=min(1.0, options.seconds))
        for number in range(options.rounds):
            figures: Figures = {}
            for size in in_turn(number, systems):
                told = await _load(systems[size], options.seconds)
                figures |= {f"{size}_{name}": value for name, value in told.items()}
            yield figures | {
                "many_to_few": figures["many_per_second"] / figures["few_per_second"],
                "cpu_many_to_few": figures["many_cpu_ms"] / max(figures["few_cpu_ms"], 1e-9),
            }


async def _fill(own: Own, rows: int) -> None:
    finished = await finished_task(Scripted(own, "filled"))
    await copy(own, OF_TASK, finished, rows)


async def _load(engine: Engine, seconds: float) -> Figures:
    before = engine.cpu()
    told = await engine.ask("rate", lanes=LANES, seconds=seconds)
    spent = {name: (after - before[name]) * 1000 / told["count"] for name, after in engine.cpu().items()}
    return {
        "per_second": told["per_second"],
        "p50_ms": told["p50_ms"],
        "cpu_ms": sum(spent.values()) - spent["client"],
        "database_cpu": spent["database"],
    }
