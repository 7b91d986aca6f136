"""From a descriptor to a verified package directory, through the cache (WRK-045…048)."""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from protocol3.contract.models.common import Descriptor
from protocol3.programs.cache import PackageCache, Pin
from protocol3.programs.errors import ProgramError
from protocol3.programs.manifest import host_platform, require_platform
from protocol3.programs.stores import ProgramStore


class Preparer:
    """Prepares packages, one at a time per digest. Downloads that nobody waits for any more still run to their end."""

    def __init__(
        self,
        cache: PackageCache,
        store: ProgramStore,
        *,
        fetch_timeout_ms: int,
        make_room: Callable[[], Awaitable[bool]],
    ) -> None:
        """``make_room`` retires one idle process and says whether there was one (WRK-047)."""
        self._cache = cache
        self._store = store
        self._fetch_timeout_s = fetch_timeout_ms / 1000
        self._make_room = make_room
        self._host = host_platform()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def prepare(self, descriptor: Descriptor, lingering: list[asyncio.Task[None]]) -> Pin:
        """The pinned package. Raises :class:`ProgramError`, ``timed_out`` past the fetch timeout (WRK-046).

        Work that goes on after a timeout or an interruption is added to ``lingering``.
        """
        waited_for = True
        load = asyncio.create_task(self._load(descriptor, lambda: waited_for))
        try:
            async with asyncio.timeout(self._fetch_timeout_s):
                pin = await asyncio.shield(load)
        except BaseException as failure:
            waited_for = False
            if not load.done() or not isinstance(failure, ProgramError):
                lingering.append(asyncio.create_task(_give_up(load)))
            if isinstance(failure, TimeoutError):
                raise ProgramError("timed_out", "the package was not there in time") from None
            raise
        try:
            require_platform(pin.manifest, self._host)
        except ProgramError:
            pin.release()
            raise
        return pin

    async def _load(self, descriptor: Descriptor, wanted: Callable[[], bool]) -> Pin:
        turn = self._turns.setdefault(descriptor.digest, asyncio.Lock())
        async with turn:
            pin = await asyncio.to_thread(self._cache.lookup, descriptor)
            if pin is not None:
                return pin
            if not wanted():
                raise ProgramError("unavailable", "the package is not wanted any more")
            return await self._insert(descriptor, await self._store.fetch(descriptor))

    async def _insert(self, descriptor: Descriptor, archive: bytes) -> Pin:
        while True:
            try:
                return await asyncio.to_thread(self._cache.insert, descriptor, archive)
            except ProgramError as error:
                if error.kind != "capacity" or not await self._make_room():
                    raise


async def _give_up(load: asyncio.Task[Pin]) -> None:
    try:
        (await load).release()
    except ProgramError:
        return
