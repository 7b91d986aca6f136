"""The fixture programs do what their descriptions say (HLP-141, PKG-077 … PKG-080)."""

import json
import platform
import signal
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[3] / "fixtures" / "programs"
PREPARE = PROGRAMS / "mixed-workflow" / "prepare.py"
VALUES = {"values": [1, 2, 3], "queue": "workflows"}
WAKE_EVENT = {
    "specversion": "1.0",
    "id": "e",
    "source": "urn:s",
    "type": "t",
    "datacontenttype": "application/json",
    "data": {"paid": 30},
}


@pytest.fixture
def run(hosts):
    """Start a fixture program by its template's protocol; the host."""

    def start(name, **settings):
        template = PROGRAMS / name / "ledgence-program.template.json"
        protocol = json.loads(template.read_text())["runtime"]["protocol"] if template.exists() else 3
        return hosts(PROGRAMS / name, protocol=protocol, **settings).ready()

    return start


def workflow_outcome(state, **outcome):
    return {"kind": "workflow", "workflow_id": "w", "state": state, "outcome": {"kind": state} | outcome}


@pytest.fixture(scope="module")
def mixed(hosts):
    return hosts(PROGRAMS / "mixed-workflow").ready()


def test_the_mixed_workflow_forks_summarizes_and_joins(mixed, activation):
    """HLP-141, REQ-C04: the first activation."""
    decision = mixed.invoke(VALUES, payload=activation())["output"]
    assert [request["operation"] for request in mixed.requests] == ["workflow.fork", "local_step.commit"]
    fork, step = (request["payload"] for request in mixed.requests)
    assert (fork["key"], step["key"]) == ("calculations:0", "summary")
    branches = {branch["key"]: (branch["entrypoint"], branch["queue"], branch["data"]) for branch in fork["branches"]}
    assert list(branches) == ["double:0", "triple:0"] == decision["until"]
    assert branches["double:0"] == ("double", "workflows", {"values": [1, 2, 3]})
    assert step["output"] == decision["state"] == {"count": 3, "sum": 6}
    assert (decision["kind"], decision["continuation"]) == ("suspend", "collect")


def test_the_branches_of_the_mixed_workflow(mixed, activation):
    """HLP-141: double sleeps 100 ms under `ready:0`, triple does not."""
    data = {"values": [1, 2, 3]}
    sleeping = mixed.invoke(data, payload=activation(continuation="double"))["output"]
    assert sleeping["wait"] == {"kind": "timer", "key": "ready:0", "delay_ms": 100}
    wake = {"kind": "timer", "key": "ready:0", "deadline": 5}
    resumed = activation(continuation=sleeping["continuation"], state=sleeping["state"], wake=wake, revision=1)
    assert mixed.invoke(data, payload=resumed)["output"]["output"] == 12
    assert mixed.invoke(data, payload=activation(continuation="triple"))["output"]["output"] == 18


def test_the_mixed_workflow_collects(mixed, activation):
    """HLP-141: the result for [1, 2, 3]."""
    inputs = {
        "double:0": workflow_outcome("succeeded", output=12),
        "triple:0": workflow_outcome("succeeded", output=18),
    }
    payload = activation(continuation="collect", state={"count": 3, "sum": 6}, inputs=inputs, revision=1)
    decision = mixed.invoke(VALUES, payload=payload)["output"]
    assert decision["output"] == {"local": {"count": 3, "sum": 6}, "double": 12, "triple": 18}


@pytest.mark.parametrize(("state", "kind"), [("failed", "branch_failed"), ("cancelled", "branch_cancelled")])
@pytest.mark.parametrize("key", ["double:0", "triple:0"])
def test_a_failed_and_a_cancelled_branch_are_different_failures(mixed, activation, state, kind, key):
    """REQ-C04."""
    outcome = {"error": {"kind": "k", "message": "m"}} if state == "failed" else {}
    inputs = {name: workflow_outcome("succeeded", output=1) for name in ("double:0", "triple:0")}
    inputs[key] = workflow_outcome(state, **outcome)
    payload = activation(continuation="collect", state={"count": 3, "sum": 6}, inputs=inputs, revision=1)
    assert mixed.invoke(VALUES, payload=payload)["output"]["error"]["kind"] == kind


@pytest.mark.parametrize("data", [{"values": [0] * 1000, "queue": "q" * 128}, {"values": [-1_000_000], "queue": " "}])
def test_inclusive_bounds_of_the_input(mixed, activation, data):
    """HLP-141."""
    assert mixed.invoke(data, payload=activation())["output"]["kind"] == "suspend"


