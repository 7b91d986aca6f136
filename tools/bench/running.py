"""A run: engines up, rounds alternated, figures collected."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from bench import engines, peers
from bench.engines import OURS, Engine
from bench.progress import progress
from bench.report import Results, Row
from bench.scenarios import Options
from system import SystemFailure

WARM_SECONDS = 1.0


def module(name: str) -> Any:
    """The module of a scenario."""
    return importlib.import_module(f"bench.scenarios.{name.replace('-', '_')}")


async def run(wanted: list[str], others: list[str], options: Options, folder: Path) -> Results:
    """Every wanted scenario; a peer that cannot be had is left out, and the results say so."""
    results = Results(left_out={}, rows=[])
    for name in others:
        try:
            peers.install(name)
        except peers.NotHere as reason:
            results.left_out[name] = str(reason)
    present = [name for name in others if name not in results.left_out]
    paired = [name for name in wanted if module(name).PEERS]
    if paired:
        async with _all_running([OURS, *present], options, folder, results) as running:
            for name in paired:
                results.rows += await _paired(name, running, options)
    for name in wanted:
        if name not in paired:
            results.rows += await _alone(name, folder / name, options)
    return results


@asynccontextmanager
async def _all_running(
    names: list[str], options: Options, folder: Path, results: Results
) -> AsyncIterator[list[Engine]]:
    """Engines that are warm; each rests while another is measured."""
    async with AsyncExitStack() as stack:
        running = []
        for name in names:
            place = folder / name
            place.mkdir()
            place.chmod(0o755)
            with progress(f"starting {name}"):
                try:
                    engine = await stack.enter_async_context(engines.running(name, place, options.slots))
                except (SystemFailure, TimeoutError) as failure:
                    if name == OURS:
                        raise
                    results.left_out[name] = f"did not start: {failure}"
                    continue
                await engine.ask("rate", lanes=max(4, 2 * options.slots), seconds=WARM_SECONDS)
                await engine.ask("pause")
            running.append(engine)
        yield running


async def _paired(name: str, running: list[Engine], options: Options) -> list[Row]:
    scenario = module(name)
    rows = {engine.name: Row(scenario=name, engine=engine.name, metrics=scenario.METRICS) for engine in running}
    for number in range(options.rounds):
        first = number % len(running)
        for engine in running[first:] + running[:first]:
            with progress(f"{name}: round {number + 1} of {options.rounds}, {engine.name}"):
                await engine.ask("resume")
                rows[engine.name].rounds.append(await scenario.play(engine, options))
                await engine.ask("pause")
    return list(rows.values())


async def _alone(name: str, folder: Path, options: Options) -> list[Row]:
    scenario = module(name)
    row = Row(scenario=name, engine=OURS, metrics=scenario.METRICS)
    folder.mkdir()
    folder.chmod(0o755)
    with progress(name):
        async for figures in scenario.play(folder, options):
            row.rounds.append(figures)
    return [row]
