"""Publication of an archive to a filesystem store (PKG-049…061).

The order makes interruptions harmless: verify, directories, blob, and only then the descriptor. A visible descriptor
always refers to a complete blob (PKG-050).
"""

from dataclasses import dataclass
from pathlib import Path

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs.archive import Package, verify
from protocol3.programs.build import build_package
from protocol3.programs.errors import ProgramError, PublicationError
from protocol3.programs.files import create_durably, sync_directory, sync_file
from protocol3.programs.layout import blob_path, descriptor_path, encode_descriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """``already_published`` speaks of the descriptor only (PKG-055)."""

    descriptor: Descriptor
    already_published: bool


def publish_directory(source: Path, store: Path) -> Publication:
    """Pack ``source`` and publish it (PKG-049). Raises :class:`ProgramError` or :class:`PublicationError`."""
    return publish(build_package(source), store)


def publish_archive(
    archive: bytes, store: Path, *, digest: str | None = None, program: ProgramRef | None = None
) -> Publication:
    """Publish archive bytes; a digest or program that the caller names must be the true one (PKG-060)."""
    package = verify(archive)
    if digest is not None and digest != package.descriptor.digest:
        raise ProgramError("integrity", "the archive has another digest than the one given")
    if program is not None and program != package.descriptor.program:
        raise ProgramError("integrity", "the manifest names another program than the one given")
    return publish(package, store)


def publish(package: Package, store: Path) -> Publication:
    """Store a verified package. The same content again changes nothing (PKG-052); other needs a new version (PKG-082).

    Nothing is registered by it, and nothing needs to be (PKG-065).
    """
    descriptor = package.descriptor
    blob, entry = store / blob_path(descriptor), store / descriptor_path(descriptor.program)
    try:
        _make_directories(store, blob.parent)
        _make_directories(store, entry.parent)
        _store_blob(blob, package.archive)
    except OSError as error:
        raise PublicationError("publication_storage", f"cannot write the store: {error.strerror}") from None
    return Publication(descriptor=descriptor, already_published=not _store_descriptor(entry, descriptor))


def _make_directories(store: Path, leaf: Path) -> None:
    """Create and sync every level from the store root to ``leaf``; links and other files are refused (PKG-061)."""
    missing = not store.exists()
    store.mkdir(parents=True, exist_ok=True)
    if missing:
        sync_directory(store.parent)
    levels = [store]
    for part in leaf.relative_to(store).parts:
        levels.append(levels[-1] / part)
    for level in levels:
        if level.is_symlink() or (level.exists() and not level.is_dir()):
            raise PublicationError("publication_storage", f"{level} is not a directory of its own")
        if not level.exists():
            level.mkdir(mode=0o755, exist_ok=True)
            sync_directory(level.parent)


def _store_blob(path: Path, archive: bytes) -> None:
    if not create_durably(path, archive):
        if path.is_symlink() or not path.is_file() or path.read_bytes() != archive:
            raise PublicationError("publication_storage", f"{path} exists and does not hold the archive of its name")
        sync_file(path)  # its writer may not have come that far
    sync_directory(path.parent)


def _store_descriptor(path: Path, descriptor: Descriptor) -> bool:
    """True when this publication is the new one. From here on a failure leaves the outcome open (PKG-059)."""
    raw = encode_descriptor(descriptor)
    try:
        new = create_durably(path, raw)
        if not new:
            if path.is_symlink() or not path.is_file():
                raise PublicationError("publication_storage", f"{path} is not a regular file")
            if path.read_bytes() != raw:
                label = f"{descriptor.program.id} {descriptor.program.version}"
                raise PublicationError(
                    "immutable_conflict",
                    f"{label} is already published with other content; change the version in the manifest",
                )
        sync_directory(path.parent)
    except OSError as error:
        raise PublicationError(
            "publication_outcome_unknown",
            f"cannot confirm the descriptor: {error.strerror}; publish the same content again to find out",
        ) from None
    return new
