"""`protocol3 testing` over HTTP: what is sent, what is printed, what is refused."""

import json

import pytest

SCOPE = {"tenant_id": "acme", "namespace": "demo"}
DELAY = '{"kind": "delay", "ms": 5}'


@pytest.mark.parametrize(("command", "path"), [("clock", "clock"), ("faults", "faults")])
def test_looking(shell, coordinator, command, path):
    coordinator.reply({"now": 1})
    done = shell("testing", command)
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"now": 1})
    assert coordinator.requests[-1][:2] == ("GET", f"/testing/v1/{path}?tenant_id=acme&namespace=demo")


@pytest.mark.parametrize(
    ("words", "path", "members"),
    [
        (["advance", "--by", "60000"], "clock", {"advance_ms": 60_000, "leases": "hold"}),
        (["advance", "--by", "0", "--leases", "expire"], "clock", {"advance_ms": 0, "leases": "expire"}),
        (["advance", "--next"], "clock", {"to": "next_due", "leases": "hold"}),
        (
            ["fault", "--step", "decision.apply", "--where", "received", "--act", "hold"],
            "faults",
            {"match": {"step": "decision.apply"}, "where": "received", "act": {"kind": "hold"}, "skip": 0, "times": 1},
        ),
        (
            [
                "fault",
                "--route",
                "POST /v1/tasks",
                "--where",
                "committed",
                "--act",
                DELAY,
                "--skip",
                "2",
                "--times",
                "0",
            ],
            "faults",
            {
                "match": {"method": "POST", "path": "/v1/tasks"},
                "where": "committed",
                "act": {"kind": "delay", "ms": 5},
                "skip": 2,
                "times": None,
            },
        ),
        (["release"], "faults/release", {}),
        (["release", "--id", "held_1"], "faults/release", {"id": "held_1"}),
        (["clear", "--id", "fault_1"], "faults/clear", {"id": "fault_1"}),
    ],
)
def test_commands(shell, coordinator, words, path, members):
    coordinator.reply({"done": True})
    done = shell("testing", *words)
    assert done.exit_code == 0, done.stderr
    assert coordinator.requests[-1][:2] == ("POST", f"/testing/v1/{path}")
    assert coordinator.command == {"scope": SCOPE, **members}


@pytest.mark.parametrize(
    "words",
    [
        ["advance"],
        ["advance", "--by", "1", "--next"],
        ["advance", "--by", "-1"],
        ["fault", "--where", "received", "--act", "hold"],
        ["fault", "--step", "drain.pass", "--route", "POST /v1/tasks", "--where", "received", "--act", "hold"],
        ["fault", "--step", "drain.pass", "--where", "received", "--act", "{"],
    ],
)
def test_usage(shell, coordinator, words):
    """Refused before anything is sent."""
    done = shell("testing", *words)
    assert done.exit_code == 2
    assert coordinator.requests == []


def test_a_server_without_test_controls(shell, coordinator):
    """TST-001: said as what it is, with what to do."""
    coordinator.reply({"code": "route_not_found"}, status=404)
    done = shell("testing", "clock")
    assert done.exit_code == 1
    failure = json.loads(done.stderr)
    assert failure["code"] == "no_test_controls"
    assert "--test-controls" in failure["next"]
