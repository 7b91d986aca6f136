"""Every exchange of a worker, disturbed in every way, on a real coordinator (DLV-204…210, WRK-007, WRK-025, WRK-083).

A table of exchanges and faults. In each cell the disturbed request is repeated byte for byte, the workflow ends as
ever, each activation takes one attempt, and each local function runs once.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from typing import Any

import pytest

from recovery.relay import Relay
from recovery.site import EXPECTED
from recovery.stages import ACQUIRE, CONFIRM, CONTEXT, FORK, LOCAL, RENEW, SETTLE

OPEN, EXTEND = "/v1/worker-sessions", "/v1/worker-sessions/extend"

#: What happens, and where. After a `hold` the worker's own time is over first.
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "request lost": ("received", {"kind": "drop"}),
    "undone": ("written", {"kind": "drop"}),
    "reply lost": ("committed", {"kind": "drop"}),
    "refused for now": ("received", {"kind": "fail"}),
    "done, but 503": ("committed", {"kind": "fail"}),
    "done, but silent": ("committed", {"kind": "hold"}),
    "done, but a gateway's word": ("committed", {"kind": "status", "status": 502, "body": "bad gateway"}),
    "done, but no reply of its kind": ("committed", {"kind": "status", "status": 200, "body": {"fine": True}}),
    "byte by byte": ("committed", {"kind": "drip", "bytes": 7, "every_ms": 0}),
}
WHOLE = "byte by byte"
NOT_WRITTEN = {ACQUIRE, CONTEXT}  # the place `written` is a step's, or there is nothing to write
#: There a 200 that is none of its kind is an answer: `protocol` (WRK-079), and the end of a start (WRK-004).
DEFINITE = {CONTEXT, OPEN}

#: By path: what makes two requests one command, that may have one body only.
IDENTITY: dict[str, tuple[str, ...]] = {
    ACQUIRE: ("consumer_id", "sequence"),
    RENEW: ("owner", "sequence"),
    CONTEXT: ("attempt_id",),
    LOCAL: ("owner", "record.key"),
    FORK: ("owner", "fork.key"),
    SETTLE: ("owner",),
    CONFIRM: ("attempt_id",),
}
PACING = {"request_timeout_ms": 1_000}


def faults_of(path: str) -> dict[str, tuple[str, dict[str, Any]]]:
    left_out = {"undone"} if path in NOT_WRITTEN else set()
    left_out |= {"done, but no reply of its kind"} if path in DEFINITE else set()
    return {name: fault for name, fault in FAULTS.items() if name not in left_out}


@pytest.fixture
async def relay(coordinator: str) -> AsyncIterator[Relay]:
    async with Relay(int(coordinator.rpartition(":")[2])) as relay:
        yield relay


def commands(relay: Relay, path: str) -> dict[str, Counter[bytes]]:
    """By command: how often each body of it was sent."""
    found: dict[str, Counter[bytes]] = defaultdict(Counter)
    for body in relay.bodies(path):
        found[identity(json.loads(body), IDENTITY[path])][body] += 1
    return found


def identity(command: Any, names: tuple[str, ...]) -> str:
    parts = []
    for name in names:
        value = command
        for step in name.split("."):
            value = value[step]
        parts.append(value)
    return json.dumps(parts, sort_keys=True)


async def ends_as_ever(site: Any, key: str, workflow_id: str) -> None:
    assert await site.outcome(workflow_id) == {"kind": "succeeded", "output": EXPECTED}, key
    assert site.effects(key) == Counter(EXPECTED), key
    assert await site.attempts(key) == {1: 4}, key


@pytest.mark.parametrize("path", [ACQUIRE, RENEW, CONTEXT, LOCAL, FORK, SETTLE])
async def test_a_disturbed_exchange_is_repeated_and_done_once(site: Any, relay: Relay, path: str) -> None:
    """DLV-205…209, DLV-040, LOC-004, FRK-010, DLV-082: one worker goes through all faults of the exchange."""
    site.start_worker(at=relay.url, **PACING)
    repeated = 0
    for number, (name, (where, act)) in enumerate(faults_of(path).items()):
        rule = await site.rule(path, where, act)
        key = f"{number}"
        workflow_id = await site.submit(key)
        await site.struck(rule)
        await ends_as_ever(site, key, workflow_id)
        await site.clear()
        found = commands(relay, path)
        assert all(len(bodies) == 1 for bodies in found.values()), name
        again = sum(bodies.total() > 1 for bodies in found.values())
        assert again == repeated + (name != WHOLE), name
        repeated = again


@pytest.mark.parametrize("path", [RENEW, EXTEND])
async def test_what_goes_on_beside_a_handler_is_repeated(site: Any, relay: Relay, path: str) -> None:
    """WRK-025, WRK-028, DLV-004: renewals to keep alive and extensions of the session, while the handler runs."""
    site.start_worker(at=relay.url, renew_interval_ms=30, extend_interval_ms=30, **PACING)
    for number, (name, (where, act)) in enumerate(faults_of(path).items()):
        key = f"{number}"
        gate = site.gate_folder(key) / "handler.gate"
        gate.touch()
        workflow_id = await site.submit(key)

        async def reached(key: str = key) -> bool:
            return bool((site.gate_folder(key) / "handler.reached").exists())

        await site.until(reached, bool)
        rule = await site.rule(path, where, act)
        await site.struck(rule)
        after = await site.rule(path, "committed", {"kind": "delay", "ms": 0})
        await site.struck(after)
        gate.unlink()
        await ends_as_ever(site, key, workflow_id)
        await site.clear()
        if path == RENEW:
            assert all(len(bodies) == 1 for bodies in commands(relay, path).values()), name


async def test_a_session_is_opened_again(store: Any, coordinator: str, tmp_path: Any) -> None:
    """DLV-003, WRK-004: an unused session just expires; the worker works in the one that it was told."""
    from recovery.site import site as another

    async def opened(number: int, name: str) -> None:
        where, act = FAULTS[name]
        (tmp_path / f"{number}").mkdir()
        async with another(coordinator, store, tmp_path / f"{number}") as own:
            rule = await own.rule(OPEN, where, act)
            own.start_worker(request_timeout_ms=4_000)
            await own.struck(rule)
            await ends_as_ever(own, "key", await own.submit("key"))

    await asyncio.gather(*(opened(number, name) for number, name in enumerate(faults_of(OPEN))))


async def test_a_confirmation_is_repeated(store: Any, coordinator: str, tmp_path: Any) -> None:
    """DLV-112, WRK-071: the worker ends only when it was answered, with exit code 1 for it had to drain."""
    from recovery.site import site as another

    async def confirmed(number: int, name: str) -> None:
        where, act = FAULTS[name]
        (tmp_path / f"{number}").mkdir()
        async with another(coordinator, store, tmp_path / f"{number}") as own, Relay(port) as relay:
            folder = own.gate_folder("key")
            for file in ("handler.crash", "clean-up.gate"):
                (folder / file).touch()
            rule = await own.rule(CONFIRM, where, act)
            settled = await own.rule(SETTLE, "committed", {"kind": "delay", "ms": 0})
            worker = own.start_worker(at=relay.url, key="key", shutdown_ms=50, **PACING)
            await own.submit("key")
            await own.struck(settled)
            (folder / "clean-up.gate").unlink()
            assert await own.ended(worker) == 1
            assert any(each["hits"] == 1 for each in (await own.faults())["faults"] if each["id"] == rule), name
            ((bodies),) = commands(relay, CONFIRM).values()
            assert list(bodies.values()) == [1 if name == WHOLE else 2], name

    port = int(coordinator.rpartition(":")[2])
    await asyncio.gather(*(confirmed(number, name) for number, name in enumerate(FAULTS)))
