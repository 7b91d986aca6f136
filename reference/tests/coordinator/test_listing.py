"""The task list on a real database (chapter 08)."""

from __future__ import annotations

import asyncio
from itertools import chain

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef


async def fill(client):
    """Six tasks a second apart, the newest first; a tie between the last two."""
    kinds = [("q", None), ("q", ""), ("r", "c"), ("q", "c"), ("q", None), ("r", None)]
    tasks = []
    for n, (queue, key) in enumerate(kinds):
        task = await client.submit(f"k{n}", queue=queue, correlation_key=key)
        await client.services.pool.execute(
            "update task set submitted_at = $2 where id = $1", task["task_id"], 10_000 - 1_000 * min(n, 4)
        )
        tasks.append(task["task_id"])
    await client.cancel(tasks[0])
    return [*tasks[:4], *sorted(tasks[4:], reverse=True)]


async def pages(client, limit, **filters):
    """The ids of a whole traversal, page by page."""
    cursor, found = None, []
    while True:
        page = await client.list(limit=limit, cursor=cursor, **filters)
        found.append([item["task_id"] for item in page["items"]])
        if page["next_cursor"] is None:
            return found
        assert page["next_cursor"] != cursor  # DISC-015
        cursor = page["next_cursor"]


@pytest.mark.parametrize(("limit", "sizes"), [(1, [1] * 6), (2, [2, 2, 2]), (4, [4, 2]), (6, [6]), (100, [6])])
async def test_traversal(client, limit, sizes):
    """DISC-009, DISC-011 to DISC-014: strict order, exact ends, also of a full page."""
    expected = await fill(client)
    found = await pages(client, limit)
    assert [len(page) for page in found] == sizes
    assert [*chain(*found)] == expected


@pytest.mark.parametrize(
    ("filters", "positions"),
    [
        ({"state": "cancelled"}, [0]),
        ({"state": "queued", "queue": "q"}, [1, 3]),
        ({"queue": "r"}, [2]),
        ({"correlation_key": ""}, [1]),
        ({"correlation_key": "c"}, [2, 3]),
        ({"correlation_key": "C"}, []),
        ({"submitted_from": 8_000}, [0, 1, 2]),
        ({"submitted_until": 8_000}, [3]),
        ({"submitted_from": 8_000, "submitted_until": 9_001, "queue": "q"}, [1]),
        ({"submitted_until": 0}, []),
    ],
)
async def test_filters(client, filters, positions):
    """DISC-006 to DISC-008, DISC-026: exact, combined with AND; the tie is left out here."""
    expected = await fill(client)
    wanted = [expected[n] for n in positions]
    assert [task for task in chain(*await pages(client, 2, **filters)) if task in expected[:4]] == wanted


async def test_a_cursor_outlives_its_boundary(client):
    """DISC-019, DISC-020: the boundary task changes state or disappears; newer tasks stay before the cursor."""
    expected = await fill(client)
    first = await client.list(limit=2)
    await client.services.pool.execute("delete from task where id = $1", expected[1])
    await client.submit("newer")
    rest = await client.list(limit=100, cursor=first["next_cursor"])
    assert [item["task_id"] for item in rest["items"]] == expected[2:]


async def test_what_waits_for_its_program_is_listed_before_a_cursor(client, programs):
    """DISC-020: dated by its acceptance, not by the look at its key before the program store answered."""
    asked, answer = asyncio.Event(), asyncio.Event()
    resolve = programs.resolve

    async def elsewhere(program: ProgramRef) -> Descriptor:
        asked.set()
        await answer.wait()
        return await resolve(program)

    await client.submit("old")
    programs.resolve = elsewhere
    late = asyncio.create_task(client.submit("late"))
    await asked.wait()
    programs.resolve = resolve
    await client.submit("new")
    cursor = (await client.list(limit=1))["next_cursor"]
    await asyncio.sleep(0.05)  # as long as a store over a network may take
    answer.set()
    late_id = (await late)["task_id"]
    behind = (await client.list(limit=100, cursor=cursor))["items"]
    assert late_id not in [item["task_id"] for item in behind]


async def test_a_cursor_of_another_question(client, refused):
    """DISC-016, DISC-018: also in a scope that holds nothing."""
    await fill(client)
    cursor = (await client.list(limit=1))["next_cursor"]
    assert await refused(client.list(limit=1, cursor=cursor, queue="q")) == "invalid_input"
    client.scope = client.scope | {"namespace": "never used"}
    assert await refused(client.list(cursor=cursor)) == "invalid_input"
