"""From submission to the result on an idle system: one call at a time with pauses, enough of them for a p99."""

from __future__ import annotations

import math
import statistics
import time
from typing import TYPE_CHECKING

from bench.scenarios import Figures, Metric, Options

if TYPE_CHECKING:
    from bench.engines import Engine

PEERS = True

#: Of each engine in a round, so that the p99 is not the slowest of a few.
LEAST_CALLS = 200
#: After which an engine that is slow is asked no more, however few calls it made.
LONGEST_S = 100.0

ABOUT = f"trivial workflow on an idle system, submission to result, {LEAST_CALLS} calls a round or more"
METRICS = {
    "p50_ms": Metric(unit=f"ms, of {LEAST_CALLS} calls or more", better="less"),
    "p99_ms": Metric(unit=f"ms, nearest rank in {LEAST_CALLS} calls or more", better="less"),
    "max_ms": Metric(unit="ms, the slowest call", better="less"),
    "calls": Metric(unit="calls in a round"),
}


async def play(engine: Engine, options: Options) -> Figures:
    """Calls for `--seconds`, and as long after as they are too few."""
    began, took = time.monotonic(), list[float]()
    while (elapsed := time.monotonic() - began) < options.seconds or len(took) < LEAST_CALLS:
        if took and elapsed > LONGEST_S:
            break
        took.append((await engine.ask("calm", count=1))["p50_ms"])
    return {
        "p50_ms": statistics.median(took),
        "p99_ms": nearest_rank(took, 0.99),
        "max_ms": max(took),
        "calls": len(took),
    }


def nearest_rank(values: list[float], share: float) -> float:
    """The least of them that is not less than so large a share of them."""
    return sorted(values)[math.ceil(len(values) * share) - 1]
