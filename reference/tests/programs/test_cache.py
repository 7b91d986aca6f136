"""The package cache: ownership, layout, verification on every hit, quota and eviction (PKG-066…076)."""

import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol3.contract.models.common import Descriptor, ProgramRef
from protocol3.programs import cache as cache_module
from protocol3.programs import cache_entry
from protocol3.programs.archive import Package
from protocol3.programs.build import build_package
from protocol3.programs.cache import PackageCache, Pin
from protocol3.programs.cache_entry import entry_bytes
from protocol3.programs.errors import ProgramError

Source = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def package(source: Source) -> Callable[..., Package]:
    def make(files: dict[str, str] | None = None, **changes: object) -> Package:
        return build_package(source(files, **changes))

    return make


def put(cache: PackageCache, package: Package) -> Pin:
    return cache.insert(package.descriptor, package.archive)


def kind_of(action: Callable[[], object]) -> str:
    with pytest.raises(ProgramError) as caught:
        action()
    return caught.value.kind


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


def test_a_package_is_extracted_read_only(root: Path, source: Source) -> None:
    """PKG-068, PKG-070: layout; modes 0444 plus execute bits and 0555."""
    directory = source({"pkg/run": "#!", "pkg/data": "x"})
    (directory / "pkg/run").chmod(0o4755)
    (directory / "empty").mkdir()
    package = build_package(directory)
    cache = PackageCache(root)
    assert cache.lookup(package.descriptor) is None
    pin = put(cache, package)
    entry = root / package.descriptor.digest[7:]
    assert names(entry) == {"artifact.zip", "descriptor.json", "content"}
    assert (entry / "artifact.zip").read_bytes() == package.archive
    assert pin.content == (entry / "content").resolve()
    modes = {str(path.relative_to(pin.content)): stat.S_IMODE(path.stat().st_mode) for path in pin.content.rglob("*")}
    assert modes == {
        "empty": 0o555, "pkg": 0o555, "pkg/run": 0o555, "pkg/data": 0o444,
        "program.py": 0o444, "ledgence-program.json": 0o444,
    }  # fmt: skip
    assert pin.manifest == package.manifest
    hit = cache.lookup(package.descriptor)
    assert hit is not None
    assert hit.is_untouched()
    assert hit.content == pin.content


@pytest.mark.parametrize("name", ["other", "0" * 63, ".staging", ".evicting-xyz", "G" * 64])
def test_a_directory_with_foreign_content_is_refused(root: Path, name: str) -> None:
    """PKG-066."""
    (root / name).mkdir(parents=True)
    assert kind_of(lambda: PackageCache(root)) == "invalid_input"
    assert names(root) == {name}


def test_the_root_is_a_real_directory(root: Path, tmp_path: Path) -> None:
    """PKG-066."""
    root.symlink_to(tmp_path)
    assert kind_of(lambda: PackageCache(root)) == "invalid_input"
    root.unlink()
    root.write_text("")
    assert kind_of(lambda: PackageCache(root)) == "invalid_input"
    root.unlink()
    root.mkdir()
    (root / ("0" * 64)).write_text("a file, not an entry")
    assert kind_of(lambda: PackageCache(root)) == "invalid_input"


def test_one_owner_at_a_time_and_pins_keep_the_lock(root: Path, package: Callable[..., Package]) -> None:
    """PKG-067."""
    cache = PackageCache(root)
    assert kind_of(lambda: PackageCache(root)) == "unavailable"
    pin = put(cache, package())
    cache.close()
    assert kind_of(lambda: PackageCache(root)) == "unavailable"
    pin.release()
    pin.release()
    PackageCache(root).close()


def test_a_package_for_another_platform_is_not_cached(
    root: Path, package: Callable[..., Package], manifest: Callable[..., dict[str, dict[str, str]]]
) -> None:
    """PKG-006, PKG-069: neither entry nor staging directory stays."""
    other = "macos" if manifest()["platform"]["os"] == "linux" else "linux"
    cache = PackageCache(root)
    assert kind_of(lambda: put(cache, package(platform__os=other))) == "incompatible"
    assert names(root) == {".lock"}


