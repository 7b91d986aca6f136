"""The raw structure of a single-disk ZIP32 archive (PKG-013…018).

The archive is read here byte by byte, not with a ZIP library: libraries repair or ignore exactly what the profile
refuses (leading bytes, overlapping members, ZIP64 fields, a second end record).
"""

import stat
import struct
from dataclasses import dataclass
from typing import Final

from protocol3.contract import limits
from protocol3.programs.errors import ProgramError

STORED: Final = 0
DEFLATED: Final = 8

_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE: Final = b"PK\x05\x06"
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_CENTRAL_SIGNATURE: Final = b"PK\x01\x02"
_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_SIGNATURE: Final = b"PK\x03\x04"
_EXTRA = struct.Struct("<2H")

_ZIP64_COUNT: Final = 0xFFFF
_ZIP64_SIZE: Final = 0xFFFFFFFF
_ZIP64_EXTRA: Final = 1
_LONGEST_COMMENT: Final = 0xFFFF
_ENCRYPTED: Final = 0x0001 | 0x0040 | 0x2000
"""General purpose bits: encrypted, strongly encrypted, encrypted central directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One entry of the central directory. ``start``: where its data begins; ``mode``: its Unix mode, 0 if none."""

    name: bytes
    method: int
    crc: int
    compressed: int
    size: int
    mode: int
    start: int

    @property
    def is_directory(self) -> bool:
        return self.name.endswith(b"/")


def read_directory(archive: bytes) -> list[Member]:
    """All members in central directory order. Raises ``integrity``, or ``invalid_input`` for their number (PKG-014)."""
    count, offset, end = _end_record(archive)
    if not 1 <= count <= limits.ARCHIVE_ENTRIES:
        raise ProgramError(
            "invalid_input", f"the archive has {count} entries; 1 to {limits.ARCHIVE_ENTRIES} are allowed"
        )
    members: list[Member] = []
    spans: list[tuple[int, int]] = []
    names: set[bytes] = set()
    position = offset
    for _ in range(count):
        member, local, position = _central_entry(archive, position, end)
        if member.name in names:
            raise _damaged("two entries have one name")
        names.add(member.name)
        members.append(member)
        spans.append((local, member.start + member.compressed))
    if position != end:
        raise _damaged("the central directory does not end at the end record")
    _check_spans(spans, offset)
    return members


def _end_record(archive: bytes) -> tuple[int, int, int]:
    """Number of entries, offset of the central directory, offset of the end record (PKG-013, PKG-015)."""
    earliest = max(0, len(archive) - _END.size - _LONGEST_COMMENT)
    position = len(archive)
    while (position := archive.rfind(_END_SIGNATURE, earliest, position)) >= 0:
        if position + _END.size <= len(archive):
            _, disk, first_disk, here, total, length, offset, comment = _END.unpack_from(archive, position)
            if position + _END.size + comment == len(archive):
                break
    else:
        raise _damaged("no end record reaches the end of the file")
    if disk or first_disk or here != total or total == _ZIP64_COUNT:
        raise _damaged("only single-disk archives without ZIP64 are allowed")
    if offset + length != position:
        raise _damaged("the central directory does not end at the end record")
    return total, offset, position


def _central_entry(archive: bytes, position: int, end: int) -> tuple[Member, int, int]:
    """The member at ``position`` (PKG-016), the offset of its local header, the position of the next entry."""
    if position + _CENTRAL.size > end:
        raise _damaged("the central directory is cut short")
    fields = _CENTRAL.unpack_from(archive, position)
    signature, _, _, flags, method, _, _, crc, compressed, size, name_length, extra_length, comment_length = fields[:13]
    disk, _, attributes, local = fields[13:]
    name_end = position + _CENTRAL.size + name_length
    extra_end = name_end + extra_length
    following = extra_end + comment_length
    if signature != _CENTRAL_SIGNATURE or following > end:
        raise _damaged("the central directory is malformed")
    if disk:
        raise _damaged("an entry lies on another disk")
    if method not in (STORED, DEFLATED):
        raise _damaged(f"compression method {method} is not allowed")
    if _ZIP64_SIZE in (compressed, size, local):
        raise _damaged("ZIP64 sizes are not allowed")
    if flags & _ENCRYPTED:
        raise _damaged("encrypted entries are not allowed")
    _check_extra(archive[name_end:extra_end])
    name = archive[position + _CENTRAL.size : name_end]
    mode = attributes >> 16
    _check_type(name, mode)
    start = _local_header(archive, local, name)
    member = Member(name=name, method=method, crc=crc, compressed=compressed, size=size, mode=mode, start=start)
    return member, local, following


def _local_header(archive: bytes, position: int, name: bytes) -> int:
    """Where the data of the member begins. Its local header must tell the same name (PKG-017)."""
    if position + _LOCAL.size > len(archive):
        raise _damaged("a local header lies outside the archive")
    fields = _LOCAL.unpack_from(archive, position)
    name_end = position + _LOCAL.size + fields[9]
    start: int = name_end + fields[10]
    if fields[0] != _LOCAL_SIGNATURE or archive[position + _LOCAL.size : name_end] != name:
        raise _damaged("a local header differs from the central directory")
    if fields[2] & _ENCRYPTED:
        raise _damaged("encrypted entries are not allowed")
    _check_extra(archive[name_end:start])
    return start


def _check_extra(extra: bytes) -> None:
    position = 0
    while position < len(extra):
        if position + _EXTRA.size > len(extra):
            raise _damaged("an extra field is malformed")
        identifier, length = _EXTRA.unpack_from(extra, position)
        position += _EXTRA.size + length
        if position > len(extra):
            raise _damaged("an extra field is malformed")
        if identifier == _ZIP64_EXTRA:
            raise _damaged("ZIP64 extra fields are not allowed")


def _check_type(name: bytes, mode: int) -> None:
    """PKG-018: nothing but directories (named with a slash) and regular files."""
    kind, directory = stat.S_IFMT(mode), name.endswith(b"/")
    if kind not in (0, stat.S_IFDIR if directory else stat.S_IFREG):
        raise _damaged("an entry is neither a regular file nor a directory")


def _check_spans(spans: list[tuple[int, int]], directory: int) -> None:
    """PKG-015: the first member starts the file, none overlaps another or the central directory."""
    position = 0
    for index, (start, end) in enumerate(sorted(spans)):
        if index == 0 and start != 0:
            raise _damaged("the archive has leading bytes")
        if start < position:
            raise _damaged("members overlap")
        position = end
    if position > directory:
        raise _damaged("a member overlaps the central directory")


def _damaged(message: str) -> ProgramError:
    return ProgramError("integrity", f"archive: {message}")
