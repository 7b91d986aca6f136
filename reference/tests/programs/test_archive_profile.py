"""The archive profile, violated field by field in hand-made archives (PKG-009, PKG-012…025)."""

import json
import stat
from collections.abc import Callable
from typing import Any

import pytest

from protocol3.contract import limits
from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs import archive as archive_module
from protocol3.programs.archive import digest_of, verify
from protocol3.programs.errors import ProgramError

Build = Callable[..., bytes]
Entry = Callable[..., Any]

REGULAR, DIRECTORY = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755


def kind_of(raw: bytes, descriptor: Descriptor | None = None) -> str:
    with pytest.raises(ProgramError) as caught:
        verify(raw, descriptor)
    return caught.value.kind


def test_a_plain_archive_is_verified_and_described(archive: Build, entry: Entry) -> None:
    executable, folder = entry(b"program.py", b"x = 1\n", mode=stat.S_IFREG | 0o755), entry(b"data/", mode=DIRECTORY)
    raw = archive(executable, folder, comment=b"hi")
    package = verify(raw)
    assert package.descriptor == Descriptor(
        program=ProgramRef(id="report", version="1.0.0"), digest=digest_of(raw), size=len(raw)
    )
    assert verify(raw, package.descriptor) == package
    found = [(file.path, file.is_directory, file.execute, content) for file, content in package.contents()]
    assert found[0][:3] == ("ledgence-program.json", False, 0)
    assert found[1:] == [("program.py", False, 0o111, b"x = 1\n"), ("data", True, 0, b"")]


def test_stored_members_and_members_without_a_mode_are_accepted(archive: Build, entry: Entry) -> None:
    """PKG-016, PKG-018."""
    assert verify(archive(entry(b"a.py", b"1", method=0), entry(b"d/", method=0), entry(b"d/e", b"", method=8)))


@pytest.mark.parametrize("change", [{"size": 1}, {"digest": "sha256:" + "0" * 64}, {"program": ("report", "2")}])
def test_the_descriptor_must_be_true(archive: Build, change: dict[str, Any]) -> None:
    """PKG-004, PKG-012."""
    raw = archive()
    values: dict[str, Any] = {"size": len(raw), "digest": digest_of(raw), "program": ("report", "1.0.0"), **change}
    program = ProgramRef(id=values["program"][0], version=values["program"][1])
    assert kind_of(raw, Descriptor(program=program, digest=values["digest"], size=values["size"])) == "integrity"


@pytest.mark.parametrize(
    "fields",
    [
        {"end": {"disk": 1}},
        {"end": {"first_disk": 1}},
        {"end": {"here": 0}},
        {"end": {"here": 0xFFFF, "total": 0xFFFF}},
        {"end": {"comment": 1}},
        {"end": {"offset": 1}},
        {"end": {"length": 10}},
        {"leading": b"#!"},
        {"gap": b"PK\6\7"},
        {"comment": b"abc", "end": {"comment": 2}},
    ],
)
def test_a_wrong_end_record_is_integrity(archive: Build, fields: dict[str, Any]) -> None:
    """PKG-013, PKG-015."""
    assert kind_of(archive(**fields)) == "integrity"


@pytest.mark.parametrize("raw", [b"", b"PK\5\6", b"not a zip" * 10])
def test_what_is_no_archive_is_integrity(raw: bytes) -> None:
    """PKG-013."""
    assert kind_of(raw) == "integrity"


def test_a_truncated_archive_is_integrity(archive: Build, entry: Entry) -> None:
    """PKG-013, PKG-015: whatever the place of the cut."""
    raw = archive(entry(b"a.py", b"x" * 100))
    assert {kind_of(raw[:length]) for length in range(len(raw))} == {"integrity"}


def test_the_number_of_entries_is_limited(archive: Build, entry: Entry) -> None:
    """PKG-014, PKG-087: 4096 with directories pass, 0 and 4097 are invalid input."""
    names = [f"d{number}/".encode() for number in range(limits.ARCHIVE_ENTRIES)]
    assert verify(archive(*(entry(name, method=0) for name in names[1:])))
    assert kind_of(archive(*(entry(name, method=0) for name in names))) == "invalid_input"
    assert kind_of(archive(manifest=False)) == "invalid_input"


@pytest.mark.parametrize(
    "fields",
    [
        {"method": 12},
        {"disk": 1},
        {"flags": 1},
        {"flags": 0x40},
        {"size": 0xFFFFFFFF},
        {"compressed": 0xFFFFFFFF},
        {"offset": 0xFFFFFFFF},
        {"extra": b"\1\0\0\0"},
        {"local_extra": b"\1\0\0\0"},
        {"extra": b"\7\0"},
        {"extra": b"\7\0\5\0abc"},
        {"local_name": b"b.py"},
        {"mode": stat.S_IFLNK | 0o777},
        {"mode": stat.S_IFIFO | 0o644},
        {"mode": stat.S_IFCHR | 0o644},
        {"mode": DIRECTORY},
        {"crc": 1},
        {"size": 4},
        {"size": 6},
        {"data": b"\xff\xff"},
        {"data": b"", "compressed": 0},
        {"offset": 3},
        {"offset": 0},
        {"compressed": 4000},
    ],
)
def test_a_wrong_entry_is_integrity(archive: Build, entry: Entry, fields: dict[str, Any]) -> None:
    """PKG-015…018, PKG-025."""
    assert kind_of(archive(entry(b"a.py", **{"content": b"12345", **fields}))) == "integrity"


