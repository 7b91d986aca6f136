"""The task list: filters, order, cursors (chapter 08)."""

from __future__ import annotations

from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import same


async def walk(lab: Lab, limit: int, **filters: str) -> list[Any]:
    """All pages of one traversal; every page but the last must be full, and none behind another is empty."""
    items: list[Any] = []
    query = {**filters, "limit": str(limit)}
    while True:
        page = (await lab.client.list_tasks(**query)).accepted()
        assert page["items"] or "cursor" not in query, "the last page had a cursor (DISC-013)"
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        query["cursor"] = page["next_cursor"]


@scenario(
    "discovery/pages",
    cites=["DISC-009", "DISC-011", "DISC-012", "DISC-013", "DISC-014", "DISC-017"],
    profile="core discovery",
)
async def test_pages(lab: Lab) -> None:
    """Pages of any size give every matching task once, newest first, and the last one says so."""
    correlation = lab.unique("pages")
    tasks = [await lab.client.task(correlation_key=correlation) for _ in range(6)]
    expected = sorted(tasks, key=lambda task: (task["submitted_at"], task["task_id"].encode()), reverse=True)
    for limit in (1, 2, 3, 6, 7, 100):
        with lab.case(f"limit {limit}"):
            found = await walk(lab, limit, correlation_key=correlation)
            assert [item["task_id"] for item in found] == [task["task_id"] for task in expected]
    first = (await lab.client.list_tasks(correlation_key=correlation, limit="2")).accepted()
    rest = (
        await lab.client.list_tasks(correlation_key=correlation, limit="50", cursor=first["next_cursor"])
    ).accepted()
    assert [item["task_id"] for item in rest["items"]] == [task["task_id"] for task in expected[2:]]
    assert rest["next_cursor"] is None


@scenario(
    "discovery/filters",
    cites=["DISC-007", "DISC-008", "DISC-005", "HTTP-057", "DISC-006", "DISC-026"],
    profile="core discovery",
)
async def test_filters(lab: Lab) -> None:
    """Filters are exact and combined with AND; an empty correlation key is a value, none matches no filter."""
    queue, other = lab.unique("q1"), lab.unique("q2")
    mark = lab.unique("mark")
    keyed = await lab.client.task(queue=queue, correlation_key=mark)
    empty = await lab.client.task(queue=queue, correlation_key="")
    none = await lab.client.task(queue=queue)
    elsewhere = await lab.client.task(queue=other, correlation_key=mark)
    await lab.client.cancel_task(elsewhere["task_id"])
    worker = await lab.worker(queue=queue)
    active = (await worker.claim()).task_id
    at = keyed["submitted_at"]
    same_instant = [task for task in (keyed, elsewhere) if task["submitted_at"] == at]
    cases: list[tuple[dict[str, str], list[Any]]] = [
        ({"queue": queue}, [keyed, empty, none]),
        ({"queue": queue, "correlation_key": ""}, [empty]),
        ({"correlation_key": mark}, [keyed, elsewhere]),
        ({"correlation_key": mark[:-1]}, []),
        ({"correlation_key": mark, "state": "cancelled"}, [elsewhere]),
        ({"queue": queue, "state": "active"}, [task for task in (keyed, empty, none) if task["task_id"] == active]),
        ({"queue": queue, "state": "succeeded"}, []),
        (
            {"queue": queue, "submitted_from": str(at), "submitted_until": str(at + 1), "correlation_key": mark},
            same_instant,
        ),
        ({"queue": queue, "submitted_until": str(at), "correlation_key": mark}, []),
        ({"queue": queue, "submitted_from": str(at + 3_600_000)}, []),
        ({"queue": queue, "submitted_until": "0"}, []),
    ]
    for filters, matching in cases:
        with lab.case(str(filters)):
            found = await walk(lab, 10, **filters)
            assert {item["task_id"] for item in found} == {task["task_id"] for task in matching}


@scenario("discovery/items-are-statuses", cites=["DISC-010", "TASK-052", "DISC-021"], profile="core discovery")
async def test_items_are_statuses(lab: Lab) -> None:
    """A listed task is exactly its status."""
    correlation = lab.unique("same")
    task = await lab.client.task(correlation_key=correlation)
    claim = await (await lab.worker()).running()
    for _ in range(2):
        listed = (await lab.client.list_tasks(correlation_key=correlation)).accepted()["items"]
        assert same(listed, [(await lab.client.status(task["task_id"])).accepted()])
        if listed[0]["state"] == "active":
            await claim.succeed()
    nothing = (await lab.client.list_tasks(correlation_key=lab.unique("none"))).accepted()
    assert nothing == {"items": [], "next_cursor": None}


