"""When the renewals of an attempt are sent (WRK-015, WRK-024, WRK-028, WRK-031)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from protocol3.contract.strict_json import decode
from protocol3.worker.admission import Admission
from protocol3.worker.authority import assigned
from protocol3.worker.clock import now_ms
from protocol3.worker.control import AttemptControl
from protocol3.worker.renewals import Renewals
from protocol3.worker.settings import Pacing
from protocol3.worker.transport import Refused

from .test_authority import OWNER, authority

PATIENCE_S = 20.0


class Answering:
    """A coordinator that answers each renewal with what is next in ``outcomes``, then waits for ever."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.intents: list[str] = []
        self.cancelled = False

    async def post(self, path: str, body: bytes) -> Any:
        command: Any = decode(body)
        self.intents.append(command["intent"])
        if not self.outcomes:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return authority(renew_sequence=command["sequence"], dispatch_allowed=outcome).to_json()


class Scene:
    def __init__(self, *outcomes: Any, interval_ms: int = 1) -> None:
        self.coordinator = Answering(*outcomes)
        self.said: list[str] = []
        diagnostics: Any = SimpleNamespace(say=self.said.append)
        self.admission = Admission(diagnostics)
        self.control = AttemptControl(assigned(authority(renew_sequence=0, dispatch_allowed=False), now_ms(), now_ms()))
        assignment: Any = SimpleNamespace(
            lease=SimpleNamespace(owner=OWNER), authority=SimpleNamespace(renew_sequence=0)
        )
        coordinator: Any = self.coordinator
        pacing = Pacing(renew_interval_ms=interval_ms)
        self.renewals = Renewals(coordinator, assignment, self.control, self.admission, pacing)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.coordinator.intents) < count:
                await asyncio.sleep(0.001)


async def test_one_follows_the_other_until_the_attempt_is_resolved() -> None:
    """WRK-024, WRK-028: and one that is under way then ends."""
    scene = Scene(True, True)
    async with scene.renewals:
        await scene.control.take_permission()
        await scene.until(3)
        assert scene.control.stop_reason is None
    assert scene.coordinator.cancelled
    assert scene.coordinator.intents == ["dispatch", "keep_alive", "keep_alive"]
    scene.control.close()


@pytest.mark.parametrize("turns", range(5))
async def test_none_follows_an_attempt_that_is_resolved(turns: int) -> None:
    """WRK-028: however far the first one has come."""
    scene = Scene(True)
    async with scene.renewals:
        for _ in range(turns):
            await asyncio.sleep(0)
    sent = len(scene.coordinator.intents)
    await asyncio.sleep(0.02)
    assert len(scene.coordinator.intents) == sent <= 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
    scene.control.close()


@pytest.mark.parametrize("outcome", [Refused(SimpleNamespace(code="not_found")), LookupError("no")])  # type: ignore[arg-type]
async def test_without_a_monitor_there_is_no_user_work(outcome: Exception) -> None:
    """WRK-027, WRK-031."""
    scene = Scene(True, outcome)
    async with scene.renewals:
        await scene.until(2)
        async with asyncio.timeout(PATIENCE_S):
            while scene.control.stop_reason is None:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
    assert len(scene.coordinator.intents) == 2
    assert (scene.admission.failure is None) == isinstance(outcome, Refused)
    scene.control.close()
