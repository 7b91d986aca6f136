"""The published client when an exchange is disturbed: what it says, and that the repeated call has the one effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import mutations
import pytest
from disturbed import Coordinator, Faults
from ledgence.client import AsyncClient, LedgenceError, RequestTimeout, TransportError, Unavailable
from mutations import Mutation

NewRoom = Callable[[], Awaitable[Any]]
CASES = pytest.mark.parametrize("kind", mutations.ALL, ids=lambda kind: kind.__name__)


async def arranged(kind: type[Mutation], truth: AsyncClient) -> Mutation:
    mutation = kind(truth)
    await mutation.arrange()
    return mutation


async def uncertainty(mutation: Mutation, client: AsyncClient) -> Any:
    """What the disturbed call raises: the class of its kind, with the request's cause."""
    with pytest.raises(mutation.uncertain) as raised:
        await mutation.send(client)
    assert type(raised.value) is mutation.uncertain
    return raised.value


async def reconciled(mutation: Mutation, client: AsyncClient, error: LedgenceError) -> None:
    """The repeated call has the effect, once; and so has every further one, through whatever coordinator."""
    first = await mutation.again(client, error)
    assert await mutation.again(client, error) == first
    assert await mutation.done_once()


@CASES
@pytest.mark.parametrize(
    ("where", "act", "cause", "stored"),
    [
        ("received", "drop", TransportError, False),
        ("locked", "drop", TransportError, False),
        ("written", "drop", TransportError, False),
        ("committed", "drop", TransportError, True),
        ("received", "fail", Unavailable, False),
        ("locked", "fail", Unavailable, False),
        ("written", "fail", Unavailable, False),
        ("committed", "fail", Unavailable, True),
    ],
)
async def test_a_lost_or_failed_exchange_is_uncertain_and_repeated_once(
    kind: type[Mutation],
    where: str,
    act: str,
    cause: type[TransportError],
    stored: bool,
    truth: AsyncClient,
    shaken: AsyncClient,
    faults: Faults,
) -> None:
    """CLI-013, CLI-019, CLI-022: no reply, or 503, before and after the commit."""
    mutation = await arranged(kind, truth)
    await faults.add(mutation.route, where, act)
    error = await uncertainty(mutation, shaken)
    assert type(error.cause) is cause
    assert await faults.hits() == 1  # sent once, CLI-005
    assert (error.request_id is not None) is (cause is Unavailable)
    assert await mutation.happened() in (stored, None)
    first = await mutation.again(shaken, error)
    assert mutation.replayed in (stored, None)
    await reconciled(mutation, shaken, error)
    assert await mutation.again(shaken, error) == first


@pytest.mark.parametrize("where", ["received", "locked", "written", "committed"])
async def test_held_exchanges_run_out_of_time_and_are_repeated_once(where: str, new_room: NewRoom) -> None:
    """CLI-021, CLI-022: the client has left; the held exchange goes on beside the repeated one."""

    async def judge(kind: type[Mutation]) -> None:
        room = await new_room()
        mutation = await arranged(kind, room.truth)
        await room.faults.add(mutation.route, where, "hold")
        error = await uncertainty(mutation, room.hasty)
        assert type(error.cause) is RequestTimeout
        assert error.cause.dispatched
        await room.faults.until_hit()
        repeated = asyncio.create_task(mutation.again(room.shaken, error))
        await room.faults.release()
        first = await repeated
        await reconciled(mutation, room.shaken, error)
        assert await mutation.again(room.shaken, error) == first

    await asyncio.gather(*map(judge, mutations.ALL))


async def test_trickling_replies_are_read_or_run_out_of_time(new_room: NewRoom) -> None:
    """CLI-012, CLI-021: a reply in many pieces is a reply; one that does not end in time makes the call uncertain."""

    async def judge(kind: type[Mutation]) -> None:
        room = await new_room()
        slow = await arranged(kind, room.truth)
        await room.faults.add(slow.route, "committed", "drip", bytes=1, every_ms=1000)
        error = await uncertainty(slow, room.hasty)
        assert type(error.cause) is RequestTimeout
        await reconciled(slow, room.shaken, error)
        await room.faults.add(slow.route, "committed", "drip", bytes=7, every_ms=1)
        assert await (await arranged(kind, room.truth)).send(room.shaken)
        assert await room.faults.hits() == 2

    await asyncio.gather(*map(judge, mutations.ALL))