@pytest.mark.parametrize(
    "changes",
    [
        {"values": []},
        {"values": [0] * 1001},
        {"values": [1_000_001]},
        {"values": [-1_000_001]},
        {"values": [1.0]},
        {"values": [True]},
        {"values": ["1"]},
        {"values": "123"},
        {"values": None},
        {"queue": ""},
        {"queue": "q" * 129},
        {"queue": "é"},
        {"queue": "a\n"},
        {"queue": 1},
        {"extra": 1},
    ],
)
def test_an_invalid_input_is_a_terminal_failure(mixed, activation, changes):
    """HLP-141: and nothing was started."""
    decision = mixed.invoke(VALUES | changes, payload=activation())["output"]
    assert (decision["kind"], decision["error"]["kind"]) == ("fail", "invalid_input")
    assert mixed.requests == []


@pytest.mark.parametrize("data", [None, [], "text", {"values": [1]}])
def test_an_input_of_another_shape_is_a_terminal_failure(mixed, activation, data):
    """HLP-141."""
    assert mixed.invoke(data, payload=activation())["output"]["error"]["kind"] == "invalid_input"


def test_the_ledger_counts_executions_not_replays(run, activation, tmp_path):
    """HLP-056, HLP-136: a committed summary is not computed again by the next attempt."""
    ledger = tmp_path / "ledger"
    host = run("mixed-workflow", environment={"PROTOCOL3_EFFECT_LEDGER": str(ledger)})
    first = host.invoke(VALUES, payload=activation())["output"]
    record = next(request["payload"] for request in host.requests if request["operation"] == "local_step.commit")
    assert host.invoke(VALUES, payload=activation(local_steps=[record]))["output"] == first
    assert len(ledger.read_text().splitlines()) == 1


@pytest.fixture
def prepared(python):
    return lambda output: subprocess.run([python, str(PREPARE), str(output)], capture_output=True, check=False)


def test_prepare_writes_a_publishable_directory(tmp_path, hosts, prepared, python_version):
    """PKG-077 … PKG-080: parents included."""
    output = tmp_path / "new" / "folder"
    assert prepared(output).returncode == 0
    assert sorted(path.name for path in output.iterdir()) == ["ledgence-program.json", "program.py"]
    assert json.loads((output / "ledgence-program.json").read_text()) == {
        "schema_version": 1,
        "program": {"id": "mixed-workflow", "version": "1.0.1"},
        "runtime": {"kind": "python", "python": python_version, "protocol": 3},
        "handler": "program:handle",
        "platform": {
            "os": {"Linux": "linux", "Darwin": "macos"}[platform.system()],
            "arch": {"arm64": "aarch64"}.get(platform.machine(), platform.machine()),
        },
    }
    assert hosts(output).ready().end() == 0


def test_prepare_refuses_an_existing_output(tmp_path, prepared):
    """PKG-079: as a usage error, and without a change."""
    result = prepared(tmp_path)
    assert (result.returncode, list(tmp_path.iterdir())) == (2, [])
    file = tmp_path / "file"
    file.write_text("kept")
    assert (prepared(file).returncode, file.read_text()) == (2, "kept")


