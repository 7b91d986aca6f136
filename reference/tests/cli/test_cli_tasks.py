"""`protocol3 task` over HTTP: what is sent, what is printed, which exit code."""

import json

import pytest

from protocol3.cli import observing
from protocol3.cli.client import Client
from protocol3.cli.failure import CliFailure

SUBMIT = ["task", "submit", "--queue", "main", "--program", "hello@1.0.0"]
UNFINISHED = {"task": {"state": "active", "terminal_at": None}, "outcome": None}
FINISHED = {"task": {"state": "failed", "terminal_at": 5}, "outcome": {"kind": "failed"}}


def test_submit_sends_what_is_set_and_prints_one_json_value(shell, coordinator):
    """Unset options are left out, never null; floats and integers keep their class (CLI-050, JSON-046)."""
    coordinator.reply({"task_id": "task_1"})
    done = shell(*SUBMIT, "--key", "k1", "--data", '{"n": 1, "x": 1.0}', "--retry-delay-ms", "0")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"task_id": "task_1"}
    assert done.stderr == ""
    method, path, body, headers = coordinator.requests[0]
    assert (method, path) == ("POST", "/v1/tasks")
    assert headers["Content-Type"] == "application/json"
    assert headers["Accept-Encoding"] == "identity"
    assert b'"data":{"n":1,"x":1.0}' in body
    assert coordinator.command == {
        "idempotency_key": "k1",
        "input": {
            "tenant_id": "acme",
            "namespace": "demo",
            "queue": "main",
            "program": {"id": "hello", "version": "1.0.0"},
            "data": {"n": 1, "x": 1.0},
            "retry_policy": {"max_attempts": 3, "retry_delay_ms": 0},
        },
    }


def test_data_comes_from_a_file_or_standard_input(shell, coordinator, tmp_path):
    (tmp_path / "data.json").write_text('{"from": "file"}')
    coordinator.reply("ok")
    shell(*SUBMIT, "--data", f"@{tmp_path}/data.json")
    assert coordinator.command["input"]["data"] == {"from": "file"}
    coordinator.reply("ok")
    shell(*SUBMIT, "--data", "@-", input=b'{"from": "stdin"}')
    assert coordinator.command["input"]["data"] == {"from": "stdin"}


def test_a_whole_command_is_sent_as_it_is(shell, coordinator, tmp_path):
    command = {"idempotency_key": "k", "input": {"anything": [1, 1.5, None]}}
    (tmp_path / "task.json").write_text(json.dumps(command))
    coordinator.reply("ok")
    assert shell("task", "submit", "--file", f"{tmp_path}/task.json", scoped=False).exit_code == 0
    assert coordinator.command == command


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--file", "{file}"], "--file holds the whole command: leave out --"),
        (["--data", '{"a": 1, "a": 2}'], "--data"),
        (["--data", "[1"], "quote it for the shell"),
        (["--data", "@{folder}/absent"], "No such file"),
        (["--program", "hello"], "hello@1.0.0"),
    ],
)
def test_bad_input_sends_nothing(shell, coordinator, tmp_path, words, complaint):
    (tmp_path / "file").write_text("{}")
    filled = [word.replace("{file}", f"{tmp_path}/file").replace("{folder}", str(tmp_path)) for word in words]
    refused = shell(*SUBMIT, *filled)
    assert refused.exit_code == 2
    assert complaint in refused.stderr
    assert refused.stdout == ""
    assert coordinator.requests == []


def test_a_missing_part_of_the_command_is_named(shell, coordinator):
    refused = shell("task", "submit", "--queue", "main", "--program", "hello@1.0.0", scoped=False)
    assert refused.exit_code == 2
    assert "--tenant is missing" in refused.stderr
    assert coordinator.requests == []


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["status", "--task", "t 1&/é"], "/v1/tasks/status?tenant_id=acme&namespace=demo&task_id=t+1%26/%C3%A9"),
        (["inspect", "--task", "t"], "/v1/tasks/inspect?tenant_id=acme&namespace=demo&task_id=t"),
        (["result", "--task", "t"], "/v1/tasks/result?tenant_id=acme&namespace=demo&task_id=t"),
        (
            ["history", "--task", "t", "--after", "7"],
            "/v1/tasks/history?tenant_id=acme&namespace=demo&task_id=t&after_sequence=7",
        ),
        (
            ["attempt", "--task", "t", "--attempt", "a"],
            "/v1/attempts/inspect?tenant_id=acme&namespace=demo&task_id=t&attempt_id=a",
        ),
        (["list"], "/v1/tasks?tenant_id=acme&namespace=demo&limit=50"),
        (
            ["list", "--cursor", "c", "--limit", "2", "--state", "queued", "--correlation-key", ""],
            "/v1/tasks?tenant_id=acme&namespace=demo&limit=2&state=queued&correlation_key=&cursor=c",
        ),
    ],
)
def test_reads_form_encode_their_query(shell, coordinator, words, target):
    """Names, order and escapes of CLI-003; no body on a GET."""
    coordinator.reply({"any": "reply"})
    assert shell("task", *words).exit_code == 0
    method, path, body, headers = coordinator.requests[0]
    assert (method, path, body) == ("GET", target, b"")
    assert "Content-Length" not in headers


