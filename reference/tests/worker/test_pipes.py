"""Lines and frames on pipes (RUN-021, RUN-022, RUN-029)."""

import asyncio
import os
from collections.abc import Iterator

import pytest

from protocol3.worker.failures import ExecutionFailed
from protocol3.worker.pipes import FrameWriter, LineReader


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for end in (reading, writing):
        try:
            os.close(end)
        except OSError:
            continue


async def test_lines_come_as_they_were_written(pipe: tuple[int, int]) -> None:
    """RUN-021: several in one read, one in several; then the end of the stream."""
    reader = LineReader(pipe[0], 100)
    os.write(pipe[1], b"one\ntwo\nth")
    assert [await reader.line(), await reader.line()] == [b"one\n", b"two\n"]
    asyncio.get_running_loop().call_soon(os.write, pipe[1], b"ree\nrest")
    assert await reader.line() == b"three\n"
    os.close(pipe[1])
    assert await reader.line() is None
    assert await reader.line() is None


@pytest.mark.parametrize(("size", "fits"), [(99, True), (100, False)])
async def test_the_limit_counts_the_line_end(pipe: tuple[int, int], size: int, fits: bool) -> None:
    """RUN-021: exactly the limit passes, one byte more is refused, also before its end has come."""
    reader = LineReader(pipe[0], 100)
    os.write(pipe[1], b"x" * size + b"\n")
    if fits:
        assert await reader.line() == b"x" * size + b"\n"
        os.write(pipe[1], b"y" * 100)
    with pytest.raises(ExecutionFailed) as caught:
        await reader.line()
    assert caught.value.kind == "protocol"
    reader.close()


async def test_a_cancelled_wait_loses_nothing(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0], 100)
    os.write(pipe[1], b"fir")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.line(), 0.01)
    os.write(pipe[1], b"st\nsecond\n")
    assert [await reader.line(), await reader.line()] == [b"first\n", b"second\n"]
    reader.close()


async def test_a_flood_that_nobody_reads_blocks_its_writer(pipe: tuple[int, int]) -> None:
    """What waits here is bounded; asking again takes up where it stopped."""
    reader = LineReader(pipe[0], 1_000)
    os.set_blocking(pipe[1], False)
    written = 0
    try:
        while written < 10_000_000:
            written += os.write(pipe[1], b"flood\n" * 1_000)
            await asyncio.sleep(0)
    except BlockingIOError:
        pass
    assert written < 1_000_000
    lines = 0
    os.close(pipe[1])
    while await reader.line():
        lines += 1
    assert lines == written // 6


async def test_an_idle_stream_tells_what_arrives(pipe: tuple[int, int]) -> None:
    """WRK-037."""
    reader = LineReader(pipe[0], 100)
    arrived = asyncio.Event()
    reader.notify(arrived.set)
    os.write(pipe[1], b"a\nb\nc")
    await arrived.wait()
    assert list(reader.lines_now()) == [b"a\n", b"b\n"]
    arrived.clear()
    os.close(pipe[1])
    await arrived.wait()
    with pytest.raises(ExecutionFailed):
        list(reader.lines_now())


async def test_what_was_written_before_the_end_still_counts(pipe: tuple[int, int]) -> None:
    """WRK-059: a program that has ended is the end of its stream, also while somebody else holds the pipe."""
    reader = LineReader(pipe[0], 100)
    os.write(pipe[1], b"result\nrest")
    reader.finish()
    os.write(pipe[1], b" of another process\n")
    assert await reader.line() == b"result\n"
    assert await reader.line() is None


async def test_the_end_wakes_who_waits(pipe: tuple[int, int]) -> None:
    """WRK-059."""
    reader, writer = LineReader(pipe[0], 100), FrameWriter(pipe[1])
    line = asyncio.create_task(reader.line())
    await asyncio.sleep(0)
    reader.finish()
    assert await line is None
    frame = asyncio.create_task(writer.write(b"x" * 1_000_000))
    await asyncio.sleep(0)
    writer.finish()
    assert await frame is False


async def test_the_end_is_told_to_an_idle_watcher(pipe: tuple[int, int]) -> None:
    """WRK-037."""
    reader = LineReader(pipe[0], 100)
    told: list[bool] = []
    reader.notify(lambda: told.append(True))
    reader.finish()
    reader.finish()
    assert told == [True]
    with pytest.raises(ExecutionFailed):
        list(reader.lines_now())


async def test_large_frames_are_written_whole(pipe: tuple[int, int]) -> None:
    """RUN-022: also when the pipe takes them in pieces; a reader that is gone is noticed."""
    frame = os.urandom(1_000_000).replace(b"\n", b"") + b"\n"
    reader, writer = LineReader(pipe[0], 2_000_000), FrameWriter(pipe[1])
    written, line = await asyncio.gather(writer.write(frame), reader.line())
    assert (written, line) == (True, frame)
    reader.close()
    os.close(pipe[0])
    assert await writer.write(b"x\n") is False
