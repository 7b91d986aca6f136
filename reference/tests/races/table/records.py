"""Local results and forks of an attempt against its end and its successor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from protocol3_conformance.roles.activation import Activation
from protocol3_conformance.roles.worker import Worker
from races.arena import RaceLab
from races.contest import Contest, Side, race
from races.table.ends import begun

RETRIED = {"max_attempts": 3, "retry_delay_ms": 0}
#: Past the lease of an attempt that nobody renews, and past its authority.
PAST_LEASES = 3_600_000


async def recorded(lab: RaceLab) -> tuple[Worker, Activation]:
    """A worker and an activation whose attempt has committed the result `fx`."""
    worker, first = await begun(lab, retry_policy=RETRIED)
    assert (await first.local("fx", 1)).accepted()["already_accepted"] is False
    return worker, first


async def resend_against(lab: RaceLab, first: Activation, name: str, end: Callable[[], Awaitable[Any]]) -> Contest:
    """The owner's repetition succeeds whatever became of it."""

    async def judge(again: Any, _: Any) -> str:
        assert again.accepted()["already_accepted"] is True
        await lab.nothing_owed()
        assert (await first.local("fx", 1)).accepted()["already_accepted"] is True
        (await first.local("fx", 2)).refused("conflict")
        (await first.local("late", 1)).refused("ownership_lost")
        return "replayed"

    return Contest(
        sides=(Side(name="resend", act=lambda: first.local("fx", 1)), Side(name=name, act=end)),
        judge=judge,
        outcomes=("replayed", "replayed"),
    )


@race("RACE-22")
async def resend_against_cancellation(lab: RaceLab) -> Contest:
    """RACE-22, LOC-005."""
    _, first = await recorded(lab)
    return await resend_against(lab, first, "cancel", lambda: lab.client.cancel_workflow(first.workflow_id))


@race("RACE-22")
async def resend_against_completion(lab: RaceLab) -> Contest:
    """RACE-22, LOC-005."""
    _, first = await recorded(lab)
    return await resend_against(lab, first, "complete", first.complete)


@race("RACE-22")
async def resend_against_expiry(lab: RaceLab) -> Contest:
    """RACE-22, LOC-005."""
    _, first = await recorded(lab)
    return await resend_against(lab, first, "expiry", lambda: lab.advance(PAST_LEASES))


@race("RACE-23")
async def resend_of_the_next_attempt_against_its_dispatch(lab: RaceLab) -> Contest:
    """RACE-23, LOC-007: refused before its dispatch renewal, replayed after it."""
    worker, first = await recorded(lab)
    await first.break_down()
    claim = await worker.claim()

    async def judge(sent: Any, _: Any) -> str:
        assert (await claim.local("fx", 1)).accepted()["already_accepted"] is True
        if sent.code is None:
            assert sent.value["already_accepted"] is True
            return "dispatch"
        sent.refused("ownership_lost")
        return "resend"

    return Contest(
        sides=(
            Side(name="resend", act=lambda: claim.local("fx", 1), locks=False),
            Side(name="dispatch", act=claim.dispatch),
        ),
        row=("task", claim.task_id),
        judge=judge,
    )


@race("RACE-24")
async def new_record_against_expiry(lab: RaceLab) -> Contest:
    """RACE-24, LOC-004: recorded once, by the old attempt in time or by the new one."""
    _, first = await begun(lab, retry_policy=RETRIED)

    async def judge(sent: Any, _: Any) -> str:
        again = await (await lab.worker()).activation()  # the session is over as well
        assert again.task_id == first.task_id
        assert (await again.local("fx", 1)).accepted()["already_accepted"] is (sent.code is None)
        (await first.local("other", 1)).refused("ownership_lost")
        if sent.code is None:
            return "record"
        sent.refused("ownership_lost")
        return "expiry"

    return Contest(
        sides=(
            Side(name="record", act=lambda: first.local("fx", 1)),
            Side(name="expiry", act=lambda: lab.advance(PAST_LEASES)),
        ),
        row=("clock", lab.scope["namespace"]),
        judge=judge,
    )


@race("RACE-25")
async def changed_record_against_the_next_attempt(lab: RaceLab) -> Contest:
    """RACE-25, LOC-003: a conflict before and after a new attempt began, never lost ownership."""
    worker, first = await recorded(lab)
    await first.break_down()

    async def judge(sent: Any, claim: Any) -> str:
        sent.refused("conflict")
        (await first.local("fx", 2)).refused("conflict")
        assert (await claim.local("fx", 1)).accepted()["already_accepted"] is True
        return "conflict"

    return Contest(
        sides=(
            Side(name="record", act=lambda: first.local("fx", 2)),
            Side(name="next attempt", act=worker.running),
        ),
        judge=judge,
        outcomes=("conflict", "conflict"),
    )


@race("RACE-26")
async def fork_against_expiry(lab: RaceLab) -> Contest:
    """RACE-26, FRK-019: one set of branches, of the old attempt in time or of the new one."""
    _, first = await begun(lab, retry_policy=RETRIED)
    fork = [first.branch(key, queue=lab.child_queue) for key in "ab"]

    async def judge(sent: Any, _: Any) -> str:
        again = await (await lab.worker()).activation()
        assert again.task_id == first.task_id
        assert (await again.fork("f", fork)).accepted()["already_accepted"] is (sent.code is None)
        branches = await lab.worker(queue=lab.child_queue)
        for _ in fork:
            await (await branches.activation()).complete()
        await branches.nothing()
        await again.suspend("a", "b")
        joined = await (await lab.worker()).activation()
        assert set(joined.frozen["inputs"]) == {"a", "b"}
        if sent.code is None:
            return "fork"
        sent.refused("ownership_lost")
        return "expiry"

    return Contest(
        sides=(
            Side(name="fork", act=lambda: first.fork("f", fork)),
            Side(name="expiry", act=lambda: lab.advance(PAST_LEASES)),
        ),
        row=("clock", lab.scope["namespace"]),
        judge=judge,
    )