@pytest.mark.parametrize(
    "change",
    [
        "import platform; platform.system = lambda: 'Windows'",
        "import platform; platform.machine = lambda: 'riscv64'",
        "import sys; sys.version_info = (3, 10)",
    ],
)
def test_prepare_refuses_an_unfit_host(tmp_path, change, python):
    """PKG-077."""
    code = f"{change}\nimport runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    output = tmp_path / "output"
    command = [python, "-c", code, str(PREPARE), str(output)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    assert not output.exists()


def test_every_program_has_a_template_and_a_line_in_the_list():
    """PKG-001: a template becomes a manifest by filling in three places."""
    programs = sorted(path.name for path in PROGRAMS.iterdir() if path.is_dir())
    listed = (PROGRAMS / "README.md").read_text()
    for name in programs:
        assert f"| `{name}` |" in listed
        if name == "mixed-workflow":
            continue
        text = (PROGRAMS / name / "ledgence-program.template.json").read_text()
        assert [text.count(place) for place in ("{python}", "{os}", "{arch}")] == [1, 1, 1]
        manifest = json.loads(text)
        assert manifest["program"]["id"] == name
        assert f"`{name}` | {manifest['program']['version']} | {manifest['runtime']['protocol']} |" in listed


def test_hello_greets_and_counts(run):
    """Its description; HLP-001 in protocol 2."""
    host = run("hello")
    assert [host.invoke({"name": "Ada"})["output"] for _ in range(2)] == [
        {"greeting": "Hello, Ada!", "calls_in_this_process": count} for count in (1, 2)
    ]
    assert host.invoke({"name": ""})["error"]["kind"] == "business_error"


def test_echo_returns_its_data_or_its_event(run):
    host = run("echo")
    assert host.invoke([1, 1.0, None])["output"] == [1, 1.0, None]
    assert host.invoke({"show": "event"})["output"]["id"] == "ev"


@pytest.mark.parametrize(
    ("how", "kind"),
    [("raise", "business_error"), ("invalid_output", "invalid_output"), ("too_large", "invalid_output")],
)
def test_failing_fails_until_the_attempt(run, how, kind):
    host = run("failing")
    assert host.invoke({"how": how})["error"]["kind"] == kind
    assert host.invoke({"how": how, "until_attempt": 2})["error"]["kind"] == kind
    second = host.invoke({"how": how, "until_attempt": 2}, event={"ldgattemptno": 2})
    assert second["output"] == {"attempt_no": 2}


@pytest.mark.parametrize("block", [False, True])
def test_sleeper_sleeps(run, block):
    assert run("sleeper").invoke({"sleep_ms": 1, "block": block})["output"] == {"slept_ms": 1}


@pytest.mark.parametrize(("how", "code"), [("exit", 7), ("kill", -signal.SIGKILL)])
def test_crasher_ends_without_a_result(run, how, code):
    host = run("crasher")
    assert host.invoke({"how": how, "until_attempt": 1})["output"] == {"attempt_no": 1}
    host.send(host.invoke_frame({"how": how}))
    assert host.frame() is None
    assert host.wait() == code


def test_crasher_closes_its_frames_and_hangs(run):
    host = run("crasher")
    host.send(host.invoke_frame({"how": "close"}))
    assert host.frame() is None
    assert host.process.poll() is None


def test_locals_and_events_runs_its_steps_and_waits(run, activation, tmp_path):
    """Its description; HLP-056, HLP-067, HLP-121."""
    ledger = tmp_path / "ledger"
    host = run("locals-and-events", environment={"PROTOCOL3_EFFECT_LEDGER": str(ledger)})
    data = {"order": "tea", "timeout_ms": 1000}
    decision = host.invoke(data, payload=activation())["output"]
    records = [request["payload"] for request in host.requests]
    assert [record["key"] for record in records] == ["price", "reserve"]
    assert records[1]["callable"] == "tool:program:reserve"
    assert decision["state"] == {"price": 30, "reservation": "tea for 3 days"}
    assert decision["wait"] == {"kind": "event", "key": "payment:0", "timeout_ms": 1000}
    assert host.invoke(data, payload=activation(local_steps=records))["output"] == decision
    assert ledger.read_text().split() == ["price", "reserve"]
    wake = {"kind": "event", "key": "payment:0", "event": WAKE_EVENT, "accepted_at": 5}
    paid = activation(continuation="paid", state=decision["state"], wake=wake, revision=1)
    done = host.invoke(data, payload=paid)["output"]
    assert done["output"] == decision["state"] | {"wake": "event", "payment": {"paid": 30}}
    wake = {"kind": "timeout", "key": "payment:0", "deadline": 5}
    late = host.invoke(data, payload=paid | {"wake": wake})["output"]
    assert late["output"] == decision["state"] | {"wake": "timeout", "payment": None}


@pytest.mark.parametrize(("key", "committed"), [("price", ["price"]), ("reserve", ["price", "reserve"])])
def test_locals_and_events_crashes_after_a_committed_step(run, activation, acknowledge, key, committed):
    """Its description."""
    data = {"order": "tea", "timeout_ms": None, "crash_after": key, "crash_attempts": 1}
    host = run("locals-and-events")
    host.send(host.invoke_frame(data, payload=activation()))
    seen = []
    while (frame := host.frame()) is not None:
        seen.append(frame["payload"]["key"])
        host.send(acknowledge(frame))
    assert seen == committed
    assert host.wait() == -signal.SIGKILL
    second = run("locals-and-events").invoke(data, payload=activation(), event={"ldgattemptno": 2})
    assert second["output"]["kind"] == "wait"
