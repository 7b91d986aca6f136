"""Trivial workflows in so many lanes, with what they cost each process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import Figures, Metric, Options

if TYPE_CHECKING:
    from bench.engines import Engine

METRICS = {
    "per_second": Metric(unit="workflows/s", better="more"),
    "p50_ms": Metric(unit="ms", better="less"),
    "p99_ms": Metric(unit="ms", better="less"),
    "cpu_ms": Metric(unit="ms CPU/workflow, without the client", better="less"),
}


async def load(engine: Engine, lanes: int, options: Options) -> Figures:
    before = engine.cpu()
    told = await engine.ask("rate", lanes=lanes, seconds=options.seconds)
    spent = {name: (after - before[name]) * 1000 / told["count"] for name, after in engine.cpu().items()}
    figures = {name: told[name] for name in ("per_second", "p50_ms", "p99_ms")}
    return figures | {"cpu_ms": sum(ms for name, ms in spent.items() if name != "client")}