@pytest.mark.parametrize(
    ("where", "stored"), [("received", False), ("locked", False), ("written", False), ("committed", True)]
)
async def test_a_killed_coordinator_is_started_again_and_the_calls_repeated_once(
    where: str, stored: bool, new_room: NewRoom, coordinator: Coordinator
) -> None:
    """CLI-013, CLI-022, TASK-104, WF-013, EVT-012: kill -9 with every kind of call under way, nobody, then back."""
    rooms = [await new_room() for _ in mutations.ALL]
    made = [await arranged(kind, room.truth) for kind, room in zip(mutations.ALL, rooms, strict=True)]
    pairs = list(zip(made, rooms, strict=True))
    calls = []
    for mutation, room in pairs:
        last = room is rooms[-1]
        await room.faults.add(mutation.route, where, "crash" if last else "hold")
        calls.append(asyncio.create_task(uncertainty(mutation, room.shaken)))
        if not last:
            await room.faults.until_held()
    errors = await asyncio.gather(*calls)
    assert {type(error.cause) for error in errors} == {TransportError}
    assert await asyncio.to_thread(coordinator.ended) < 0
    try:
        for (mutation, room), error in zip(pairs, errors, strict=True):
            with pytest.raises(mutation.uncertain) as refused:  # nobody listens
                await mutation.again(room.shaken, error)
            assert type(refused.value.cause) is TransportError
            assert await mutation.happened() in (stored, None)
    finally:
        await asyncio.to_thread(coordinator.start)
    for (mutation, room), error in zip(pairs, errors, strict=True):
        await mutation.again(room.shaken, error)
        assert mutation.replayed in (stored, None)
        await reconciled(mutation, room.shaken, error)


@CASES
async def test_a_client_that_closes_leaves_the_call_uncertain(
    kind: type[Mutation], truth: AsyncClient, hasty: AsyncClient, shaken: AsyncClient, faults: Faults
) -> None:
    """CLI-022: closing ends a dispatched exchange as a transport failure."""
    mutation = await arranged(kind, truth)
    await faults.add(mutation.route, "committed", "hold")
    call = asyncio.create_task(mutation.send(shaken))
    await faults.until_held()
    await shaken.close()
    with pytest.raises(mutation.uncertain) as raised:
        await call
    assert type(raised.value.cause) is TransportError
    await faults.release()
    await reconciled(mutation, hasty, raised.value)


@CASES
async def test_a_call_without_time_left_sends_nothing(kind: type[Mutation], truth: AsyncClient) -> None:
    """CLI-021, CLI-022: a timeout before dispatch is no uncertainty."""
    mutation = await arranged(kind, truth)
    async with AsyncClient(
        truth.base_url, tenant=truth.scope.tenant_id, namespace=truth.scope.namespace, request_timeout=1e-9
    ) as late:
        with pytest.raises(RequestTimeout) as raised:
            await mutation.send(late)
    assert not raised.value.dispatched
    assert await mutation.happened() in (False, None)
    assert await mutation.send(truth)
    assert await mutation.done_once()


@CASES
async def test_a_program_store_that_cannot_be_reached(
    kind: type[Mutation], truth: AsyncClient, shaken: AsyncClient, faults: Faults
) -> None:
    """TASK-102, TASK-109: a submission waits for nobody and stores nothing; everything else needs no store."""
    mutation = await arranged(kind, truth)
    await faults.add("program.resolve", "received", "fail")
    if mutation.uncertain is not mutations.SubmissionUncertain:
        await mutation.send(shaken)
        assert await faults.hits() == 0
        return
    error = await uncertainty(mutation, shaken)
    assert type(error.cause) is Unavailable
    assert await mutation.happened() is False
    await reconciled(mutation, shaken, error)
