"""A workflow with all that belongs to it, gathered through the public routes."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import click

from protocol3.cli.client import Client
from protocol3.cli.options import scope_query
from protocol3.contract import limits
from protocol3.contract.strict_json import JsonValue

#: The list has no filter by workflow, so its pages are read; more than these are left out, and the tree says so.
PAGES: Final = 50
WORKFLOWS: Final = 500

COLOURS: Final = {
    "succeeded": "green",
    "failed": "red",
    "failing": "red",
    "cancelled": "yellow",
    "cancelling": "yellow",
}

# Replies of the service: objects whose members chapter 06, Status and chapter 09, Snapshot name.
Status = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One workflow: its snapshot, its outcome (null while there is none), its tasks by submission, its children."""

    workflow: Status
    outcome: JsonValue
    activations: list[Status] = field(default_factory=list)
    tasks: list[Status] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)
    #: False when the scope holds more than was read, so that something may be missing.
    complete: bool = True

    def to_json(self) -> JsonValue:
        return {
            "workflow": self.workflow,
            "outcome": self.outcome,
            "activations": list(self.activations),
            "tasks": list(self.tasks),
            "children": [child.to_json() for child in self.children],
            "complete": self.complete,
        }


def collect(client: Client, tenant: str, namespace: str, workflow_id: str) -> Node:
    """The tree below one workflow. Raises CliFailure. The reads share no snapshot: a live tree may be in between."""

    def read(route: str, workflow: str) -> Any:
        return client.get(f"/v1/workflows/{route}", scope_query(tenant, namespace, workflow_id=workflow))

    top = read("status", workflow_id)
    tasks, complete = _tasks_since(client, tenant, namespace, top["submitted_at"])
    owned: defaultdict[str, list[Status]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: (task["submitted_at"], task["task_id"])):
        if "workflow_id" in task:
            owned[task["workflow_id"]].append(task)
    # Every workflow has had an activation, which is a task: so the tasks name all that could be children.
    others = [name for name in owned if name != workflow_id]
    complete = complete and len(others) <= WORKFLOWS
    children: defaultdict[str, list[str]] = defaultdict(list)
    for name in others[:WORKFLOWS]:
        if parent := read("status", name).get("parent_workflow_id"):
            children[parent].append(name)

    def node(name: str) -> Node:
        result = read("result", name)
        return Node(
            workflow=result["workflow"],
            outcome=result["outcome"],
            activations=[task for task in owned[name] if "workflow_activation_id" in task],
            tasks=[task for task in owned[name] if "workflow_activation_id" not in task],
            children=[node(child) for child in children[name]],
            complete=complete,
        )

    return node(workflow_id)


def _tasks_since(client: Client, tenant: str, namespace: str, instant: int) -> tuple[list[Status], bool]:
    """All tasks of the scope submitted since `instant`, and whether that was all."""
    found: list[Status] = []
    cursor = None
    for _ in range(PAGES):
        query = scope_query(tenant, namespace, limit=limits.TASK_PAGE, submitted_from=instant, cursor=cursor)
        page: Any = client.get("/v1/tasks", query)
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found, True
    return found, False


def lines(node: Node) -> Iterator[str]:
    """The tree for a terminal."""
    yield _headline(node)
    yield from _below(node, "")
    if not node.complete:
        yield click.style("the scope holds more than was read: the tree may be incomplete", dim=True)


def _below(node: Node, indent: str) -> Iterator[str]:
    entries: list[tuple[str, Node | None]] = [(_task("activation", task), None) for task in node.activations]
    entries += [(_task("task", task), None) for task in node.tasks]
    entries += [(_headline(child), child) for child in node.children]
    for position, (text, child) in enumerate(entries, start=1):
        last = position == len(entries)
        yield f"{indent}{'└─ ' if last else '├─ '}{text}"
        if child is not None:
            yield from _below(child, f"{indent}{'   ' if last else '│  '}")


def _headline(node: Node) -> str:
    workflow = node.workflow
    text = f"workflow {workflow['workflow_id']}  {_state(workflow)}  revision {workflow['revision']}"
    text += f"  since {_instant(workflow['submitted_at'])}"
    if workflow["terminal_at"] is not None:
        text += f"  took {(workflow['terminal_at'] - workflow['submitted_at']) / 1000:.3f} s"
    return text


def _task(kind: str, task: Status) -> str:
    attempts = task["attempt_count"]
    return f"{kind} {task['task_id']}  {_state(task)}  {attempts} attempt{'s' * (attempts != 1)}  queue {task['queue']}"


def _state(status: Status) -> str:
    return click.style(status["state"], fg=COLOURS.get(status["state"], "cyan"))


def _instant(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