def test_harmless_extra_fields_and_modes_are_accepted(archive: Build, entry: Entry) -> None:
    """PKG-016, PKG-018."""
    assert verify(archive(entry(b"a.py", b"1", extra=b"\7\0\3\0abc", local_extra=b"\7\0\0\0", mode=REGULAR)))


def test_a_member_followed_by_hidden_bytes_is_integrity(archive: Build, entry: Entry) -> None:
    """PKG-025: the compressed data ends where the member says."""
    packed = b"\x03\x00"  # deflated: nothing
    assert kind_of(archive(entry(b"a", b"", data=packed + b"hidden"))) == "integrity"
    assert verify(archive(entry(b"a", b"", data=packed)))


@pytest.mark.parametrize(
    "name",
    [
        "é.py".encode(),
        b"a\\b",
        b"c:x",
        b"a\0b",
        b"/abs",
        b"../x",
        b"a/../b",
        b"./a",
        b"a//b",
        b"/",
        b"",
        b"a.",
        b"a.b.",
        b"a ",
        b"d./x",
        b"CON",
        b"con.txt",
        b"x/LPT9.a.b",
        b"a\x1fb",
        b"a\x7f",
        b"a" * 256,
        b"/".join([b"d" * 200] * 6),
        b"ledgence/__init__.py",
        b"Ledgence/__INIT__.py",
    ],
)
def test_a_refused_name_is_integrity(archive: Build, entry: Entry, name: bytes) -> None:
    """PKG-009, PKG-019, PKG-020."""
    assert kind_of(archive(entry(name, b"1"))) == "integrity"


@pytest.mark.parametrize("name", [b"console", b"com0", b"com10.txt", b"ledgence/client.py", b"a" * 255, b".x", b"a b"])
def test_names_close_to_the_refused_ones_are_accepted(archive: Build, entry: Entry, name: bytes) -> None:
    """PKG-020."""
    assert verify(archive(entry(name, b"1")))


@pytest.mark.parametrize(
    "names",
    [
        [b"A.py", b"a.py"],
        [b"a.py", b"a.py"],
        [b"pkg", b"pkg/a"],
        [b"pkg/a", b"pkg"],
        [b"pkg/a", b"PKG/b"],
        [b"pkg/", b"Pkg/b"],
        [b"d/", b"d"],
        [b"d/", b"D/"],
    ],
)
def test_colliding_paths_are_integrity(archive: Build, entry: Entry, names: list[bytes]) -> None:
    """PKG-017, PKG-021."""
    assert kind_of(archive(*(entry(name, method=0) for name in names))) == "integrity"


def test_parents_may_be_implied_or_written(archive: Build, entry: Entry) -> None:
    """PKG-021."""
    assert verify(archive(entry(b"p/q/a", b"1"), entry(b"p/", method=0), entry(b"p/b", b"2")))


def test_sizes_are_limited(archive: Build, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """PKG-022, PKG-023, PKG-087: the limits themselves pass, one byte more is invalid input."""
    raw = archive(entry(b"a", b"x" * 300), entry(b"b", b"y" * 300))
    manifest_size = verify(raw).expanded_bytes - 600
    for name, fits in (
        ("ARCHIVE_BYTES", len(raw)),
        ("ARCHIVE_FILE_BYTES", max(300, manifest_size)),
        ("ARCHIVE_EXPANDED_BYTES", 600 + manifest_size),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(archive_module.limits, name, fits)
            assert verify(raw)
            patch.setattr(archive_module.limits, name, fits - 1)
            assert kind_of(raw) == "invalid_input"
    assert kind_of(archive(entry(b"d/", b"x"))) == "invalid_input"


def test_a_member_never_expands_beyond_its_declared_size(archive: Build, entry: Entry) -> None:
    """PKG-025: a bomb with a small declared size is refused by its length."""
    assert kind_of(archive(entry(b"bomb", b"\0" * 5_000_000, size=10, crc=0))) == "integrity"


def test_the_manifest_must_be_a_root_file(archive: Build, entry: Entry) -> None:
    """PKG-024, PKG-086."""
    assert kind_of(archive(entry(b"a.py", b"1"), manifest=False)) == "integrity"
    assert kind_of(archive(entry(b"sub/ledgence-program.json", b"{}"), manifest=False)) == "integrity"
    assert kind_of(archive(entry(b"ledgence-program.json/", method=0), manifest=False)) == "integrity"
    large = json.dumps({"x": "y" * limits.MANIFEST_BYTES}).encode()
    assert kind_of(archive(entry(b"ledgence-program.json", large), manifest=False)) == "integrity"
