"""Local results: durable steps of one activation (chapter 11)."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.lab import Lab
from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.scenario import scenario
from protocol3_conformance.wire.strict_json import compact_size, same

TWICE = {"max_attempts": 2, "retry_delay_ms": 0}


@scenario("local/commit-and-replay", cites=["LOC-002", "LOC-003", "LOC-010", "ACT-021", "LIM-001", "RACE-25"])
async def test_commit_and_replay(lab: Lab) -> None:
    """A record is stored once; its repetition is told apart, any other content under its key conflicts."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    record: dict[str, Any] = {"output": {"a": 1, "b": 1.0}, "input": [1, {"x": None}]}
    before = (await lab.client.workflow_status(activation.workflow_id)).accepted()
    assert (await activation.local("fx", **record)).accepted() == {"key": "fx", "already_accepted": False}
    reordered = {"output": {"b": 1.0, "a": 1}, "input": [1, {"x": None}]}
    for members in (record, reordered):
        assert (await activation.local("fx", **members)).accepted() == {"key": "fx", "already_accepted": True}
    changes: dict[str, dict[str, Any]] = {
        "output": {"output": {"a": 1, "b": 1}},
        "input": {"input": [1, {}]},
        "callable": {"callable": "other:step"},
    }
    for name, change in changes.items():
        with lab.case(name):
            (await activation.local("fx", **{**record, **change})).refused("conflict")
    (await activation.local("ab", 2)).accepted()
    (await activation.local("Z", 3)).accepted()
    journal = (await activation.context()).accepted()["local_steps"]
    assert [entry["key"] for entry in journal] == ["Z", "ab", "fx"]
    assert same(journal[2], {"key": "fx", "callable": "conformance:step", **record})
    assert (await lab.client.workflow_status(activation.workflow_id)).accepted() == before


@scenario("local/needs-dispatch-and-life", cites=["LOC-007", "LOC-008", "LOC-004", "LOC-009", "DLV-052", "ACT-024"])
async def test_needs_dispatch_and_life(lab: Lab) -> None:
    """A new record needs a dispatched, live attempt without a report; a later keep_alive takes nothing away."""
    await lab.client.workflow()
    claim = await (await lab.worker()).claim()
    (await claim.local("early")).refused("ownership_lost")
    await claim.dispatch()
    assert not (await claim.renew("keep_alive")).accepted()["dispatch_allowed"]
    assert not (await claim.local("after keep_alive")).accepted()["already_accepted"]
    journal = (await claim.context()).accepted()["local_steps"]
    assert [entry["key"] for entry in journal] == ["after keep_alive"]
    decision = {"v": 1, "activation_id": claim.task_id, "revision": 0, "kind": "complete", "output": None}
    (await claim.settle(claim.success(decision, quiescence="unconfirmed"))).accepted()
    (await claim.local("late")).refused("ownership_lost")
    assert (await claim.local("after keep_alive")).accepted()["already_accepted"]
    assert (await claim.confirm()).accepted() == "succeeded"


@scenario("local/identity", cites=["LOC-004", "LOC-006", "LOC-005"])
async def test_identity(lab: Lab) -> None:
    """Neither a new record nor a replay is taken from an owner that differs from the lease, or from another task."""
    await lab.client.workflow()
    worker = await lab.worker()
    activation = await worker.activation()
    (await activation.local("kept", 1)).accepted()
    record = {"key": "kept", "callable": "conformance:step", "input": None, "output": 1}
    await lab.client.task()
    ordinary = await worker.running()
    owner = activation.owner
    cases: dict[str, dict[str, Any]] = {
        "lease": {**owner, "lease_id": lab.unique("lease")},
        "generation": {**owner, "generation": 2},
        "session": {**owner, "worker_session_id": lab.unique("ws")},
        "consumer": {**owner, "consumer_id": owner["consumer_id"] + 1},
        "unknown attempt": {**owner, "attempt_id": lab.unique("att")},
        "unknown task": {**owner, "task_id": lab.unique("task")},
        "ordinary task": ordinary.owner,
    }
    for name, wrong in cases.items():
        for key in ("kept", "new"):
            with lab.case(f"{name}, {key} record"):
                command = {"owner": wrong, "record": {**record, "key": key}}
                (await lab.client.post("/v1/workflows/local-results", command)).refused("ownership_lost")
    assert len((await activation.context()).accepted()["local_steps"]) == 1


@scenario(
    "local/lost-acknowledgement", cites=["LOC-005", "RACE-22", "RACE-23", "RACE-24", "RACE-25", "LOC-004", "DRN-008"]
)
async def test_lost_acknowledgement(lab: Lab) -> None:
    """The original owner's replay works for ever; a later attempt must be dispatched, and the old one adds nothing."""
    await lab.client.workflow(retry_policy=TWICE)
    worker = await lab.worker()
    old = await worker.activation()
    (await old.local("fx", 1.0)).accepted()
    await old.break_down("io")
    assert (await old.local("fx", 1.0)).accepted()["already_accepted"]
    (await old.local("fx", 1)).refused("conflict")
    new = await worker.claim()
    (await new.local("fx", 1.0)).refused("ownership_lost")
    (await new.local("fx", 2.0)).refused("conflict")
    await new.dispatch()
    assert (await new.local("fx", 1.0)).accepted()["already_accepted"]
    (await old.local("more")).refused("ownership_lost")
    assert (await old.local("fx", 1.0)).accepted()["already_accepted"]
    frozen = (await new.context()).accepted()
    assert [entry["key"] for entry in frozen["local_steps"]] == ["fx"]
    await lab.client.cancel_workflow(frozen["workflow_id"])
    (await new.local("more")).refused("ownership_lost")
    assert (await old.local("fx", 1.0)).accepted()["already_accepted"]
    await new.succeed(None)
    await lab.client.workflow_until(frozen["workflow_id"], "cancelled")
    assert (await old.local("fx", 1.0)).accepted()["already_accepted"]