def test_cancel_prints_the_state(shell, coordinator):
    coordinator.reply("cancelled")
    assert json.loads(shell("task", "cancel", "--task", "t").stdout) == "cancelled"
    assert coordinator.command == {"scope": {"tenant_id": "acme", "namespace": "demo"}, "task_id": "t"}


@pytest.mark.parametrize(
    ("status", "error", "exit_code", "advice"),
    [
        (400, {"code": "invalid_input", "message": "body.input: bad"}, 2, "correct the input"),
        (404, {"code": "not_found"}, 2, "check the ids"),
        (409, {"code": "conflict"}, 2, "new key"),
        (503, {"code": "unavailable", "message": "shutting down"}, 1, "whether it was accepted is unknown"),
        (404, {"code": "route_not_found"}, 1, "unknown"),
        (200 + 1, {"task_id": "t"}, 1, "unknown"),
        (409, {"code": "conflict", "message": "extra"}, 1, "unknown"),
        (500, b"<html>", 1, "unknown"),
    ],
)
def test_refusals_of_the_service(shell, coordinator, status, error, exit_code, advice):
    """4xx ends with 2, 5xx and whatever is no answer of the protocol with 1 (CLI-015…019, CLI-022)."""
    coordinator.reply(error, status=status)
    refused = shell(*SUBMIT)
    assert refused.exit_code == exit_code
    assert refused.stdout == ""
    assert advice in json.loads(refused.stderr)["next"]


def test_an_uncertain_submission_names_its_key(shell, coordinator):
    """A key made here must be known to repeat the command; the POST itself is sent once (CLI-005, CLI-022)."""
    coordinator.drop()
    refused = shell(*SUBMIT)
    assert refused.exit_code == 1
    assert f"--key {coordinator.command['idempotency_key']}" in json.loads(refused.stderr)["next"]
    assert len(coordinator.requests) == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"a":1,"a":2}', "application/json"),
        (b"", "application/json"),
        (b"{}", "text/html"),
        (b"NaN", "application/json"),
    ],
)
def test_a_reply_outside_the_profile_is_a_failure(shell, coordinator, body, kind):
    """CLI-010, CLI-014."""
    coordinator.reply(body, kind=kind)
    failed = shell("task", "status", "--task", "t")
    assert failed.exit_code == 1
    assert json.loads(failed.stderr)["code"] == "protocol"


def test_nobody_listens(shell, coordinator):
    coordinator.close()
    failed = shell("task", "status", "--task", "t")
    assert failed.exit_code == 1
    assert "--server" in json.loads(failed.stderr)["next"]
    failed = shell(*SUBMIT)
    assert "unknown" not in failed.stderr  # nothing was sent, so nothing can have been accepted


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://h", "http://u@h", "http://h:99999", "http://h?q", "http://h/p#f"]
)
def test_a_server_must_be_an_http_origin(shell, url):
    refused = shell("task", "status", "--task", "t", "--server", url)
    assert refused.exit_code == 2
    assert "--server" in refused.stderr


def test_a_path_before_the_routes_is_kept(shell, coordinator):
    """HTTP-005: behind a proxy that serves the coordinator under a prefix."""
    for base in ("/ledgence", "/ledgence/"):
        coordinator.reply({"code": "not_found"}, status=404)
        shell("task", "status", "--task", "t", "--server", coordinator.url + base)
        assert coordinator.requests[-1][1].startswith("/ledgence/v1/tasks/status?")


class Clock:
    """Time that passes only by pauses."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def watch(coordinator, seconds):
    clock = Clock()
    observing.report(Client(coordinator.url), "/v1/tasks", {"task_id": "t"}, seconds, clock=clock, pause=clock.pause)
    return clock.now


def test_waiting_polls_once_a_second_then_fetches_the_result(coordinator, capsys):
    """503 and a lost connection are outlasted (CLI-007)."""
    coordinator.reply({"terminal_at": None})
    coordinator.reply({"code": "unavailable", "message": ""}, status=503)
    coordinator.drop()
    coordinator.drop()  # http.client does not repeat a GET: this one belongs to the next poll
    coordinator.reply({"terminal_at": 5})
    coordinator.reply(FINISHED)
    assert watch(coordinator, 30) == 4.0
    assert json.loads(capsys.readouterr().out) == FINISHED


def test_the_end_of_a_wait_is_only_the_end_of_the_observation(coordinator, capsys):
    """The unfinished result is printed, the exit code says so, nothing is cancelled (CLI-025)."""
    for _ in range(3):
        coordinator.reply({"terminal_at": None})
    coordinator.reply(UNFINISHED)
    with pytest.raises(CliFailure, match="not finished after 2 s"):
        watch(coordinator, 2)
    assert json.loads(capsys.readouterr().out) == UNFINISHED
    assert {method for method, *_ in coordinator.requests} == {"GET"}


def test_a_definitive_refusal_ends_a_wait(coordinator):
    coordinator.reply({"code": "not_found"}, status=404)
    with pytest.raises(CliFailure, match="nothing of that name"):
        watch(coordinator, 30)
    assert len(coordinator.requests) == 1


def test_a_failed_task_is_a_successful_answer(shell, coordinator):
    coordinator.reply(FINISHED)
    assert shell("task", "result", "--task", "t").exit_code == 0
