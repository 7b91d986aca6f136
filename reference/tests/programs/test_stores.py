"""Reading program stores: directories and HTTP(S) (PKG-034…040)."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path, PurePosixPath

import pytest
from aiohttp import web

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.errors import ProgramError
from protocol3.programs.http_store import HttpStore, check_store_url
from protocol3.programs.publish import publish_directory
from protocol3.programs.stores import FilesystemStore, ProgramStore, open_store

Source = Callable[..., Path]
REPORT = ProgramRef(id="report", version="1.0.0")


@pytest.fixture
def store(source: Source, tmp_path: Path) -> Path:
    publish_directory(source(), tmp_path / "store")
    return tmp_path / "store"


async def kind_of_resolve(store: ProgramStore, program: ProgramRef = REPORT) -> str:
    with pytest.raises(ProgramError) as caught:
        await store.resolve(program)
    return caught.value.kind


async def kind_of_fetch(store: ProgramStore, descriptor: Descriptor) -> str:
    with pytest.raises(ProgramError) as caught:
        await store.fetch(descriptor)
    return caught.value.kind


def files_of(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def blob_of(store: Path) -> Path:
    return next((store / "blobs").iterdir())


async def test_a_published_program_is_resolved_and_fetched(store: Path) -> None:
    reader = open_store(str(store))
    descriptor = await reader.resolve(REPORT)
    assert descriptor.program == REPORT
    assert await reader.fetch(descriptor) == blob_of(store).read_bytes()
    await reader.aclose()


async def test_a_directory_that_stalls_holds_no_other_thread(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More reads than there are threads stand still; other work in threads goes on, and so do the reads afterwards."""
    answers = threading.Event()
    reader = FilesystemStore(store)
    read = reader._read

    def stalled(name: PurePosixPath, limit: int) -> bytes:
        answers.wait(20)
        return read(name, limit)

    monkeypatch.setattr(reader, "_read", stalled)
    resolving = [asyncio.create_task(reader.resolve(REPORT)) for _ in range(64)]
    await asyncio.sleep(0)  # all of them have asked
    async with asyncio.timeout(10):
        assert await asyncio.to_thread(lambda: "done") == "done"
    answers.set()
    assert {descriptor.program for descriptor in await asyncio.gather(*resolving)} == {REPORT}
    await reader.aclose()


def test_the_root_must_be_a_directory(tmp_path: Path) -> None:
    """PKG-035."""
    for path in (tmp_path / "absent", Path(__file__)):
        with pytest.raises(ProgramError) as caught:
            open_store(str(path))
        assert caught.value.kind == "invalid_input"


async def test_only_the_exact_program_is_resolved(store: Path) -> None:
    """PKG-036."""
    reader = open_store(str(store))
    assert await kind_of_resolve(reader, ProgramRef(id="report", version="1.0.1")) == "not_found"
    assert await kind_of_resolve(reader, ProgramRef(id="other", version="1.0.0")) == "not_found"
    (store / "programs/other").symlink_to("report")
    assert await kind_of_resolve(reader, ProgramRef(id="other", version="1.0.0")) == "integrity"


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", "integrity"),
        (b"{", "integrity"),
        (b"[]", "integrity"),
        (b" " * 17_000, "invalid_input"),
    ],
)
async def test_damaged_descriptors(store: Path, raw: bytes, kind: str) -> None:
    """PKG-029, PKG-036."""
    path = store / "programs/report/1.0.0/descriptor.json"
    path.unlink()
    path.write_bytes(raw)
    assert await kind_of_resolve(open_store(str(store))) == kind


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"digest": "sha256:" + "A" * 64}, "invalid_input"),
        ({"digest": "0" * 64}, "invalid_input"),
        ({"size": 0}, "integrity"),
        ({"size": 1.0}, "integrity"),
        ({"extra": 1}, "integrity"),
        ({"program": {"id": "report", "version": "2"}}, "integrity"),
    ],
)
async def test_descriptor_members(store: Path, change: dict[str, object], kind: str) -> None:
    """PKG-029…031, PKG-036."""
    path = store / "programs/report/1.0.0/descriptor.json"
    document = {**json.loads(path.read_bytes()), **change}
    path.unlink()
    path.write_bytes(json.dumps(document).encode())
    assert await kind_of_resolve(open_store(str(store))) == kind


async def test_links_outside_pipes_and_directories_are_integrity(store: Path, tmp_path: Path) -> None:
    """PKG-037: links inside the root are fine, and nothing blocks on a pipe."""
    reader = open_store(str(store))
    descriptor = await reader.resolve(REPORT)
    blob = blob_of(store)
    content = blob.read_bytes()
    (tmp_path / "outside").write_bytes(content)
    inside = store / "blobs/inside"
    inside.write_bytes(content)
    for make, expected in (
        (lambda: blob.symlink_to(tmp_path / "outside"), "integrity"),
        (lambda: os.mkfifo(blob), "integrity"),
        (blob.mkdir, "integrity"),
        (lambda: blob.symlink_to(inside), None),
    ):
        blob.rmdir() if blob.is_dir() else blob.unlink()
        make()
        if expected is None:
            assert await reader.fetch(descriptor) == content
        else:
            assert await kind_of_fetch(reader, descriptor) == expected
    blob.unlink()
    assert await kind_of_fetch(reader, descriptor) == "not_found"


