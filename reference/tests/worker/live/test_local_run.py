"""``protocol3 worker run``: a list of tasks without a coordinator (WRK-095, WRK-096)."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from protocol3.cli.worker import group
from protocol3.worker.local_run import LIST_BYTES, InvalidTasks, read_tasks

Publish = Callable[..., Any]


def task(number: int, data: Any = None, program: str = "bench-1", **event: Any) -> dict[str, Any]:
    return {
        "program": {"id": program, "version": "1"},
        "event": {
            "specversion": "1.0",
            "id": f"evt_{number}",
            "source": "urn:x",
            "type": "com.ledgence.task.invocation.requested.v1",
            "datacontenttype": "application/json",
            "ldgtenantid": "t",
            "ldgnamespace": "n",
            "ldgrunid": "run",
            "ldgtaskid": f"task_{number}",
            "ldgattemptid": f"att_{number}",
            "ldgattemptno": 1,
            "data": data,
            **event,
        },
    }


def run(tmp_path: Path, tasks: Any, *options: str) -> Result:
    (tmp_path / "tasks.json").write_text(json.dumps(tasks))
    words = ["--tasks", str(tmp_path / "tasks.json"), "--store", str(tmp_path / "store")]
    words += ["--cache", str(tmp_path / "cache"), "--python", sys.executable, *options]
    return CliRunner().invoke(group, ["run", *words])


def lines(result: Result) -> dict[str, tuple[str, dict[str, Any]]]:
    """By attempt: `report` or `failure`, and its body."""
    found = {}
    for line in result.stdout.splitlines():
        ((kind, body),) = json.loads(line).items()
        found[body["attempt_id"]] = (kind, body)
    return found


def test_one_line_for_each_task(tmp_path: Path, publish: Publish) -> None:
    """WRK-096: completed ones are reports, the others failures; any failure makes the exit status 1."""
    publish()
    tasks = [
        task(1, {"do": "echo", "value": [1, 1.0]}),
        task(2, {"do": "raise", "message": "no"}),
        task(3, {"do": "exit"}),
        task(4, {"do": "sleep", "mark": str(tmp_path / "mark")}),
        task(5, ldgworkflowid="wf", ldgactivationid="task_5"),
    ]
    result = run(tmp_path, tasks, "--timeout-ms", "5000", "--concurrency", "2")  # enough for those that end
    found = lines(result)
    assert result.exit_code == 1
    assert [found[f"att_{number}"][0] for number in range(1, 6)] == [
        "report",
        "report",
        "failure",
        "failure",
        "failure",
    ]
    assert repr(found["att_1"][1]["outcome"]) == repr({"status": "success", "output": [1, 1.0]})
    assert found["att_2"][1]["outcome"]["kind"] == "business_error"
    assert [found[f"att_{number}"][1]["error"]["kind"] for number in (3, 4, 5)] == [
        "runtime",
        "timed_out",
        "incompatible",
    ]


def test_success_is_exit_0_and_processes_are_reused(tmp_path: Path, publish: Publish) -> None:
    """WRK-096."""
    publish()
    result = run(tmp_path, [task(number, {"do": "pid"}) for number in range(4)], "--concurrency", "1")
    assert result.exit_code == 0
    assert len({body["outcome"]["output"] for _, body in lines(result).values()}) == 1


def test_a_program_that_is_not_published_runs_nothing(tmp_path: Path, publish: Publish) -> None:
    """WRK-096: each program is resolved before anything runs."""
    publish()
    result = run(tmp_path, [task(1, {"do": "echo"}), task(2, program="other")])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "not_found" in result.stderr


@pytest.mark.parametrize(
    "tasks",
    [
        {},
        [{**task(1), "extra": 1}],
        [{"program": {"id": "p", "version": "1"}}],
        [task(1, ldgattemptno=0)],
        [task(1), task(1)],
        [task(1), {**task(2, ldgtaskid="task_1"), "program": {"id": "other", "version": "1"}}],
        [task(number) for number in range(1001)],
    ],
)
def test_lists_that_are_refused(tasks: Any) -> None:
    """WRK-095."""
    with pytest.raises(InvalidTasks):
        read_tasks(json.dumps(tasks).encode())


def test_lists_at_their_bounds(tmp_path: Path) -> None:
    """WRK-095: 1000 items, several attempts of one task, 8 MiB; an unreadable list is a usage error."""
    assert len(read_tasks(json.dumps([task(number) for number in range(1000)]).encode())) == 1000
    assert len(read_tasks(json.dumps([task(1), task(2, ldgtaskid="task_1")]).encode())) == 2
    assert read_tasks(b"[]" + b" " * (LIST_BYTES - 2)) == ()
    with pytest.raises(InvalidTasks):
        read_tasks(b"[]" + b" " * (LIST_BYTES - 1))
    (tmp_path / "store").mkdir()
    assert run(tmp_path, {}).exit_code == 2
    assert run(tmp_path, [], "--timeout-ms", "0").exit_code == 2
    assert run(tmp_path, [], "--timeout-ms", "86400001").exit_code == 2
