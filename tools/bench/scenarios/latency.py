"""From submission to the result on an idle system: one call at a time with pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import Figures, Metric, Options

if TYPE_CHECKING:
    from bench.engines import Engine

PEERS = True

ABOUT = "trivial workflow on an idle system, submission to result"
METRICS = {"p50_ms": Metric(unit="ms", better="less"), "p99_ms": Metric(unit="ms", better="less")}
#: A call and its pause take some 30 ms.
CALLS_A_SECOND = 20


async def play(engine: Engine, options: Options) -> Figures:
    told = await engine.ask("calm", count=round(options.seconds * CALLS_A_SECOND))
    return {name: told[name] for name in METRICS}
