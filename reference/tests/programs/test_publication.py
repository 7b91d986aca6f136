"""Publication to a filesystem store: order, permissions, conflicts, races, interruptions (PKG-032, PKG-049…061)."""

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from protocol3.contract.models.common import ProgramRef
from protocol3.programs import publish as publish_module
from protocol3.programs.build import build_package
from protocol3.programs.errors import ProgramError, PublicationError
from protocol3.programs.publish import Publication, publish_archive, publish_directory
from protocol3.programs.stores import FilesystemStore

Source = Callable[..., Path]


def tree(store: Path) -> dict[str, bytes]:
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_new_publication_writes_blob_and_descriptor(source: Source, tmp_path: Path) -> None:
    """PKG-032, PKG-033, PKG-051: names, bytes, read-only files, no temporary name left."""
    root, store = source(), tmp_path / "store"
    publication = publish_directory(root, store)
    archive = build_package(root).archive
    digest = hashlib.sha256(archive).hexdigest()
    program = '{"id":"report","version":"1.0.0"}'
    descriptor = f'{{"program":{program},"digest":"sha256:{digest}","size":{len(archive)}}}'.encode()
    assert not publication.already_published
    assert publication.descriptor.to_json() == json.loads(descriptor)
    assert tree(store) == {f"blobs/{digest}.zip": archive, "programs/report/1.0.0/descriptor.json": descriptor}
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.rglob("*") if path.is_file()} == {0o444}


def test_the_same_content_again_changes_nothing(source: Source, tmp_path: Path) -> None:
    """PKG-052, PKG-055."""
    store = tmp_path / "store"
    first = publish_directory(source(), store)
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    second = publish_directory(source(), store)
    assert second == Publication(descriptor=first.descriptor, already_published=True)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*") if path.is_file()} == {
        path: time for path, time in before.items() if path.is_file()
    }
    (store / "programs/report/1.0.0/descriptor.json").unlink()
    assert not publish_directory(source(), store).already_published


def test_other_content_for_a_version_is_a_conflict(source: Source, tmp_path: Path) -> None:
    """PKG-053, PKG-082: the first publication stays as it was; changed content needs another version."""
    store = tmp_path / "store"
    publish_directory(source(), store)
    before = tree(store)
    with pytest.raises(PublicationError) as caught:
        publish_directory(source({"program.py": "other = 1\n"}), store)
    assert (caught.value.code, caught.value.kind) == ("immutable_conflict", "integrity")
    assert before.items() <= tree(store).items()
    assert publish_directory(source({"program.py": "other = 1\n"}, program__version="2"), store)


def test_a_descriptor_with_other_bytes_is_a_conflict(source: Source, tmp_path: Path) -> None:
    """PKG-054: bytes decide, not meaning."""
    store = tmp_path / "store"
    publish_directory(source(), store)
    path = store / "programs/report/1.0.0/descriptor.json"
    raw = path.read_bytes()
    path.unlink()
    path.write_bytes(raw + b"\n")
    with pytest.raises(PublicationError) as caught:
        publish_directory(source(), store)
    assert caught.value.code == "immutable_conflict"


def test_a_wrong_blob_under_the_digest_is_a_storage_error(source: Source, tmp_path: Path) -> None:
    """PKG-056: no descriptor is written."""
    store = tmp_path / "store"
    package = build_package(source())
    blob = store / "blobs" / f"{package.descriptor.digest[7:]}.zip"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"something else")
    with pytest.raises(PublicationError) as caught:
        publish_archive(package.archive, store)
    assert (caught.value.code, caught.value.kind) == ("publication_storage", "io")
    assert tree(store) == {str(blob.relative_to(store)): b"something else"}


def test_of_concurrent_publishers_one_is_new(source: Source, tmp_path: Path) -> None:
    """PKG-057: six publishers, two variants; the winner's variant is already published for its likes."""
    archives = [build_package(source({"program.py": f"variant = {number}\n"})).archive for number in (1, 2)]
    for round_number in range(10):
        store = tmp_path / f"store-{round_number}"

        def attempt(number: int, store: Path = store) -> str:
            try:
                return "already" if publish_archive(archives[number % 2], store).already_published else "new"
            except PublicationError as error:
                return error.code

        with ThreadPoolExecutor(6) as pool:
            outcomes = Counter(pool.map(attempt, range(6)))
        assert outcomes == {"new": 1, "already": 2, "immutable_conflict": 3}
        assert not list(store.rglob("*.tmp"))


