"""Packages and archives for the tests of the programs room."""

import json
import platform
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Entry:
    """One member of a hand-made archive; every field of its headers can be made wrong."""

    name: bytes
    content: bytes = b""
    method: int = 8
    mode: int = 0
    flags: int = 0
    disk: int = 0
    extra: bytes = b""
    local_extra: bytes = b""
    local_name: bytes | None = None
    crc: int | None = None
    size: int | None = None
    compressed: int | None = None
    offset: int | None = None
    data: bytes | None = None


@dataclass
class Zip:
    """A hand-made archive: members, then the fields of the end record."""

    entries: list[Entry]
    leading: bytes = b""
    gap: bytes = b""
    comment: bytes = b""
    end: dict[str, int] = field(default_factory=dict)

    def build(self) -> bytes:
        out, central = bytearray(self.leading), bytearray()
        for entry in self.entries:
            data = entry.data if entry.data is not None else _pack(entry)
            crc = zlib.crc32(entry.content) if entry.crc is None else entry.crc
            size = len(entry.content) if entry.size is None else entry.size
            compressed = len(data) if entry.compressed is None else entry.compressed
            offset = len(out) if entry.offset is None else entry.offset
            local_name = entry.name if entry.local_name is None else entry.local_name
            out += struct.pack(
                "<4s5H3L2H", b"PK\3\4", 20, entry.flags, entry.method, 0, 33, crc, compressed, size,
                len(local_name), len(entry.local_extra),
            )  # fmt: skip
            out += local_name + entry.local_extra + data
            central += struct.pack(
                "<4s6H3L5H2L", b"PK\1\2", 0x0314, 20, entry.flags, entry.method, 0, 33, crc, compressed, size,
                len(entry.name), len(entry.extra), 0, entry.disk, 0, entry.mode << 16, offset,
            )  # fmt: skip
            central += entry.name + entry.extra
        values = {
            "disk": 0, "first_disk": 0, "here": len(self.entries), "total": len(self.entries),
            "length": len(central), "offset": len(out), "comment": len(self.comment),
        } | self.end  # fmt: skip
        end = struct.pack("<4s4H2LH", b"PK\5\6", *values.values()) + self.comment
        return bytes(out + central + self.gap + end)


def _pack(entry: Entry) -> bytes:
    if entry.method != 8:
        return entry.content
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(entry.content) + deflater.flush()


def host_manifest(**changes: Any) -> dict[str, Any]:
    """A manifest for this host; ``changes`` by dotted path with ``__`` for the dot."""
    manifest: dict[str, Any] = {
        "schema_version": 1,
        "program": {"id": "report", "version": "1.0.0"},
        "runtime": {"kind": "python", "python": ".".join(platform.python_version_tuple()[:2]), "protocol": 3},
        "handler": "program:handle",
        "platform": {
            "os": {"Darwin": "macos"}.get(platform.system(), "linux"),
            "arch": {"arm64": "aarch64"}.get(platform.machine(), platform.machine()),
        },
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = manifest
        for parent in parents:
            target = target[parent]
        target[last] = value
    return manifest


@pytest.fixture
def manifest() -> Callable[..., dict[str, Any]]:
    return host_manifest


@pytest.fixture
def entry() -> type[Entry]:
    return Entry


@pytest.fixture
def archive() -> Callable[..., bytes]:
    """``archive(*entries, **fields)``: a manifest, then the entries; ``manifest=False`` leaves it out."""

    def build(*entries: Entry, manifest: bool = True, **fields: Any) -> bytes:
        first = [Entry(b"ledgence-program.json", json.dumps(host_manifest()).encode())] if manifest else []
        return Zip([*first, *entries], **fields).build()

    return build


@pytest.fixture
def source(tmp_path: Path) -> Callable[..., Path]:
    """``source(files, **manifest changes)``: a package directory."""
    count = 0

    def make(files: dict[str, str] | None = None, **changes: Any) -> Path:
        nonlocal count
        count += 1
        root = tmp_path / f"source-{count}"
        root.mkdir()
        (root / "ledgence-program.json").write_text(json.dumps(host_manifest(**changes)))
        for name, text in {"program.py": "def handle(event):\n    return 1\n", **(files or {})}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        return root

    return make
