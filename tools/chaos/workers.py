"""kill -9 of a worker at every stage of an attempt, and an account of what its workflow did.

The stages are the table of `reference/tests/recovery`: the coordinator holds an exchange of the worker, or the worker
waits by itself, until it is dead; another worker finishes the workflow. A ledger counts the effects: a local function
may run again only if its record was not accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

from recovery.site import publish, site
from recovery.stages import STAGES, Stage, play

from chaos.report import Report
from protocol3.store.embedded import EmbeddedPostgres
from system import System, migrate

ABOUT = "kill -9 of a worker at every stage of an attempt"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="how often each stage is played")
    parser.add_argument("--at-once", type=int, default=2, help="stories side by side, each in a scope of its own")
    parser.add_argument("--stage", help="only the stages whose names contain this")


def run(options: argparse.Namespace, folder: Path) -> Report:
    stages = [stage for stage in STAGES if (options.stage or "") in stage.name] * options.rounds
    random.Random(options.seed).shuffle(stages)  # noqa: S311 - reproducible choices, not secrets
    postgres = EmbeddedPostgres(folder / "database")
    postgres.start()
    try:
        migrate(postgres.dsn)
        with System(folder, tenant="workers", database_url=postgres.dsn) as system:
            system.start_coordinator("--test-controls", "--store", str(publish(folder / "programs")))
            found = asyncio.run(play_all(stages, system.url, folder, options.at_once))
    finally:
        postgres.stop()
    wrong = Counter(stage.name for stage, faults in found if faults)
    played = Counter(stage.name for stage in stages)
    return Report(
        seed=options.seed,
        cases=len(stages),
        totals={"workers killed": len(stages)},
        rows=[{"stage": name, "played": played[name], "wrong": wrong[name]} for name in sorted(played)],
        faults=[f"{stage.name}: {fault}" for stage, faults in found for fault in faults],
    )


async def play_all(stages: list[Stage], url: str, folder: Path, at_once: int) -> list[tuple[Stage, list[str]]]:
    turns = asyncio.Semaphore(at_once)
    return await asyncio.gather(*(play_one(stage, url, folder, turns) for stage in stages))


async def play_one(stage: Stage, url: str, folder: Path, turns: asyncio.Semaphore) -> tuple[Stage, list[str]]:
    async with turns:
        store: Any = folder / "programs" / "store"
        own = folder / f"story-{id(asyncio.current_task())}"
        own.mkdir()
        async with site(url, store, own) as scene:
            try:
                return stage, await play(stage, scene)
            except (AssertionError, TimeoutError) as stuck:
                return stage, [f"did not get on: {stuck!r}"]
