"""At most N program processes, kept warm by package digest, tenant and namespace (WRK-032…042)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import NamedTuple

from protocol3.programs.cache import Pin
from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.process import Launcher, ProgramProcess

_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.25


class ProcessKey(NamedTuple):
    """What a warm process may be reused for (WRK-032)."""

    digest: str
    tenant_id: str
    namespace: str


class ProcessPool:
    """Owns every process until it is certainly gone; starting, busy, idle and ending ones occupy a slot (WRK-034)."""

    def __init__(self, launcher: Launcher, limit: int, *, on_stuck: Callable[[str], None]) -> None:
        self._launcher = launcher
        self._limit = limit
        self._on_stuck = on_stuck
        self._idle: dict[ProgramProcess, ProcessKey] = {}  # the least recently used first
        self._occupied: set[ProgramProcess] = set()
        self._starting = 0
        self._ending: dict[asyncio.Task[None], ProgramProcess] = {}

    @property
    def occupied(self) -> int:
        return len(self._occupied) + self._starting

    def take_idle(self, key: ProcessKey) -> ProgramProcess | None:
        """The most recently used idle process of the key, removed from the idle ones."""
        for process in reversed(self._idle):
            if self._idle[process] == key:
                self._wake(process)
                return process
        return None

    async def spawn(self, pin: Pin) -> ProgramProcess:
        """A new process that is not ready yet. Takes over ``pin``, whatever happens.

        Raises ``capacity`` without a free slot, ``runtime`` or ``io`` when the process cannot be started.
        """
        self._starting += 1
        try:
            await self._make_room()
            process = ProgramProcess(self._launcher, pin)
        except BaseException:
            pin.release()
            raise
        finally:
            self._starting -= 1
        self._occupied.add(process)
        return process

    def give_back(self, process: ProgramProcess, key: ProcessKey) -> None:
        """Keep a healthy process for the next invocation (WRK-035)."""
        self._idle[process] = key
        process.watch_idle(lambda: self._broken(process))

    def retire(self, process: ProgramProcess) -> asyncio.Task[None]:
        """Kill the process now. The task ends when it is certainly gone and its slot free (WRK-041)."""
        process.kill()
        return self._keep(process, self._clean_up(process))

    async def _make_room(self) -> None:
        """Wait until the slot that is already counted as starting is really free (WRK-033)."""
        try:
            async with asyncio.timeout(2 * self._launcher.shutdown_ms / 1000):
                while self.occupied > self._limit:
                    if await self.retire_idle():
                        continue
                    if not self._ending:
                        raise ExecutionFailed("capacity", "every process slot is occupied")
                    await asyncio.wait(self._ending, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise ExecutionFailed("capacity", "the process slots do not become free") from None

    async def retire_idle(self) -> bool:
        """Shut the least recently used idle process down and wait for its end; False when there is none (WRK-042)."""
        if not self._idle:
            return False
        process = next(iter(self._idle))
        self._wake(process)
        task = self._keep(process, self._shut_down(process))
        await asyncio.shield(task)
        return True

    async def close(self) -> None:
        """Retire all idle processes and wait until every process is gone."""
        for process in list(self._idle):
            self._wake(process)
            self._keep(process, self._shut_down(process))
        while self._ending:
            await asyncio.wait(self._ending)

    async def abandon(self) -> None:
        """Kill every process, busy ones too, and wait until they are gone: the end of a run that was interrupted."""
        ending = set(self._ending.values())
        for process in self._occupied - ending:
            if process in self._idle:
                self._wake(process)
            self.retire(process)
        await self.close()

    def discard_all(self) -> None:
        """Last resort of a forced exit: kill, and remove the working directories as far as that goes at once."""
        for process in self._occupied:
            process.kill()
        if self._launcher.orphans is not None:
            self._launcher.orphans.end_all()
        for process in self._occupied:
            process.discard()

    def _wake(self, process: ProgramProcess) -> None:
        del self._idle[process]
        process.end_idle()

    def _broken(self, process: ProgramProcess) -> None:
        if process in self._idle:
            del self._idle[process]
            self.retire(process)

    def _keep(self, process: ProgramProcess, ending: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(ending)
        self._ending[task] = process
        task.add_done_callback(self._ending.pop)
        return task

    async def _shut_down(self, process: ProgramProcess) -> None:
        try:
            await process.shut_down()
        finally:
            await self._clean_up(process)

    async def _clean_up(self, process: ProgramProcess) -> None:
        """Until it is done: slot, pin and directory stay owned while anything is left (WRK-041)."""
        pause, told = _FIRST_PAUSE_S, False
        while True:
            try:
                await process.clean_up()
                break
            except ExecutionFailed as error:
                process.trouble = error
                if pause >= _LONGEST_PAUSE_S and not told:
                    told = True
                    self._on_stuck(f"process {process.pid} cannot be cleaned up yet: {error.message}")
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE_S)
        self._occupied.discard(process)
