"""Every race of chapter 18, free, over and over: both sides at once, at two of several processes.

The table is that of `reference/tests/races`, which the tests also play in both forced orders. Each round has a scope of
its own and must come to one of the race's two outcomes, and what is read back must fit it; the wire layer of the
conformance suite judges every reply. One race runs at a time, so that a failure is that race's own.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from races import table
from races.arena import Arena
from races.contest import Race

from chaos.processes import arena, retried
from chaos.report import Report
from system import SystemFailure

ABOUT = "both sides of every race at once, at several processes on one database"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=20, help="of each race; of one that restarts processes a tenth")
    parser.add_argument("--coordinators", type=int, default=3, help="processes on one database, at least two")
    parser.add_argument("--race", nargs="+", default=[], metavar="RACE-NN", help="only these rows of the table")


def run(options: argparse.Namespace, folder: Path) -> Report:
    chosen = [race for race in table.RACES if not options.race or {race.name, *race.ids} & set(options.race)]
    if not chosen:
        raise SystemFailure("no such race; a name is one of " + ", ".join(race.name for race in table.RACES))
    with arena(folder, max(options.coordinators, 2)) as processes:
        rows, faults = asyncio.run(_campaign(options, chosen, processes))
        totals = {
            "races": len(rows),
            "rounds": sum(row["rounds"] for row in rows),
            "exchanges repeated after a restart": processes.lost,
            "deadlocks and serialization errors met and retried": retried(processes),
        }
    return Report(seed=options.seed, cases=totals["rounds"], totals=totals, rows=rows, faults=faults)


async def _campaign(
    options: argparse.Namespace, chosen: list[Race], processes: Arena
) -> tuple[list[dict[str, Any]], list[str]]:
    rows, faults = [], []
    for race in chosen:
        outcomes = Counter[str]()
        found = []
        rounds = max(options.rounds // 10, 1) if race.restarts else options.rounds
        for number in range(rounds):
            try:
                async with processes.lab(race.name, seed=options.seed + number) as lab:
                    outcomes[await race.free(lab)] += 1
            except Exception as failure:  # noqa: BLE001 - whatever a judge stumbles over is a fault of this round
                found.append(f"{race.name}, round {number}: {type(failure).__name__} {failure}")
        told = ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common())
        rows.append(
            {"rows": " ".join(race.ids), "race": race.name, "rounds": rounds, "faults": len(found), "outcomes": told}
        )
        faults += found
    return rows, faults