@scenario("discovery/cursor-is-bound", cites=["DISC-016", "DISC-018", "HTTP-058", "DISC-024"], profile="core discovery")
async def test_cursor_is_bound(lab: Lab) -> None:
    """A cursor belongs to its scope and filters; with others, or damaged, it is refused, never an empty page."""
    correlation = lab.unique("bound")
    for _ in range(3):
        await lab.client.task(correlation_key=correlation)
    filters = {"correlation_key": correlation, "queue": lab.queue, "submitted_from": "1"}
    cursor = (await lab.client.list_tasks(**filters, limit="1")).accepted()["next_cursor"]
    assert cursor is not None
    changed: dict[str, dict[str, str]] = {
        "filter changed": {**filters, "queue": lab.unique("other")},
        "filter added": {**filters, "state": "queued"},
        "filter removed": {name: value for name, value in filters.items() if name != "submitted_from"},
        "all removed": {},
        "bound moved": {**filters, "submitted_from": "2"},
    }
    for name, others in changed.items():
        with lab.case(name):
            (await lab.client.list_tasks(**others, cursor=cursor)).refused("invalid_input")
    damaged = {"cut": cursor[:-1], "longer": cursor + "0", "other": "x", "empty": "", "huge": "a" * 8193}
    for name, wrong in damaged.items():
        with lab.case(name):
            (await lab.client.list_tasks(**filters, cursor=wrong)).refused("invalid_input")
    assert (await lab.client.list_tasks(**filters, limit="2", cursor=cursor)).status == 200


@scenario("discovery/cursor-in-another-scope", cites=["DISC-016", "DISC-010"], profile="core discovery any-scope")
async def test_cursor_in_another_scope(lab: Lab) -> None:
    """A cursor of one scope is refused in another, and a scope lists only its own tasks."""
    for _ in range(2):
        await lab.client.task()
    cursor = (await lab.client.list_tasks(limit="1")).accepted()["next_cursor"]
    other = lab.client_in(lab.other_scope)
    (await other.list_tasks(limit="1", cursor=cursor)).refused("invalid_input")
    assert (await other.list_tasks()).accepted() == {"items": [], "next_cursor": None}
    foreign = (await other.submit_task()).accepted()
    assert [item["task_id"] for item in (await other.list_tasks()).accepted()["items"]] == [foreign["task_id"]]
    assert len((await lab.client.list_tasks()).accepted()["items"]) == 2


@scenario("discovery/cursor-outlives-changes", cites=["DISC-019", "DISC-020"], profile="core discovery")
async def test_cursor_outlives_changes(lab: Lab) -> None:
    """A cursor goes on after its boundary task changed state; newer tasks never appear behind it."""
    correlation = lab.unique("moving")
    tasks = [await lab.client.task(correlation_key=correlation) for _ in range(4)]
    page = (await lab.client.list_tasks(correlation_key=correlation, limit="2")).accepted()
    for item in page["items"]:
        await lab.client.cancel_task(item["task_id"])
    newer = await lab.client.task(correlation_key=correlation)
    rest = (await lab.client.list_tasks(correlation_key=correlation, cursor=page["next_cursor"])).accepted()["items"]
    seen = {item["task_id"] for item in [*page["items"], *rest]}
    assert seen == {task["task_id"] for task in tasks}
    assert newer["task_id"] not in seen


@scenario(
    "discovery/invalid-queries",
    cites=["DISC-001", "DISC-002", "DISC-003", "DISC-004", "DISC-005", "DISC-006", "HTTP-056"],
    profile="core discovery",
)
async def test_invalid_queries(lab: Lab) -> None:
    """Unknown names and words, numbers out of range and empty bounds are refused."""
    latest = bound("MAX_TIMESTAMP_MS")
    wrong = [
        {"limit": "0"},
        {"limit": str(bound("TASK_PAGE") + 1)},
        {"limit": ""},
        {"limit": "+5"},
        {"limit": " 5"},
        {"limit": "5.0"},
        {"limit": "-1"},
        {"limit": "\u0665"},
        {"state": "lost"},
        {"state": "Queued"},
        {"state": ""},
        {"queue": ""},
        {"correlation_key": "a\u0001"},
        {"correlation_key": "x" * 513},
        {"submitted_from": str(latest + 1)},
        {"submitted_from": "5", "submitted_until": "5"},
        {"submitted_from": "6", "submitted_until": "5"},
        {"submitted_until": "-1"},
        {"task_id": "t"},
        {"offset": "1"},
    ]
    for query in wrong:
        with lab.case(str(query)):
            (await lab.client.list_tasks(**query)).refused("invalid_input")
    assert (await lab.client.list_tasks(limit="00100", submitted_until=str(latest))).status == 200


@scenario("discovery/tasks-of-workflows", cites=["DISC-023", "ACT-007", "TASK-058"], profile="core discovery")
async def test_tasks_of_workflows(lab: Lab) -> None:
    """Tasks of workflows are listed like others, with their workflow, and activations with their activation."""
    correlation = lab.unique("flow")
    workflow = await lab.client.workflow(correlation_key=correlation)
    items = (await lab.client.list_tasks(correlation_key=correlation)).accepted()["items"]
    assert [(item["workflow_id"], item["workflow_activation_id"]) for item in items] == [
        (workflow["workflow_id"], workflow["activation_id"])
    ]
