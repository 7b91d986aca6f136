"""`protocol3 workflow`: routes, events, and the tree."""

import json

import pytest

from protocol3.cli import tree
from protocol3.cli.client import Client

SCOPE = {"tenant_id": "acme", "namespace": "demo"}


@pytest.mark.parametrize("command", ["status", "result"])
def test_reads(shell, coordinator, command):
    coordinator.reply({"any": "reply"})
    assert shell("workflow", command, "--workflow", "w").exit_code == 0
    assert coordinator.requests[0][:2] == (
        "GET",
        f"/v1/workflows/{command}?tenant_id=acme&namespace=demo&workflow_id=w",
    )


def test_submit_and_cancel(shell, coordinator):
    coordinator.reply({"workflow_id": "w"})
    assert shell("workflow", "submit", "--queue", "q", "--program", "flow@1").exit_code == 0
    assert coordinator.requests[-1][:2] == ("POST", "/v1/workflows")
    assert coordinator.command["input"]["data"] is None
    coordinator.reply({"workflow_id": "w"})
    assert shell("workflow", "cancel", "--workflow", "w").exit_code == 0
    assert coordinator.command == {"scope": SCOPE, "workflow_id": "w"}


def test_an_event_is_made_or_taken_whole(shell, coordinator, tmp_path):
    """A made one is a complete CloudEvent (EVT 9.1); a given one is sent as it is."""
    coordinator.reply({"key": "go"})
    assert shell("workflow", "events", "--workflow", "w", "--key", "go", "--data", "{}", "--id", "e1").exit_code == 0
    assert coordinator.requests[-1][1] == "/v1/workflows/events"
    event = {
        "specversion": "1.0",
        "id": "e1",
        "source": "/protocol3/cli",
        "type": "protocol3.cli.event",
        "datacontenttype": "application/json",
        "data": {},
    }
    assert coordinator.command == {"scope": SCOPE, "workflow_id": "w", "key": "go", "event": event}
    (tmp_path / "event.json").write_text('{"id": "theirs"}')
    coordinator.reply({"key": "go"})
    shell("workflow", "events", "--workflow", "w", "--key", "go", "--file", f"{tmp_path}/event.json")
    assert coordinator.command["event"] == {"id": "theirs"}


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["workflow", "events", "--workflow", "w", "--key", "go", "--id", ""], "--id"),
        (["workflow", "submit", "--queue", "q", "--program", "flow@1", "--key", ""], "--key"),
        (["task", "submit", "--queue", "q", "--program", "flow@1", "--key", ""], "--key"),
    ],
)
def test_an_empty_id_or_key_is_refused_and_not_taken_for_none(shell, coordinator, words, option):
    """A script whose variable is empty wants one thing done once, not a new one every time."""
    done = shell(*words)
    assert (done.exit_code, coordinator.requests) == (2, [])
    assert f"'{option}': must not be empty" in done.stderr


def snapshot(name, state="succeeded", parent=None):
    lineage = {"parent_workflow_id": parent, "root_workflow_id": "root"} if parent else {}
    ended = None if state == "running" else 2_500
    return {"workflow_id": name, "state": state, "revision": 1, "submitted_at": 1_000, "terminal_at": ended, **lineage}


def task(name, workflow=None, *, controller=False, state="succeeded", at=1_000):
    member = {} if workflow is None else {"workflow_id": workflow}
    if controller:
        member["workflow_activation_id"] = name
    return {"task_id": name, "state": state, "attempt_count": 1, "queue": "q", "submitted_at": at, **member}


def script_tree(coordinator, workflows, pages):
    """The replies in the order of tree.collect: status, pages, statuses of the others, results depth first."""
    coordinator.reply(workflows[0])
    for page in pages:
        coordinator.reply(page)
    for workflow in workflows[1:]:
        coordinator.reply(workflow)
    for workflow in workflows:
        coordinator.reply({"workflow": workflow, "outcome": None})


PAGES = [
    {"items": [task("t2", "child", controller=True, at=1_300), task("lone")], "next_cursor": "c"},
    {"items": [task("t1", "root", state="failed", at=1_200), task("t0", "root", controller=True)], "next_cursor": None},
]


def test_the_tree_gathers_what_belongs_together(shell, coordinator):
    workflows = [snapshot("root", "running"), snapshot("child", parent="root")]
    script_tree(coordinator, workflows, PAGES)
    shown = shell("workflow", "show", "--workflow", "root")
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert found["complete"] is True
    assert [entry["task_id"] for entry in found["activations"]] == ["t0"]
    assert [entry["task_id"] for entry in found["tasks"]] == ["t1"]
    (child,) = found["children"]
    assert child["workflow"]["workflow_id"] == "child"
    assert [entry["task_id"] for entry in child["activations"]] == ["t2"]
    assert "submitted_from=1000" in coordinator.requests[1][1]
    assert coordinator.requests[2][1].endswith("&cursor=c")


def test_the_tree_on_a_terminal(coordinator):
    script_tree(coordinator, [snapshot("root", "running"), snapshot("child", parent="root")], PAGES)
    found = tree.collect(Client(coordinator.url), "acme", "demo", "root")
    lines = [line.replace("\x1b[0m", "") for line in tree.lines(found)]
    assert lines[0].startswith("workflow root")
    assert lines[1].startswith("├─ activation t0")
    assert lines[2].startswith("├─ task t1")
    assert lines[3].startswith("└─ workflow child")
    assert lines[3].endswith("took 1.500 s")
    assert lines[4].startswith("   └─ activation t2")


def test_a_tree_that_was_cut_says_so(coordinator, monkeypatch):
    monkeypatch.setattr(tree, "PAGES", 1)
    script_tree(coordinator, [snapshot("root"), snapshot("child", parent="root")], PAGES[:1])
    found = tree.collect(Client(coordinator.url), "acme", "demo", "root")
    assert found.complete is False
    assert "may be incomplete" in list(tree.lines(found))[-1]
