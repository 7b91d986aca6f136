"""From descriptor to package: stores, cache, platform, time (WRK-013, WRK-045…048, WRK-056, PKG-075)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from protocol3.programs.archive import verify
from protocol3.programs.cache_entry import entry_bytes
from protocol3.programs.manifest import host_platform
from protocol3.programs.stores import FilesystemStore

Start = Callable[..., Awaitable[Any]]
Publish = Callable[..., Any]


def ended(report: dict[str, Any]) -> tuple[str, str, bool]:
    return report["error"]["kind"], report["phase"], report["execution_may_have_started"]


def blob(tmp_path: Path, program: Any) -> Path:
    return tmp_path / "store/blobs" / f"{program.descriptor.digest[7:]}.zip"


async def test_labels_are_not_resolved_again(coordinator: Any, start: Start, publish: Publish, tmp_path: Path) -> None:
    """WRK-013: the descriptor of the assignment decides."""
    program = publish()
    (tmp_path / "store/programs/bench-1/1/descriptor.json").unlink()
    attempt = coordinator.assign(program, {"do": "echo"})
    await start()
    assert (await attempt.end())["report"]["kind"] == "completed"


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda path: path.unlink(), "not_found"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "integrity"),
        (lambda path: path.write_bytes(path.read_bytes() + b"x"), "invalid_input"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"), "integrity"),
    ],
)
async def test_a_package_that_cannot_be_had(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path, damage: Callable[[Path], Any], kind: str
) -> None:
    """WRK-056: and the worker goes on."""
    program, other = publish(), publish("def handle(event):\n    return 2\n")
    path = blob(tmp_path, program)
    path.chmod(0o644)
    damage(path)
    attempt, after = coordinator.assign(program), coordinator.assign(other)
    await start()
    await attempt.end()
    assert ended(attempt.report) == (kind, "preparation", False)
    assert (await after.end())["report"]["report"]["outcome"]["output"] == 2


async def test_a_package_for_another_platform(coordinator: Any, start: Start, publish: Publish) -> None:
    """WRK-048."""
    other = "macos" if host_platform().os == "linux" else "linux"
    program = publish(platform={"os": other, "arch": host_platform().arch})
    attempt = coordinator.assign(program)
    await start()
    await attempt.end()
    assert ended(attempt.report) == ("incompatible", "preparation", False)


async def test_a_cached_package_needs_no_store(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path
) -> None:
    """WRK-045."""
    program = publish()
    first = coordinator.assign(program, {"do": "exit"})
    await start()
    await first.end()
    blob(tmp_path, program).unlink()
    second = coordinator.assign(program, {"do": "echo"})
    assert (await second.end())["report"]["kind"] == "completed"


@pytest.mark.parametrize("warm", [True, False])
async def test_a_damaged_cache_entry_is_integrity_from_then_on(
    coordinator: Any, start: Start, publish: Publish, warm: bool
) -> None:
    """PKG-075: also where a warm process could have served; never downloaded again."""
    program = publish()
    first = coordinator.assign(program, {"do": "echo" if warm else "exit"})
    bench = await start()
    await first.end()
    file = bench.settings.cache / program.descriptor.digest[7:] / "content/program.py"
    damage(file)
    for _ in range(2):
        attempt = coordinator.assign(program, {"do": "echo"})
        await attempt.end()
        assert ended(attempt.report) == ("integrity", "preparation", False)


def damage(file: Path) -> None:
    file.chmod(0o644)
    file.write_text("def handle(event):\n    return 'other'\n")
    file.chmod(0o444)


async def test_one_download_for_consumers_that_want_the_same(
    coordinator: Any, start: Start, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WRK-045."""
    fetched: list[str] = []
    real = FilesystemStore.fetch

    async def counted(self: FilesystemStore, descriptor: Any) -> bytes:
        fetched.append(descriptor.digest)
        return await real(self, descriptor)

    monkeypatch.setattr(FilesystemStore, "fetch", counted)
    program = publish()
    attempts = [coordinator.assign(program, {"do": "echo"}) for _ in range(4)]
    await start(concurrency=4)
    for attempt in attempts:
        assert (await attempt.end())["report"]["kind"] == "completed"
    assert fetched == [program.descriptor.digest]


@pytest.mark.parametrize("cause", ["fetch timeout", "cancellation"])
async def test_a_slow_download_holds_the_slot_until_it_ends(
    coordinator: Any, start: Start, publish: Publish, quick: Any, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    """WRK-046, WRK-058: the attempt is settled at once; the consumer asks for work only after the download."""
    release, begun = asyncio.Event(), asyncio.Event()
    real = FilesystemStore.fetch

    async def slow(self: FilesystemStore, descriptor: Any) -> bytes:
        begun.set()
        await release.wait()
        return await real(self, descriptor)

    monkeypatch.setattr(FilesystemStore, "fetch", slow)
    program = publish()
    attempt, after = coordinator.assign(program, {"do": "echo"}), coordinator.assign(program, {"do": "echo"})
    timeout = 1000 if cause == "fetch timeout" else 20_000  # the second download has to be quicker
    bench = await start(pacing=quick(fetch_timeout_ms=timeout, renew_interval_ms=20))
    await begun.wait()
    if cause == "cancellation":
        coordinator.cancelled.add(attempt.owner["attempt_id"])
    command = await attempt.end()
    kind = "timed_out" if cause == "fetch timeout" else "cancelled"
    assert ended(attempt.report) == (kind, "preparation", False)
    assert command["quiescence"] == "confirmed"
    await bench.until(lambda: bench.worker.delivery(finished=False).settled_attempts == 1)
    assert len(coordinator.seen("/v1/acquisitions")) == 1
    release.set()
    assert (await after.end())["report"]["kind"] == "completed"


async def test_a_full_cache_retires_idle_processes(
    coordinator: Any, start: Start, publish: Publish, tmp_path: Path, mark: Path
) -> None:
    """WRK-047: one by one; with none left the attempt fails."""
    one, two = publish(), publish()
    quota = max(entry_bytes(verify(blob(tmp_path, program).read_bytes())) for program in (one, two))
    first = coordinator.assign(one, {"do": "echo"})
    bench = await start(concurrency=2, cache_quota=quota)
    await first.end()
    second = coordinator.assign(two, {"do": "sleep", "mark": str(mark)})
    await bench.until(lambda: exists(mark))
    third = coordinator.assign(one, {"do": "echo"})
    await third.end()
    assert first.settlements[-1]["report"]["kind"] == "completed"
    assert ended(third.report) == ("capacity", "preparation", False)
    await bench.stop()
    assert ended(second.report) == ("cancelled", "execution", True)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


def exists(path: Path) -> bool:
    return path.exists()
