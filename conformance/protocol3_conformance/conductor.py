"""Runs the scenarios side by side on one loop in a thread; pytest only waits for each result.

One test at a time would make the suite as slow as the sum of its waits. pytest keeps its reports, selection and `-x`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Collection, Coroutine, Iterable
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any

from protocol3_conformance.crashes.outage import Outage
from protocol3_conformance.lab import Lab
from protocol3_conformance.labs import open_lab
from protocol3_conformance.scenario import Scenario
from protocol3_conformance.target import Target
from protocol3_conformance.wire.faults import NotDetermined, TransportFault
from protocol3_conformance.wire.transcript import Transcript

ATTEMPTS = 3
"""Of a check that is known to be flaky."""


@dataclass(slots=True)
class Run:
    """What became of one scenario: `error` is None when it held.

    One that is known to be flaky may have had several `attempts`; the first failure is kept.
    `flaky`: the last one held.
    """

    scenario: Scenario
    transcript: Transcript = field(default_factory=Transcript)
    error: BaseException | None = None
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    attempts: int = 1
    flaky: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Counts of scenarios; those called slow wait in real time.

    `dying` are left of those in which the target dies: they begin when all others have ended.
    """

    total: int
    slow: int
    ended: int
    ended_slow: int
    failed: int
    dying: int = 0


class Conductor:
    """Start once, ask for every result, stop. The loop lives in a daemon thread."""

    def __init__(self, target: Target, *, flaky: Collection[str] = ()) -> None:
        """`flaky`: IDs of checks that have further attempts when they fail."""
        self._target = target
        self._flaky = flaky
        # Each holds a few connections. Slow ones wait most of the time and are not counted.
        self._active = asyncio.Semaphore(target.concurrency)
        self._silent = 0
        self._slow = 0
        self._dying: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="conductor", daemon=True)
        self._runs: dict[str, Future[Run]] = {}

    def start(self, scenarios: Iterable[Scenario]) -> None:
        """Begin all of them, slow ones first, else in the order given. More may be begun later.

        Those in which the target dies begin when all others have ended, together: one death serves them all.
        """
        if not self._thread.is_alive():
            self._thread.start()
        chosen = sorted(scenarios, key=lambda one: not one.slow)
        deadly = [one for one in chosen if one.deadly and self._target.power]
        for scenario in chosen:
            self._slow += scenario.slow
            if scenario not in deadly:
                self._begin(scenario, self._conduct(scenario))
        if deadly:
            self._dying = {one.check_id for one in deadly}
            before = list(self._runs.values())
            gate = asyncio.run_coroutine_threadsafe(self._all_ended(before), self._loop)
            outage = Outage(self._target, [one.check_id for one in deadly])
            for scenario in deadly:
                self._begin(scenario, self._conduct_last(scenario, gate, outage))

    def _begin(self, scenario: Scenario, conducting: Coroutine[Any, Any, Run]) -> None:
        self._runs[scenario.check_id] = asyncio.run_coroutine_threadsafe(conducting, self._loop)

    @staticmethod
    async def _all_ended(runs: list[Future[Run]]) -> None:
        await asyncio.gather(*map(asyncio.wrap_future, runs), return_exceptions=True)

    async def _conduct_last(self, scenario: Scenario, gate: Future[None], outage: Outage) -> Run:
        """All at once, for they wait for each other."""
        await asyncio.shield(asyncio.wrap_future(gate))
        try:
            return await self._conduct(scenario, outage)
        finally:
            await outage.leave(scenario.check_id)

    def ended(self) -> list[Run]:
        """The scenarios that have ended, in the order in which they began."""
        return [run.result() for run in self._runs.values() if run.done()]

    def progress(self) -> Progress:
        """How far the scenarios are."""
        ended = self.ended()
        failed = sum(isinstance(run.error, AssertionError) for run in ended)
        slow = sum(run.scenario.slow for run in ended)
        dying = len(self._dying - {run.scenario.check_id for run in ended})
        total = len(self._runs)
        return Progress(total=total, slow=self._slow, ended=len(ended), ended_slow=slow, failed=failed, dying=dying)

    def wait(self, seconds: float) -> bool:
        """Block until all have ended, or for this long. Whether all have ended."""
        return not wait(self._runs.values(), timeout=seconds).not_done

    def result(self, check_id: str) -> Run:
        """Block until this scenario has ended."""
        return self._runs[check_id].result()

    def stop(self) -> None:
        """Cancel what still runs and end the thread."""
        if not self._thread.is_alive():
            self._loop.close()
            return
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _conduct(self, scenario: Scenario, outage: Outage | None = None) -> Run:
        async with contextlib.nullcontext() if scenario.slow or outage else self._active:
            allowed = 1 if outage else self._allowed(scenario)  # the target dies but once
            first = again = await self._attempt(scenario, self._target, outage)
            while isinstance(again.error, AssertionError) and first.attempts < allowed:
                again = await self._attempt(scenario, self._target.renamed())
                first.attempts += 1
                first.flaky = again.error is None
            return first

    def _allowed(self, scenario: Scenario) -> int:
        return ATTEMPTS if scenario.check_id in self._flaky else 1

    async def _attempt(self, scenario: Scenario, target: Target, outage: Outage | None = None) -> Run:
        run = Run(scenario)
        began = time.monotonic()
        try:
            self._refuse_a_silent_target()
            await self._perform(run, target, outage)
        except (asyncio.CancelledError, CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - the main thread raises it again
            run.error = error
        run.seconds = time.monotonic() - began
        self._listen(run)
        return run

    def _listen(self, run: Run) -> None:
        """Count the scenarios in a row that got no reply at all."""
        if any(exchange.reply for exchange in run.transcript.exchanges):
            self._silent = 0
        elif isinstance(run.error, TransportFault):
            self._silent += 1

    def _refuse_a_silent_target(self) -> None:
        """The end of a run in bounded time: without this, every further scenario would wait for its first reply."""
        if self._silent >= self._target.concurrency:
            raise NotDetermined(f"the target has not answered {self._silent} checks in a row; is it still running?")

    async def _perform(self, run: Run, target: Target, outage: Outage | None) -> None:
        limit = target.patience.scenario
        async with open_lab(run.scenario, target, outage) as lab:
            run.transcript = lab.transcript
            if isinstance(lab, Lab):
                run.notes = lab.notes
            try:
                async with asyncio.timeout(limit):
                    await run.scenario.body(lab)
            except TimeoutError:
                raise TransportFault(f"the scenario did not end within {limit:g} s") from None
