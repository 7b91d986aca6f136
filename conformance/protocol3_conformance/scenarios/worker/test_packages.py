"""Packages as a worker takes them in: the archive, its manifest, the cache (chapter 20)."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protocol3_conformance.bounds import bound
from protocol3_conformance.roles.coordinator import SESSIONS
from protocol3_conformance.scenarios.worker import archives, worker_check
from protocol3_conformance.scenarios.worker.archives import MANIFEST, member, zipped
from protocol3_conformance.worker_lab import WorkerLab

HANDLER = "def handle(event): return 1\n"
REFUSED = ("preparation", False)


def package(lab: WorkerLab, *more: Any, source: str = HANDLER, manifest: bytes | None = None) -> tuple[bytes, Any]:
    """An archive with a manifest, a module and more members; the program that it is."""
    document = lab.manifest()
    text = json.dumps(document).encode() if manifest is None else manifest
    return zipped(member(MANIFEST, text), member("program.py", source.encode()), *more), document["program"]


async def refused(lab: WorkerLab, content: bytes, program: Mapping[str, str], kind: str) -> None:
    """A task of this package fails in preparation, and nothing of it is left in the cache."""
    attempt = await lab.coordinator.assign(lab.publish_archive(content, program))
    assert await lab.coordinator.settled(attempt) == (kind, *REFUSED)
    left = [path.name for path in lab.cache().iterdir() if path.name != ".lock"]
    assert left == [], f"the cache holds {left}"


@worker_check("worker-package/archive", cites=["PKG-013", "PKG-015", "PKG-026", "PKG-069", "WRK-064"])
async def test_archive(lab: WorkerLab) -> None:
    """An archive that is not exactly one plain ZIP file is `integrity` and leaves nothing in the cache."""
    worker = lab.worker()
    with lab.case("members that overlap"):
        whole, _ = package(lab, member("y", b"12345", stored=True))
        inner = archives.last_member(whole)
        content, program = package(lab, member("x", inner, stored=True), member("y", b"12345", stored=True))
        overlapping = archives.at(archives.CENTRAL, 42, content.index(inner), 4)
        await refused(lab, overlapping(content), program, "integrity")
    for name, change in archives.ENDS.items():
        with lab.case(name):
            content, program = package(lab, member("x", b"12345"))
            await refused(lab, change(content), program, "integrity")
    await lab.stopped(worker)


@worker_check("worker-package/entries", cites=["PKG-015", "PKG-016", "PKG-017", "PKG-018", "PKG-025", "PKG-027"])
async def test_entries(lab: WorkerLab) -> None:
    """A member that is damaged, hidden or no plain file is `integrity`; no code of the package is run to find out."""
    worker = lab.worker()
    source = f"open({str(lab.mark('ran'))!r}, 'w')\n{HANDLER}"
    for name, change in archives.ENTRIES.items():
        with lab.case(name):
            content, program = package(lab, member("x", b"12345"), source=source)
            await refused(lab, change(content), program, "integrity")
    for name, extra in (("a field of ZIP64", b"\1\0\0\0"), ("half a field", b"\7\0\5\0abc")):
        with lab.case(name):
            await refused(lab, *package(lab, member("x", b"1", extra=extra), source=source), "integrity")
    assert not lab.mark("ran").exists()
    await lab.stopped(worker)


@worker_check("worker-package/names", cites=["PKG-009", "PKG-017", "PKG-019", "PKG-020", "PKG-021"])
async def test_names(lab: WorkerLab) -> None:
    """Names that some system reads otherwise, or takes for one another, are `integrity`."""
    worker = lab.worker()
    for names in archives.NAMES:
        with lab.case(repr(names)):
            await refused(lab, *package(lab, *(member(name, stored=True) for name in names)), "integrity")
    with lab.case("a NUL"):
        content, program = package(lab, member("a~b"))
        await refused(lab, archives.everywhere(b"a~b", b"a\0b")(content), program, "integrity")
    await lab.stopped(worker)


@worker_check("worker-package/limits", cites=["PKG-014", "PKG-022", "PKG-023", "PKG-028", "PKG-087"])
async def test_limits(lab: WorkerLab) -> None:
    """Beyond a hard limit a package is `invalid_input`, never `capacity`; at one it is taken."""
    worker = lab.worker()
    for name, members in archives.too_large().items():
        with lab.case(name):
            content, program = await asyncio.to_thread(package, lab, *members)
            await refused(lab, content, program, "invalid_input")
    with lab.case("no entry at all"):
        await refused(lab, zipped(), lab.manifest()["program"], "invalid_input")
    with lab.case("the longest manifest"):
        document = lab.manifest()
        text = json.dumps(document).encode().ljust(bound("MANIFEST_BYTES"))
        longest = zipped(member(MANIFEST, text), member("program.py", HANDLER.encode()))
        attempt = await lab.coordinator.assign(lab.publish_archive(longest, document["program"]))
        assert await lab.coordinator.settled(attempt) == ("success", 1)
    await lab.stopped(worker)


def changed(document: dict[str, Any], path: str, value: Any) -> bytes:
    """The manifest with another value at this path; `...` leaves the member out."""
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[name]
    place[last] = value
    if value is ...:
        del place[last]
    return json.dumps(document).encode()


WRONG = (
    ("schema_version", 2, "incompatible"),
    ("schema_version", True, "integrity"),
    ("schema_version", ..., "integrity"),
    ("runtime.kind", "node", "incompatible"),
    ("runtime.python", "three", "invalid_input"),
    ("runtime.python", "3.10", "incompatible"),
    ("runtime.python", "3.011", "incompatible"),
    ("runtime.protocol", 4, "incompatible"),
    ("runtime.protocol", 3.0, "integrity"),
    ("runtime.extra", 1, "integrity"),
    ("handler", "program", "invalid_input"),
    ("handler", "program:a.b", "invalid_input"),
    ("handler", "ledgence:handle", "integrity"),
    ("handler", "ledgence.worker:handle", "integrity"),
    ("handler", None, "integrity"),
    ("platform.os", "plan9", "incompatible"),
    ("platform.arch", "vax", "incompatible"),
    ("platform", ..., "integrity"),
    ("program.extra", 1, "integrity"),
    ("extra", 1, "integrity"),
)


@worker_check("worker-package/manifest", cites=["PKG-001", "PKG-002", "PKG-003", "PKG-024", "PKG-086"])
async def test_manifest(lab: WorkerLab) -> None:
    """A manifest that breaks its table has the kind of the first broken row; what is no such table is `integrity`."""
    worker = lab.worker()
    for path, value, kind in WRONG:
        with lab.case(f"{path}: {value}"):
            document = lab.manifest()
            program = dict(document["program"])
            members = (member(MANIFEST, changed(document, path, value)), member("program.py", HANDLER.encode()))
            await refused(lab, zipped(*members), program, kind)
    document = lab.manifest()
    both = document | {"handler": "program", "runtime": document["runtime"] | {"protocol": 4}}
    whole = json.dumps(document).encode()
    earlier = document | {"handler": "program", "runtime": document["runtime"] | {"python": "3.10"}}
    for name, text, kind in (
        ("two broken rows", json.dumps(both).encode(), "incompatible"),
        ("two broken rows side by side", json.dumps(earlier).encode(), "incompatible"),
        ("a member twice", whole.replace(b"{", b'{"schema_version": 1, ', 1), "integrity"),
        ("no object", b"[]", "integrity"),
        ("no JSON", b"{", "integrity"),
        ("too long", whole + b" " * bound("MANIFEST_BYTES"), "integrity"),
    ):
        with lab.case(name):
            await refused(lab, zipped(member(MANIFEST, text)), document["program"], kind)
    for name, elsewhere in (("none", "program.py"), ("in a folder", f"sub/{MANIFEST}")):
        with lab.case(name):
            await refused(lab, zipped(member(elsewhere, whole)), document["program"], "integrity")
    await lab.stopped(worker)


@worker_check("worker-package/another-python", cites=["PKG-007", "WRK-056", "WRK-057"])
async def test_another_python(lab: WorkerLab) -> None:
    """A package for another minor version of Python is not run; worker or process may be the one that sees it."""
    worker = lab.worker()
    document = lab.manifest()
    document["runtime"]["python"] = "3.99"
    attempt = await lab.coordinator.assign(lab.publish(f"open({str(lab.mark('ran'))!r}, 'w')", **document))
    told = await lab.coordinator.settled(attempt)
    assert told in (("incompatible", "preparation", False), ("runtime", "startup", False)), told
    assert not lab.mark("ran").exists()
    await lab.stopped(worker)


@worker_check("worker-cache/layout", cites=["PKG-016", "PKG-018", "PKG-019", "PKG-020", "PKG-068", "PKG-070"])
async def test_layout(lab: WorkerLab) -> None:
    """What only looks like a breach is taken in; the entry has the layout and the modes of the contract."""
    worker = lab.worker()
    content, program = package(lab, *archives.HARMLESS)
    descriptor = lab.publish_archive(content, program)
    assert await lab.coordinator.settled(await lab.coordinator.assign(descriptor)) == ("success", 1)
    name = descriptor["digest"].removeprefix("sha256:")
    assert sorted(path.name for path in lab.cache().iterdir()) == sorted([".lock", name])
    entry = lab.cache() / name
    assert sorted(path.name for path in entry.iterdir()) == ["artifact.zip", "content", "descriptor.json"]
    assert (entry / "artifact.zip").read_bytes() == content
    assert json.loads((entry / "descriptor.json").read_bytes()) == descriptor
    files = {MANIFEST, "program.py", *(one.filename for one, _ in archives.HARMLESS if not one.is_dir())}
    found = list((entry / "content").rglob("*"))
    assert {str(path.relative_to(entry / "content")) for path in found if path.is_file()} == files
    for path in found:
        assert _mode(path) == (0o555 if path.is_dir() or path.name == "executable" else 0o444), path.name
    await lab.stopped(worker)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@worker_check("worker-cache/another-descriptor", cites=["PKG-076", "PKG-004"])
async def test_another_descriptor(lab: WorkerLab) -> None:
    """A descriptor of another program or size with the digest of an entry is `integrity`."""
    worker = lab.worker()
    descriptor = lab.publish("def handle(event):\n    raise SystemExit(1)\n")  # no warm process spares the look-up
    assert (await lab.coordinator.settled(await lab.coordinator.assign(descriptor)))[0] == "runtime"
    for change in ({"program": {"id": "other", "version": "1.0.0"}}, {"size": descriptor["size"] - 1}):
        with lab.case(repr(change)):
            attempt = await lab.coordinator.assign({**descriptor, **change})
            assert await lab.coordinator.settled(attempt) == ("integrity", *REFUSED)
    await lab.stopped(worker)


@worker_check("worker-cache/left-behind", cites=["PKG-073", "PKG-072"])
async def test_left_behind(lab: WorkerLab) -> None:
    """What an earlier worker was staging or evicting when it died is removed, and never offered."""
    for name in (".staging-abc", f".evicting-{'a' * 64}"):
        (lab.cache() / name / "content").mkdir(parents=True)
        (lab.cache() / name / "content" / "program.py").write_text(HANDLER)
    worker = lab.worker()
    await lab.polling()
    assert [path.name for path in lab.cache().iterdir()] == [".lock"]
    await lab.stopped(worker)


@worker_check("worker-cache/foreign-content", cites=["PKG-066"])
async def test_foreign_content(lab: WorkerLab) -> None:
    """A directory that holds something else is not taken for a cache: the worker does not start."""
    lab.cache().mkdir()
    kept = lab.cache() / "thesis.txt"
    kept.write_text("important")
    assert await lab.worker().ended() != 0
    assert lab.coordinator.sent(SESSIONS) == []
    assert kept.read_text() == "important"
