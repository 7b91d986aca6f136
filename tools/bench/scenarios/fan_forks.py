"""Fan-out of 32 children and the join: forked branches with a durable step each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import Figures, Metric, Options

if TYPE_CHECKING:
    from bench.engines import Engine

PEERS = True

ABOUT = "fan-out 32 (forks) and join"
METRICS = {"ms": Metric(unit="ms", better="less")}
WIDTH = 32


async def play(engine: Engine, options: Options) -> Figures:
    return {"ms": (await engine.ask("fan", width=WIDTH, kind="forks"))["seconds"] * 1000}