def test_a_failed_insertion_leaves_nothing_and_no_charge(
    root: Path, package: Callable[..., Package], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PKG-069."""
    small = package()
    cache = PackageCache(root, quota_bytes=entry_bytes(small))

    def fail(path: Path, *_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache_entry, "write_new", fail)
        assert kind_of(lambda: put(cache, small)) == "io"
    assert names(root) == {".lock"}
    assert put(cache, small)
    wrong = Descriptor(program=small.descriptor.program, digest=small.descriptor.digest, size=1)
    assert kind_of(lambda: cache.insert(wrong, small.archive)) == "integrity"


def damage_file(entry: Path) -> None:
    path = entry / "content/program.py"
    path.chmod(0o644)
    path.write_text("def handle(event):\n    return 2\n")
    path.chmod(0o444)


def damage_archive(entry: Path) -> None:
    path = entry / "artifact.zip"
    raw = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    path.chmod(0o444)


def add_file(entry: Path) -> None:
    (entry / "content").chmod(0o755)
    (entry / "content/extra").write_text("")
    (entry / "content/extra").chmod(0o444)
    (entry / "content").chmod(0o555)


def add_link(entry: Path) -> None:
    (entry / "content").chmod(0o755)
    (entry / "content/extra").symlink_to("program.py")
    (entry / "content").chmod(0o555)


def replace_by_link(entry: Path) -> None:
    (entry / "content").chmod(0o755)
    (entry / "content/program.py").rename(entry.parent.parent / "moved")
    (entry / "content/program.py").symlink_to(entry.parent.parent / "moved")
    (entry / "content").chmod(0o555)


@pytest.mark.parametrize(
    "damage",
    [
        damage_file,
        damage_archive,
        add_file,
        add_link,
        replace_by_link,
        lambda entry: (entry / "content/program.py").chmod(0o555),
        lambda entry: (entry / "content").chmod(0o755),
        lambda entry: (entry / "descriptor.json").unlink(),
        lambda entry: (entry / "beside").mkdir(),
        lambda entry: (entry / "content").rename(entry / "renamed"),
    ],
)
def test_damage_is_found_on_every_hit_and_never_repaired(
    root: Path, package: Callable[..., Package], damage: Callable[[Path], object]
) -> None:
    """PKG-075: neither a hit nor a silent new download."""
    cache, wanted = PackageCache(root), package()
    pin = put(cache, wanted)
    damage(root / wanted.descriptor.digest[7:])
    assert not pin.is_untouched()
    for _ in range(2):
        assert kind_of(lambda: cache.lookup(wanted.descriptor)) == "integrity"
    pin.release()
    cache.close()
    assert kind_of(lambda: PackageCache(root).lookup(wanted.descriptor)) == "integrity"


def test_a_lookup_with_another_descriptor_is_integrity(root: Path, package: Callable[..., Package]) -> None:
    """PKG-076."""
    cache, cached = PackageCache(root), package()
    put(cache, cached)
    for program, size in (("other", cached.descriptor.size), ("report", cached.descriptor.size + 1)):
        other = Descriptor(program=ProgramRef(id=program, version="1.0.0"), digest=cached.descriptor.digest, size=size)
        assert kind_of(lambda other=other: cache.lookup(other)) == "integrity"
    assert cache.lookup(cached.descriptor) is not None


def test_the_least_recently_used_unpinned_entry_makes_room(root: Path, package: Callable[..., Package]) -> None:
    """PKG-071, PKG-074."""
    one, two, three = (package({"data": letter * 1000}, program__id=letter) for letter in "abc")
    cache = PackageCache(root, quota_bytes=entry_bytes(one) + entry_bytes(two))
    pins = [put(cache, one), put(cache, two)]
    assert kind_of(lambda: put(cache, three)) == "capacity"
    for pin in pins:
        pin.release()
    used = cache.lookup(one.descriptor)
    assert used is not None
    used.release()
    put(cache, three)
    assert names(root) == {".lock", one.descriptor.digest[7:], three.descriptor.digest[7:]}
    assert cache.lookup(two.descriptor) is None


def test_a_package_larger_than_the_quota_is_invalid_input(root: Path, package: Callable[..., Package]) -> None:
    """PKG-028, PKG-071: at the quota it fits."""
    wanted = package()
    assert kind_of(lambda: put(PackageCache(root, quota_bytes=entry_bytes(wanted) - 1), wanted)) == "invalid_input"
    assert put(PackageCache(root.with_name("other"), quota_bytes=entry_bytes(wanted)), wanted)


def test_left_overs_are_removed_and_entries_charged_on_opening(root: Path, package: Callable[..., Package]) -> None:
    """PKG-071, PKG-073: what a former owner cached counts."""
    one, two = package({}, program__id="one"), package({}, program__id="two")
    first = PackageCache(root)
    put(first, one).release()
    first.close()
    shutil.copytree(root / one.descriptor.digest[7:], root / ".staging-abc")
    shutil.copytree(root / one.descriptor.digest[7:], root / ".evicting-0123abcd")
    cache = PackageCache(root, quota_bytes=max(entry_bytes(one), entry_bytes(two)))
    assert names(root) == {".lock", one.descriptor.digest[7:]}
    assert cache.lookup(one.descriptor) is not None
    assert kind_of(lambda: put(cache, two)) == "capacity"


def test_a_half_deleted_entry_is_never_offered_and_stays_charged(
    root: Path, package: Callable[..., Package], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PKG-072."""
    one, two = package({}, program__id="one"), package({}, program__id="two")
    cache = PackageCache(root, quota_bytes=max(entry_bytes(one), entry_bytes(two)) + 10)
    put(cache, one).release()

    def half(directory: Path) -> None:
        (directory / "descriptor.json").unlink()
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(cache_module, "remove_tree", half)
        assert kind_of(lambda: put(cache, two)) == "io"
    assert cache.lookup(one.descriptor) is None
    assert kind_of(lambda: put(cache, two)) == "capacity"
    assert not [name for name in names(root) if len(name) == 64]
    cache.close()
    assert put(PackageCache(root, quota_bytes=max(entry_bytes(one), entry_bytes(two)) + 10), two)
