"""A coordinator killed at every named fault point under load, started again, and every acknowledgement held against it.

A first, undisturbed load counts how often each story comes to each point. Then for every point a seeded choice takes
one of these occasions, and a load runs in fresh scopes in which the process kills itself there. Clients repeat what had
no definite answer byte for byte, a story goes on where it was, and in the end an account compares what was acknowledged
with what the service reads back. A point that no load came to is a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from chaos.lane import Lane
from chaos.ledger import account
from chaos.report import Report
from chaos.scene import SPOILT, Scene, Unexpected
from chaos.stories import STORIES
from protocol3.coordinator.controls.points import POINTS, Point
from protocol3.store.embedded import EmbeddedPostgres
from system import System, SystemFailure, migrate

ABOUT = "kill -9 at every named fault point, once each or --rounds times"

FAULTS, CLEAR = "/testing/v1/faults", "/testing/v1/faults/clear"
#: A story that takes longer hangs.
STORY_S = 120
#: Only processes die here, never the database.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "max_connections": "500"}

#: How often each story comes to each point.
Occasions = dict[str, Counter[str]]


class _List(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(*(point.name for point in POINTS), sep="\n")
        parser.exit()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--point", nargs="+", default=[], metavar="NAME", help="as settle:written, or settle for all")
    parser.add_argument("--rounds", type=int, default=1, help="each time on another occasion")
    parser.add_argument("--coordinators", type=int, default=1, help="processes on one database; each one is struck")
    parser.add_argument("--load", type=int, default=len(STORIES), help="stories at once, the struck one included")
    parser.add_argument("--lanes", type=int, default=2, help="points at once, each with a database of its own")
    parser.add_argument("--list", action=_List, nargs=0, help="name the points and exit")


def run(options: argparse.Namespace, folder: Path) -> Report:
    points = [point for point in POINTS if not options.point or {point.name, point.of} & set(options.point)]
    if not points:
        raise SystemFailure("no such point; --list names them")
    postgres = EmbeddedPostgres(folder / "database", settings=SETTINGS)
    postgres.start()
    try:
        return asyncio.run(_campaign(options, points, folder, postgres))
    finally:
        postgres.stop()


async def _campaign(
    options: argparse.Namespace, points: list[Point], folder: Path, postgres: EmbeddedPostgres
) -> Report:
    began = time.monotonic()
    urls = [await _database(postgres, f"lane_{n}") for n in range(options.lanes)]
    systems = [System(folder / f"lane-{n}", database_url=url) for n, url in enumerate(urls)]
    systems[0].publish("hello")
    spoilt = systems[0].store / "programs" / SPOILT["id"] / SPOILT["version"] / "descriptor.json"
    spoilt.parent.mkdir(parents=True)
    spoilt.write_text("spoilt")
    for system in systems:
        system.store = systems[0].store
    lanes = [Lane(system, options.coordinators) for system in systems]
    campaign = Campaign(options, points)
    with ExitStack() as stack:
        for system in systems:
            stack.enter_context(system)
        await asyncio.gather(*(campaign.work(lane, first=lane is lanes[0]) for lane in lanes))
    totals = Counter[str]()
    for row in campaign.rows:
        totals.update({name: count for name, count in row.items() if name != "point"})
    faults = campaign.faults + [fault for lane in lanes for fault in lane.faults]
    told = {"points": len(points), **totals, "seconds": round(time.monotonic() - began)}
    return Report(seed=options.seed, cases=len(campaign.rows), totals=told, rows=campaign.rows, faults=faults)


class Campaign:
    """What lanes have still to do, and what came of it."""

    def __init__(self, options: argparse.Namespace, points: list[Point]) -> None:
        self.options = options
        self.points = points
        self.jobs = iter([(number, point) for number in range(options.rounds) for point in points])
        self.rows: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.occasions: asyncio.Future[Occasions] = asyncio.get_running_loop().create_future()

    async def work(self, lane: Lane, *, first: bool) -> None:
        async with lane.running():
            if first:
                self.occasions.set_result(await self._count(lane))
            occasions = await self.occasions
            for number, point in self.jobs:
                await self._strike(lane, number, point, occasions[point.name])

    async def _count(self, lane: Lane) -> Occasions:
        """An undisturbed load with a rule at every point asked for that only counts."""
        load = Load(lane, "count", [story.__name__ for story in STORIES])
        for scene in load.scenes.values():
            for point in self.points:
                await load.add_rule(point.rule(dict(scene.scope), {"kind": "delay", "ms": 0}, times=None))
        await load.run()
        counted: Occasions = {point.name: Counter() for point in self.points}
        for story, scene in load.scenes.items():
            for name in lane.names:
                rules = (await lane.read(FAULTS, scene.scope, at=name)).document["faults"]
                for point, rule in zip(self.points, rules, strict=True):
                    counted[point.name] += Counter({story: rule["hits"]})
        await load.check()
        self.faults += [f"undisturbed: {fault}" for fault in load.faults]
        return counted

    async def _strike(self, lane: Lane, number: int, point: Point, occasions: Counter[str]) -> None:
        chosen = random.Random(f"{self.options.seed} {number} {point.name}")  # noqa: S311 - reproducible, no secret
        if not occasions:
            self.faults.append(f"{point.name}: no story comes to this point")
            return
        struck, skip = next(_at(occasions, chosen.randrange(occasions.total())))
        others = [story.__name__ for story in STORIES if story.__name__ != struck]
        stories = [struck, *chosen.sample(others, min(self.options.load - 1, len(others)))]
        before = lane.counts.copy()
        # Each process counts for itself; and polls that find nothing, and passes of a drain, are not always as many.
        for skipped in dict.fromkeys((skip if len(lane.names) == 1 else 0, 0)):
            load = Load(lane, f"{number}-{point.of}-{point.where}-{skipped}", stories)
            await load.strike(struck, point, skipped)
            if load.hits or load.faults:
                break
        else:
            load.faults.append(f"{struck} did not come to the point again")
        counts = lane.counts - before
        names = ("killed", "restarts", "commands", "replays")
        row = {"point": point.name, "hits": load.hits, **{name: counts[name] for name in names}}
        self.rows.append(row | {"faults": len(load.faults)})
        self.faults += [f"{point.name}, {struck} skip {skipped}: {fault}" for fault in load.faults]


def _at(occasions: Counter[str], number: int) -> Iterator[tuple[str, int]]:
    """The story of an occasion, and how many of this story come before it."""
    for story, count in occasions.items():
        if number < count:
            yield story, number
        number -= count


@dataclass(slots=True)
class Load:
    """Stories side by side, each in a scope of its own."""

    lane: Lane
    name: str
    stories: list[str]
    scenes: dict[str, Scene] = field(init=False)
    faults: list[str] = field(default_factory=list)
    hits: int = 0

    def __post_init__(self) -> None:
        self.scenes = {story: Scene(self.lane, f"{self.name}-{story}") for story in self.stories}

    async def strike(self, story: str, point: Point, skip: int) -> None:
        """Run with a rule that kills whoever brings this story to the point, and check."""
        scope = self.scenes[story].scope
        await self.add_rule(point.rule(dict(scope), {"kind": "crash"}, skip=skip))
        killed = self.lane.counts["killed"]
        await self.run()
        for name in self.lane.names:
            await self.lane.send(CLEAR, json.dumps({"scope": scope}).encode(), at=name)
        self.hits = self.lane.counts["killed"] - killed
        await self.check()

    async def add_rule(self, rule: Any) -> None:
        """In every process: rules strike where they were added (TST-020)."""
        for name in self.lane.names:
            await self.lane.send(FAULTS, json.dumps(rule).encode(), at=name)

    async def run(self) -> None:
        """All stories to their ends."""
        telling = {story.__name__: story for story in STORIES}

        async def tell(name: str, scene: Scene) -> None:
            try:
                async with asyncio.timeout(STORY_S):
                    await telling[name](scene)
                    await scene.until_all_ended()
            except Unexpected as answer:
                self.faults.append(f"{name}: {answer}")
            except TimeoutError:
                self.faults.append(f"{name}: has not ended after {STORY_S} s")

        await asyncio.gather(*(tell(name, scene) for name, scene in self.scenes.items()))

    async def check(self) -> None:
        """The account of every scene whose story came to its end."""
        for name, scene in self.scenes.items():
            if not any(fault.startswith(f"{name}: ") for fault in self.faults):
                await account(self.lane, scene.scope, scene.ledger)
            self.faults += [f"{name}: {fault}" for fault in scene.ledger.faults]


async def _database(postgres: EmbeddedPostgres, name: str) -> str:
    """A database of one lane, with the current schema; its URL."""
    connection = await asyncpg.connect(postgres.dsn)
    try:
        await connection.execute(f"create database {name}")
    finally:
        await connection.close()
    url = urlunsplit(urlsplit(postgres.dsn)._replace(path=f"/{name}"))
    await asyncio.to_thread(migrate, url)
    return url