def test_an_interruption_before_the_descriptor_leaves_none(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PKG-050, PKG-058: the blob comes first, and repeating succeeds as new."""
    store = tmp_path / "store"

    def die(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publish_module, "_store_descriptor", die)
        with pytest.raises(KeyboardInterrupt):
            publish_directory(source(), store)
    assert [name.split("/")[0] for name in tree(store)] == ["blobs"]
    assert not publish_directory(source(), store).already_published


def test_a_failure_once_the_descriptor_may_be_visible_leaves_the_outcome_open(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PKG-059: repeating the same content finds out."""
    store = tmp_path / "store"
    publish_directory(source({}, program__version="0"), store)
    real = publish_module.sync_directory

    def fail_after_descriptor(directory: Path) -> None:
        if (directory / "descriptor.json").exists() and directory.name == "1.0.0":
            raise OSError(5, "Input/output error")
        real(directory)

    with monkeypatch.context() as patch:
        patch.setattr(publish_module, "sync_directory", fail_after_descriptor)
        with pytest.raises(PublicationError) as caught:
            publish_directory(source(), store)
    assert (caught.value.code, caught.value.kind) == ("publication_outcome_unknown", "io")
    assert publish_directory(source(), store).already_published


def test_everything_is_synced_before_the_descriptor_appears(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PKG-050, PKG-051: when the descriptor gets its name, blob and directories have been synced."""
    synced: list[str] = []
    real_sync, real_link = os.fsync, os.link

    def sync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real_sync(descriptor)

    def link(temporary: Path, path: Path, **options: bool) -> None:
        assert str(temporary) in synced
        if path.name == "descriptor.json":
            assert str(path.parent.parent.parent.parent / "blobs") in synced
            assert str(path.parent.parent) in synced
        real_link(temporary, path, **options)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "link", link)
    publish_directory(source(), tmp_path / "store")
    assert synced[-1] == str(tmp_path / "store/programs/report/1.0.0")


def test_a_stated_digest_or_program_must_be_true(source: Source, tmp_path: Path) -> None:
    """PKG-060."""
    archive = build_package(source()).archive
    right = hashlib.sha256(archive).hexdigest()
    for digest, program in (("sha256:" + "0" * 64, None), (None, ProgramRef(id="report", version="2"))):
        with pytest.raises(ProgramError) as caught:
            publish_archive(archive, tmp_path / "store", digest=digest, program=program)
        assert caught.value.kind == "integrity"
    assert not (tmp_path / "store").exists()
    program = ProgramRef(id="report", version="1.0.0")
    assert publish_archive(archive, tmp_path / "store", digest=f"sha256:{right}", program=program)


@pytest.mark.parametrize("level", ["", "blobs", "programs", "programs/report", "programs/report/1.0.0"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_store_directories_are_real(source: Source, tmp_path: Path, level: str, kind: str) -> None:
    """PKG-061."""
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = store / level
    place.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        place.symlink_to(elsewhere)
    else:
        place.write_text("")
    with pytest.raises(PublicationError) as caught:
        publish_directory(source(), store)
    assert caught.value.code == "publication_storage"
    assert not list(elsewhere.iterdir())


def test_an_archive_outside_the_profile_is_not_stored(tmp_path: Path, archive: Callable[..., bytes]) -> None:
    """PKG-026, PKG-050."""
    with pytest.raises(ProgramError):
        publish_archive(archive(leading=b"x"), tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_the_program_is_not_run(source: Source, tmp_path: Path) -> None:
    """PKG-027."""
    mark = tmp_path / "mark"
    root = source({"program.py": f"open({str(mark)!r}, 'w').close()\nraise SystemExit(3)\n"})
    assert not publish_directory(root, tmp_path / "store").already_published
    assert not mark.exists()


async def test_a_version_is_one_artifact_for_everybody(source: Source, tmp_path: Path) -> None:
    """PKG-034, PKG-065: not one per platform; published is all that it has to be."""
    store = tmp_path / "store"
    publication = publish_directory(source(platform__arch="x86_64"), store)
    with pytest.raises(PublicationError) as caught:
        publish_directory(source(platform__arch="aarch64"), store)
    assert caught.value.code == "immutable_conflict"
    resolved = await FilesystemStore(store).resolve(ProgramRef(id="report", version="1.0.0"))
    assert resolved == publication.descriptor