@scenario("local/per-activation", cites=["LOC-001", "ACT-021", "LOC-005", "LOC-009"])
async def test_per_activation(lab: Lab) -> None:
    """Every activation has a journal of its own; the earlier one's records stay reconcilable."""
    await lab.client.workflow()
    worker = await lab.worker()
    first = await worker.activation()
    (await first.local("step", "first")).accepted()
    await first.go_on()
    second = await worker.activation()
    assert second.frozen["local_steps"] == []
    assert not (await second.local("step", "second")).accepted()["already_accepted"]
    assert (await first.local("step", "first")).accepted()["already_accepted"]
    (await first.local("step", "second")).refused("conflict")


@scenario("local/bounds", cites=["LOC-004", "LOC-009", "LIM-010", "LIM-012", "LIM-020", "LIM-031", "TXT-001"])
async def test_bounds(lab: Lab) -> None:
    """A record may take 128 KiB and the journal 256 KiB; a refused record costs nothing."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    limit, ledger = bound("LOCAL_RECORD_BYTES"), bound("LOCAL_LEDGER_BYTES")

    def filler(key: str, size: int) -> str:
        empty = {"key": key, "callable": "conformance:step", "input": None, "output": ""}
        return "x" * (size - compact_size(empty))

    (await activation.local("a", filler("a", limit + 1))).refused("invalid_input", 400)
    (await activation.local("a", filler("a", limit))).accepted()
    # Brackets and one comma belong to the journal.
    rest = ledger - limit - 3
    (await activation.local("b", filler("b", rest + 1))).refused("invalid_input", 400)
    (await activation.local("b", filler("b", rest))).accepted()
    (await activation.local("c")).refused("invalid_input", 400)
    assert (await activation.local("a", filler("a", limit))).accepted()["already_accepted"]
    assert [entry["key"] for entry in (await activation.context()).accepted()["local_steps"]] == ["a", "b"]


@scenario("local/record-count", cites=["LOC-004", "LOC-009", "LIM-020", "ACT-021"])
async def test_record_count(lab: Lab) -> None:
    """An activation may keep 128 records over all its attempts, and not one more."""
    await lab.client.workflow(retry_policy=TWICE)
    worker = await lab.worker()
    first = await worker.activation()
    most = bound("LOCAL_RECORDS")
    await commit(first, range(most // 2))
    await first.break_down("io")
    second = await worker.activation()
    await commit(second, range(most // 2, most))
    (await second.local("one more")).refused("invalid_input", 400)
    assert (await second.local("k000")).accepted()["already_accepted"]
    assert len((await second.context()).accepted()["local_steps"]) == most


async def commit(activation: Activation, numbers: range) -> None:
    """Records k000, k001, … a few at a time, so that the lease does not run out on a slow target."""
    for first in numbers[::16]:
        batch = range(first, min(first + 16, numbers.stop))
        for answer in await asyncio.gather(*(activation.local(f"k{number:03}") for number in batch)):
            answer.accepted()


@scenario("local/invalid-records", cites=["LOC-004", "JSON-080", "JSON-081", "TXT-001", "JSON-032"])
async def test_invalid_records(lab: Lab) -> None:
    """Ill-formed records are refused before identity is looked at."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    deep: Any = 1
    for _ in range(bound("DATA_DEPTH") + 1):
        deep = [deep]
    record: dict[str, Any] = {"key": "k", "callable": "m:f", "input": None, "output": None}
    cases: dict[str, Any] = {
        "empty key": {**record, "key": ""},
        "long key": {**record, "key": "k" * 129},
        "long callable": {**record, "callable": "c" * 513},
        "no input": {name: value for name, value in record.items() if name != "input"},
        "unknown member": {**record, "elapsed": 1},
        "deep input": {**record, "input": deep},
        "deep output": {**record, "output": deep},
        "no object": None,
    }
    foreign = {**activation.owner, "task_id": lab.unique("task")}
    for name, wrong in cases.items():
        with lab.case(name):
            for owner in (activation.owner, foreign):
                command = {"owner": owner, "record": wrong}
                (await lab.client.post("/v1/workflows/local-results", command)).refused("invalid_input", 400)
    assert (await activation.context()).accepted()["local_steps"] == []


@scenario("local/at-once", cites=["LOC-011", "LOC-002"])
async def test_at_once(lab: Lab) -> None:
    """Racing commits of one record are stored once; of two contents under one key one wins."""
    await lab.client.workflow()
    activation = await (await lab.worker()).activation()
    for number in range(4):
        answers = await asyncio.gather(*(activation.local(f"same {number}", number) for _ in range(4)))
        assert sorted(answer.accepted()["already_accepted"] for answer in answers) == [False, True, True, True]
        rivals = await asyncio.gather(*(activation.local(f"rival {number}", side) for side in range(2)))
        assert sorted(rival.status for rival in rivals) == [200, 409]
    journal = (await activation.context()).accepted()["local_steps"]
    assert len(journal) == 8
