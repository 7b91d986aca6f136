"""Reading a program store: ``open_store(location)`` gives a filesystem or an HTTP(S) store (PKG-035…040)."""

import asyncio
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from protocol3.contract import limits
from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.errors import ProgramError
from protocol3.programs.fetching import check_fetchable, check_fetched
from protocol3.programs.layout import blob_path, decode_descriptor, descriptor_path
from protocol3.programs.remembered import Remembered

READERS: Final = 8
"""Threads of a filesystem store, its own: one that stalls (a network mount) must not hold other work in threads."""


class ProgramStore(Protocol):
    """Published programs. Both methods raise :class:`ProgramError`."""

    async def resolve(self, program: ProgramRef) -> Descriptor:
        """The descriptor of exactly this id and version; ``not_found`` when it is not published."""
        ...

    async def fetch(self, descriptor: Descriptor) -> bytes:
        """Exactly ``descriptor.size`` bytes. Whether they are the right ones is for the archive verification."""
        ...

    async def aclose(self) -> None:
        """Give up connections. The store is not used afterwards."""
        ...


def open_store(location: str) -> ProgramStore:
    """A store by directory or URL. Raises ``invalid_input`` when the location cannot be one."""
    if "://" not in location:
        return FilesystemStore(Path(location))
    from protocol3.programs.http_store import HttpStore  # needs aiohttp, which a filesystem store does not

    return HttpStore(location)


class FilesystemStore:
    """A store directory. It must exist (PKG-035)."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise ProgramError(
                "invalid_input", f"the program store {root} is not a directory; publish a program to create it"
            )
        self._root = root.resolve()
        self._remembered = Remembered(self._root)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="program-store")

    async def resolve(self, program: ProgramRef) -> Descriptor:
        name = descriptor_path(program)
        identity = self._remembered.identity(name)
        known = self._remembered.find(program, identity)
        if known is not None:
            return known
        descriptor = decode_descriptor(await self._in_thread(name, limits.DESCRIPTOR_BYTES), program)
        self._remembered.learn(program, identity, descriptor)
        return descriptor

    async def fetch(self, descriptor: Descriptor) -> bytes:
        check_fetchable(descriptor)
        content = await self._in_thread(blob_path(descriptor), descriptor.size)
        return check_fetched(content, descriptor)

    async def aclose(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, name: PurePosixPath, limit: int) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, name, limit)

    def _read(self, name: PurePosixPath, limit: int) -> bytes:
        """At most ``limit + 1`` bytes of a regular file below the root; never blocks on a pipe (PKG-037)."""
        try:
            path = (self._root / name).resolve(strict=True)
            if not path.is_relative_to(self._root):
                raise ProgramError("integrity", f"{name} lies outside the program store")
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ProgramError("integrity", f"{name} is not a regular file")
                return _read_up_to(descriptor, limit + 1)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise ProgramError("not_found", f"the program store has no {name}") from None
        except (OSError, RuntimeError) as error:
            raise ProgramError("io", f"cannot read {name} of the program store: {error}") from None


def _read_up_to(descriptor: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count and (part := os.read(descriptor, min(count, 1 << 20))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
