"""Every statement finds its rows by an index, whatever the statistics say (`store.database.PLANNING`)."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from protocol3.contract.models.common import Scope
from protocol3.contract.models.tasks import TaskListQuery
from protocol3.coordinator import background
from protocol3.core.task_list import Position
from protocol3.store import loads
from protocol3.store.clock import timed
from protocol3.store.loads import task_list
from protocol3.store.tables import TABLES


def statements() -> Iterator[Any]:
    """The texts at the top of the modules that load, and of the background loops; what still has a gap is no text."""
    for package in (loads, background):
        for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            module = importlib.import_module(found.name)
            for name, text in vars(module).items():
                if isinstance(text, str) and re.match(r"\s*(select|with|update)\s", text) and "{{" not in text:
                    yield pytest.param(text, id=f"{found.name.rpartition('.')[2]}-{name.strip('_').lower()}")


def nodes(plan: dict[str, Any], parent: str = "") -> Iterator[dict[str, Any]]:
    yield plan | {"Parent": parent}
    for child in plan.get("Plans", ()):
        yield from nodes(child, plan["Node Type"])


async def plan_of(pool: Any, text: str) -> dict[str, Any]:
    """The generic plan that a connection of ours keeps for a statement."""
    given = ", ".join(["null"] * len(set(re.findall(r"\$\d+", text))))
    async with pool.acquire() as connection:
        await connection.execute(f"prepare probe as {text}")
        reply = await connection.fetchval(f"explain (format json) execute probe{f'({given})' if given else ''}")
        await connection.execute("deallocate probe")
    plan: dict[str, Any] = json.loads(reply)[0]["Plan"]
    return plan


def scans_without_key(plan: dict[str, Any]) -> list[str]:
    """Where a table of ours is read whole, by itself or through an index; the first row in an index's order is not."""
    names = {table.name for table in TABLES}
    return [
        f"{node['Node Type']} of {node['Relation Name']}"
        for node in nodes(plan)
        if node.get("Relation Name") in names
        and "Scan" in node["Node Type"]
        and "Index Cond" not in node
        and node["Node Type"] != "Bitmap Heap Scan"
        and not (node["Parent"] == "Limit" and "Filter" not in node)
    ]


@pytest.mark.parametrize("text", [*statements()])
async def test_statements(pool, text):
    """Loads and background scans, on tables that were never analysed."""
    assert scans_without_key(await plan_of(pool, timed(text))) == []


LISTED = TaskListQuery(scope=Scope(tenant_id="t", namespace="n"))
FILTERS = [
    {},
    {"state": "queued"},
    {"queue": "q"},
    {"correlation_key": ""},
    {"submitted_from": 1, "submitted_until": 2},
]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("after", [None, Position(submitted_at=1, task_id="x")])
async def test_the_task_list(pool, filters, after):
    """DISC-009: its order is that of an index, nothing is sorted."""
    texts: list[str] = []

    class Recorder:
        async def fetch(self, text: str, *values: Any) -> list[Any]:
            texts.append(text)
            return []

    await task_list.page(Recorder(), 1, replace(LISTED, **filters), after, 5)
    plan = await plan_of(pool, texts[0])
    assert scans_without_key(plan) == []
    assert not [node for node in nodes(plan) if "Sort" in node["Node Type"]]
