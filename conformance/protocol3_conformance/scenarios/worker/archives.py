"""Archives that break the profile of packages in one place each, and some that only look as if they did (chapter 20).

Every one has a manifest and a module; what varies is the last member, or the bytes of its headers.
"""

from __future__ import annotations

import io
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable

from protocol3_conformance.bounds import bound
from protocol3_conformance.publication import EPOCH

Change = Callable[[bytes], bytes]
MANIFEST = "ledgence-program.json"
CENTRAL, LOCAL, END = b"PK\1\2", b"PK\3\4", b"PK\5\6"


def member(
    name: str, content: bytes = b"", *, mode: int = stat.S_IFREG | 0o644, stored: bool = False, extra: bytes = b""
) -> tuple[zipfile.ZipInfo, bytes]:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.create_system, entry.external_attr, entry.extra = 3, mode << 16, extra
    entry.compress_type = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    return entry, content


def zipped(*members: tuple[zipfile.ZipInfo, bytes], comment: bytes = b"") -> bytes:
    target = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(target, "w") as package:
        warnings.simplefilter("ignore")  # of names that come twice
        package.comment = comment
        for entry, content in members:
            package.writestr(entry, content, compresslevel=1)
    return target.getvalue()


def at(signature: bytes, offset: int, value: int, size: int = 2) -> Change:
    """Put a number into the last header of this kind."""

    def change(content: bytes) -> bytes:
        place = content.rindex(signature) + offset
        return content[:place] + value.to_bytes(size, "little") + content[place + size :]

    return change


def everywhere(old: bytes, new: bytes) -> Change:
    """Names are of equal length, so that nothing moves."""
    assert len(old) == len(new)
    return lambda content: content.replace(old, new)


def before(signature: bytes, inserted: bytes) -> Change:
    def change(content: bytes) -> bytes:
        place = content.rindex(signature)
        return content[:place] + inserted + content[place:]

    return change


def behind(leading: bytes) -> Change:
    """The same members behind some bytes, with offsets that know of them."""

    def change(content: bytes) -> bytes:
        target = io.BytesIO(leading)
        target.seek(len(leading))
        with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(target, "w") as package:
            for entry in source.infolist():
                package.writestr(entry, source.read(entry))
        return target.getvalue()

    return change


def last_member(content: bytes) -> bytes:
    """Local header and data of the last member."""
    return content[content.rindex(LOCAL) : content.index(CENTRAL)]


def sized(size: int, crc: int) -> Change:
    """Another size and checksum of the last member, in both headers."""

    def change(content: bytes) -> bytes:
        for signature, place in ((LOCAL, 14), (CENTRAL, 16)):
            content = at(signature, place, crc, 4)(at(signature, place + 8, size, 4)(content))
        return content

    return change


ENDS: dict[str, Change] = {
    "disk 1": at(END, 4, 1),
    "central directory on disk 1": at(END, 6, 1),
    "fewer entries here": at(END, 8, 1),
    "fewer entries in all": at(END, 10, 1),
    "a shorter central directory": at(END, 12, 40, 4),
    "another offset": at(END, 16, 1, 4),
    "a comment that is not there": at(END, 20, 3),
    "bytes behind it": lambda content: content + b"x",
    "bytes before it": lambda content: b"x" + content,
    "bytes before it that its offsets know": behind(b"x"),
    "bytes between directory and end": before(END, b"x"),
    "no end record": lambda content: content[:-22],
    "cut in the middle": lambda content: content[: len(content) // 2],
    "no archive": lambda content: b"x" * len(content),
}
"""PKG-013, PKG-015: of the whole."""

ENTRIES: dict[str, Change] = {
    "on another disk": at(CENTRAL, 34, 1),
    "another method": lambda content: at(LOCAL, 8, 12)(at(CENTRAL, 10, 12)(content)),
    "encrypted": lambda content: at(LOCAL, 6, 1)(at(CENTRAL, 8, 1)(content)),
    "a size of ZIP64": at(CENTRAL, 24, 0xFFFFFFFF, 4),
    "an offset of ZIP64": at(CENTRAL, 42, 0xFFFFFFFF, 4),
    "an offset into another member": at(CENTRAL, 42, 3, 4),
    "another name in its own header": at(LOCAL, 30, ord("y"), 1),
    "a link": at(CENTRAL, 38, (stat.S_IFLNK | 0o777) << 16, 4),
    "a pipe": at(CENTRAL, 38, (stat.S_IFIFO | 0o644) << 16, 4),
    "a device": at(CENTRAL, 38, (stat.S_IFCHR | 0o644) << 16, 4),
    "a directory without a slash": at(CENTRAL, 38, (stat.S_IFDIR | 0o755) << 16, 4),
    "a damaged checksum": lambda content: at(LOCAL, 14, 1, 4)(at(CENTRAL, 16, 1, 4)(content)),
    "a size that is too small": lambda content: at(LOCAL, 22, 4, 4)(at(CENTRAL, 24, 4, 4)(content)),
    "a size that is too small, with the checksum of that beginning": sized(4, zlib.crc32(b"1234")),
    "a size that is too large": lambda content: at(LOCAL, 22, 9, 4)(at(CENTRAL, 24, 9, 4)(content)),
}
"""PKG-015 to PKG-018, PKG-025: of the last member, `x` with five bytes."""

LONGEST = "/".join(["l" * 204] * 5)
"""As long as a name may be."""

NAMES: tuple[tuple[str, ...], ...] = (
    *((name,) for name in ("é.py", "a\\b", "c:x", "/abs", "../x", "a/../b", "./a", "a//b", "a.", "a ", "d./x")),
    *((name,) for name in ("CON", "con.txt", "x/LPT9.a.b", "a\x1fb", "a\x7f", "a" * 256, f"l{LONGEST}")),
    *((name,) for name in ("ledgence/__init__.py", "Ledgence/__INIT__.py")),
    ("A.py", "a.py"),
    ("a.py", "a.py"),
    ("pkg", "pkg/a"),
    ("pkg/a", "PKG/b"),
    ("d/", "D/"),
    ("d/", "d"),
)
"""PKG-009, PKG-017, PKG-019 to PKG-021: names of members that are refused, alone or together."""

HARMLESS = (
    *(member(name, b"1") for name in ("console", "com0", "com10.txt", "a" * 255, ".x", "a b", "p/q/a", LONGEST)),
    member("stored", b"1", stored=True),
    member("no mode", b"1", mode=0),
    member("with an extra field", b"1", extra=b"\7\0\3\0abc"),
    member("directory/", mode=stat.S_IFDIR | 0o755, stored=True),
    member("executable", b"1", mode=stat.S_IFREG | 0o755),
)
"""Members that are near to what is refused."""


def too_large() -> dict[str, tuple[tuple[zipfile.ZipInfo, bytes], ...]]:
    """PKG-014, PKG-022, PKG-023: members beyond a limit, by what they exceed."""
    most = bytes(bound("ARCHIVE_FILE_BYTES"))
    whole = range(bound("ARCHIVE_EXPANDED_BYTES") // len(most))
    return {
        "entries": tuple(member(f"e{number}", stored=True) for number in range(bound("ARCHIVE_ENTRIES") - 1)),
        "a file": (member("large", most + b"x"),),
        "all files": tuple(member(f"large-{number}", most) for number in whole),
        "the archive": (member("large", most, stored=True),),
        "a directory": (member("d/", b"x", mode=stat.S_IFDIR | 0o755, stored=True),),
    }
