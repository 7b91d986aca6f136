"""Trivial workflow (start, one durable step, complete) through a real worker: 32 submitters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import Figures, Options
from bench.scenarios._load import METRICS, load

if TYPE_CHECKING:
    from bench.engines import Engine

ABOUT = "trivial workflow, real worker, 32 submitters"
PEERS = True

__all__ = ["ABOUT", "METRICS", "PEERS", "play"]


async def play(engine: Engine, options: Options) -> Figures:
    return await load(engine, 32, options)