async def test_a_fetch_returns_exactly_the_size(store: Path) -> None:
    """PKG-038, PKG-023."""
    reader = open_store(str(store))
    right = await reader.resolve(REPORT)

    def sized(size: int) -> Descriptor:
        return Descriptor(program=right.program, digest=right.digest, size=size)

    assert await kind_of_fetch(reader, sized(right.size + 1)) == "integrity"
    assert await kind_of_fetch(reader, sized(right.size - 1)) == "invalid_input"
    assert await kind_of_fetch(reader, sized(64 * 1024 * 1024 + 1)) == "invalid_input"


@pytest.mark.parametrize(
    "url",
    ["https://store.example", "https://store.example:8443/programs", "http://127.0.0.1:1", "http://[::1]:80/a/b"],
)
def test_allowed_store_urls(url: str) -> None:
    """PKG-039: the path prefix is kept."""
    assert check_store_url(url) == url
    assert check_store_url(url + "/") == url


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:80",
        "http://store.example",
        "http://10.0.0.1",
        "ftp://127.0.0.1",
        "https://",
        "https://user@store.example",
        "https://store.example?x=1",
        "https://store.example/?",
        "https://store.example#a",
        "http://127.0.0.1:99999",
    ],
)
def test_refused_store_urls(url: str) -> None:
    """PKG-039."""
    with pytest.raises(ProgramError) as caught:
        open_store(url)
    assert caught.value.kind == "invalid_input"


Answers = dict[str, Callable[[web.BaseRequest], web.StreamResponse]]


@pytest.fixture
async def served() -> AsyncIterator[tuple[str, Answers, list[web.BaseRequest]]]:
    """A server on the loopback address that answers by path; base URL, answers, requests seen."""
    answers: Answers = {}
    seen: list[web.BaseRequest] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        seen.append(request)
        answer = answers.get(request.path)
        return answer(request) if answer else web.Response(status=404)

    server = web.Server(handle)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}/prefix", answers, seen
    await runner.cleanup()


async def test_an_http_store_serves_the_same_layout(
    store: Path, served: tuple[str, Answers, list[web.BaseRequest]]
) -> None:
    """PKG-039, PKG-040: below the prefix, identity encoding asked for, connection kept."""
    base, answers, seen = served
    for path, content in files_of(store).items():
        answers["/prefix/" + path] = lambda _, content=content: web.Response(body=content)
    reader = open_store(base)
    descriptor = await reader.resolve(REPORT)
    assert await reader.fetch(descriptor) == blob_of(store).read_bytes()
    assert {request.headers["Accept-Encoding"] for request in seen} == {"identity"}
    assert len({id(request.transport) for request in seen}) == 1
    await reader.aclose()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda _: web.Response(status=404), "not_found"),
        (lambda _: web.Response(status=500), "unavailable"),
        (lambda _: web.Response(status=302, headers={"Location": "/elsewhere"}), "unavailable"),
        (lambda _: web.Response(status=206, body=b"{}"), "unavailable"),
        (lambda _: web.Response(body=b"x", headers={"Content-Encoding": "gzip"}), "unavailable"),
        (lambda _: web.Response(body=b" " * 16_385), "invalid_input"),
        (lambda _: web.Response(body=b"{}"), "integrity"),
    ],
)
async def test_http_answers(
    served: tuple[str, Answers, list[web.BaseRequest]], answer: Callable[..., web.Response], kind: str
) -> None:
    """PKG-040."""
    base, answers, seen = served
    answers["/prefix/programs/report/1.0.0/descriptor.json"] = answer
    reader = open_store(base)
    assert await kind_of_resolve(reader) == kind
    assert len(seen) == 1
    await reader.aclose()


async def test_an_undeclared_length_is_bounded_while_it_arrives(
    served: tuple[str, Answers, list[web.BaseRequest]],
) -> None:
    """PKG-040: the actual length counts, not only the declared one."""
    base, answers, _ = served

    def endless(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=_chunks())

    async def _chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    answers["/prefix/programs/report/1.0.0/descriptor.json"] = endless
    reader = open_store(base)
    assert await kind_of_resolve(reader) == "invalid_input"
    await reader.aclose()


async def test_a_silent_store_times_out(served: tuple[str, Answers, list[web.BaseRequest]]) -> None:
    """PKG-040."""
    base, answers, _ = served

    async def _never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    answers["/prefix/programs/report/1.0.0/descriptor.json"] = lambda _: web.Response(body=_never())
    reader = HttpStore(base, timeout_ms=50)
    assert await kind_of_resolve(reader) == "timed_out"
    await reader.aclose()


async def test_an_absent_store_is_unavailable() -> None:
    """PKG-040."""
    reader = HttpStore("http://127.0.0.1:1")
    assert await kind_of_resolve(reader) == "unavailable"
    await reader.aclose()
