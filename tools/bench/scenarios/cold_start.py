"""`orchestrator serve` on an embedded database that exists: from the command to the first good answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.scenarios import Figures, Metric, Options
from system import System

ABOUT = "orchestrator serve with an existing embedded database, until it is ready"
PEERS = False
METRICS = {"seconds": Metric(unit="s", better="less")}


async def play(folder: Path, options: Options) -> AsyncIterator[Figures]:
    with System(folder, tenant="bench") as system:
        await asyncio.to_thread(system.start_coordinator)
        for _ in range(options.rounds):
            system.stop("coordinator")
            began = time.perf_counter()
            await asyncio.to_thread(system.start_coordinator)
            yield {"seconds": time.perf_counter() - began}
