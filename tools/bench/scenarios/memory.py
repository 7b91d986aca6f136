"""Memory (PSS) of every process: at rest, and right after a load of 32 submitters while its last work ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import Figures, Metric, Options

if TYPE_CHECKING:
    from bench.engines import Engine

PEERS = True

ABOUT = "memory at rest and under load"
METRICS = {
    f"{name}_{when}": Metric(unit="MiB")
    for name in ("coordinator", "server", "worker", "database")
    for when in ("rest", "load")
}


async def play(engine: Engine, options: Options) -> Figures:
    rest = engine.memory()
    await engine.ask("rate", lanes=32, seconds=options.seconds)
    load = engine.memory()
    figures = {f"{name}_rest": mib for name, mib in rest.items()} | {f"{name}_load": mib for name, mib in load.items()}
    return {name: figures[name] for name in METRICS if name in figures}
