"""Verification of a package archive as a whole (PKG-012…028).

Everything that takes an archive in (publication, registration, the worker's cache) goes through :func:`verify`;
declared lengths and remote headers never replace it (PKG-026).
"""

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from protocol3.contract import limits
from protocol3.contract.models.common import Descriptor
from protocol3.programs.errors import ProgramError
from protocol3.programs.manifest import MANIFEST_NAME, Manifest, parse_manifest
from protocol3.programs.zip_directory import STORED, Member, read_directory
from protocol3.programs.zip_names import check_names

_EXECUTE = 0o111


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """A file or directory of a verified package. ``execute`` holds the execute bits of a file."""

    path: str
    is_directory: bool
    execute: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An archive that fulfils the profile. Contents are decompressed again on demand, never all kept in memory."""

    archive: bytes
    descriptor: Descriptor
    manifest: Manifest
    members: tuple[Member, ...]

    @property
    def expanded_bytes(self) -> int:
        return sum(member.size for member in self.members)

    def files(self) -> Iterator[PackageFile]:
        """Every entry in archive order."""
        for member in self.members:
            yield PackageFile(
                path=member.name.decode("ascii").removesuffix("/"),
                is_directory=member.is_directory,
                execute=0 if member.is_directory else member.mode & _EXECUTE,
                size=member.size,
            )

    def contents(self) -> Iterator[tuple[PackageFile, bytes]]:
        """Every entry with its decompressed bytes (empty for a directory)."""
        for member, file in zip(self.members, self.files(), strict=True):
            yield file, _content(self.archive, member)


def digest_of(archive: bytes) -> str:
    """``sha256:`` and 64 lower-case hex digits (PKG-030)."""
    return "sha256:" + hashlib.sha256(archive).hexdigest()


def verify(archive: bytes, descriptor: Descriptor | None = None) -> Package:
    """Check the whole profile, against ``descriptor`` when there is one (PKG-004, PKG-012, PKG-026, PKG-087).

    Raises :class:`ProgramError`; for a hard limit ``invalid_input``, never ``capacity`` (PKG-028).
    """
    if len(archive) > limits.ARCHIVE_BYTES:
        raise ProgramError("invalid_input", f"the archive is larger than {limits.ARCHIVE_BYTES} bytes")
    digest = digest_of(archive)
    if descriptor is not None and (len(archive), digest) != (descriptor.size, descriptor.digest):
        raise ProgramError("integrity", "the archive differs from size and digest of its descriptor")
    members = read_directory(archive)
    check_names([_text(member.name) for member in members])
    _check_sizes(members)
    manifest = _verified_manifest(archive, members)
    if descriptor is not None and manifest.program != descriptor.program:
        raise ProgramError("integrity", "the manifest names another program than the descriptor")
    return Package(
        archive=archive,
        descriptor=Descriptor(program=manifest.program, digest=digest, size=len(archive)),
        manifest=manifest,
        members=tuple(members),
    )


def _text(name: bytes) -> str:
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise ProgramError("integrity", "archive: names are ASCII") from None


def _check_sizes(members: list[Member]) -> None:
    """PKG-022, on declared sizes; :func:`_content` holds every member to its own."""
    for member in members:
        if member.is_directory and member.size:
            raise ProgramError("invalid_input", "archive: a directory entry has content")
        if member.size > limits.ARCHIVE_FILE_BYTES:
            raise ProgramError("invalid_input", f"archive: a file is larger than {limits.ARCHIVE_FILE_BYTES} bytes")
    if sum(member.size for member in members) > limits.ARCHIVE_EXPANDED_BYTES:
        raise ProgramError(
            "invalid_input", f"archive: the files are larger than {limits.ARCHIVE_EXPANDED_BYTES} bytes together"
        )


def _verified_manifest(archive: bytes, members: list[Member]) -> Manifest:
    """Reads every member once (PKG-025) and keeps the manifest (PKG-024)."""
    raw: bytes | None = None
    for member in members:
        content = _content(archive, member)
        if member.name == MANIFEST_NAME.encode():
            raw = content
    if raw is None:
        raise ProgramError("integrity", f"archive: {MANIFEST_NAME} is missing at the root")
    return parse_manifest(raw)


def _content(archive: bytes, member: Member) -> bytes:
    data = memoryview(archive)[member.start : member.start + member.compressed]
    content = bytes(data) if member.method == STORED else _inflate(data, member.size)
    if len(content) != member.size or zlib.crc32(content) != member.crc:
        raise ProgramError("integrity", "archive: a member differs from its size or checksum")
    return content


def _inflate(data: memoryview, size: int) -> bytes:
    """At most ``size + 1`` bytes are ever produced, whatever the data would expand to."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflater.decompress(data, size + 1)
    except zlib.error:
        raise ProgramError("integrity", "archive: a member cannot be decompressed") from None
    if not inflater.eof or inflater.unused_data:
        raise ProgramError("integrity", "archive: a member is longer or shorter than its size")
    return content
