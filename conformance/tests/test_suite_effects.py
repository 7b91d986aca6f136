"""The effect ledger counts what was sent to it, once each, and nothing else."""

from __future__ import annotations

import asyncio

from protocol3_conformance.wire.effects import Effects


async def _ask(effects: Effects, head: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*effects.address)
    writer.write(head + b" HTTP/1.1\r\nHost: sink\r\n\r\n")
    status = await reader.readline()
    writer.close()
    return status.split()[1]


async def _counted() -> tuple[list[bytes], Effects]:
    effects = Effects()
    await effects.start()
    heads = (b"POST /wf_1/pay/1", b"POST /wf_1/pay/2", b"POST /wf_1/pay/2", b"POST /wf_1/pay", b"GET /wf_1/pay/1")
    told = [await _ask(effects, head) for head in heads]
    effects.stop()
    return told, effects


def test_effects_are_counted_by_step_and_attempt() -> None:
    told, effects = asyncio.run(_counted())
    assert told == [b"200", b"200", b"200", b"404", b"404"]
    assert effects.of("pay") == {1: 1, 2: 2}
    assert effects.counts.total() == 3
    assert effects.of("other") == {}
