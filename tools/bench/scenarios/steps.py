"""Durable steps one after the other in one workflow (for us: one activation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import Figures, Metric, Options

if TYPE_CHECKING:
    from bench.engines import Engine

PEERS = True

ABOUT = "sequential durable steps in one workflow"
METRICS = {"per_second": Metric(unit="steps/s", better="more")}
STEPS = 100


async def play(engine: Engine, options: Options) -> Figures:
    return {"per_second": STEPS / (await engine.ask("steps", count=STEPS))["seconds"]}
