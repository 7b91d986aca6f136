"""Start, stop and sudden death of the embedded PostgreSQL, with real servers."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from protocol3.store.embedded import EmbeddedPostgres, EmbeddedPostgresError
from protocol3.store.embedded.folders import SOCKET_FOLDER_BYTES

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can hand over to another account")


@contextlib.asynccontextmanager
async def connected(arguments: Mapping[str, Any]) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(**arguments)
    try:
        yield connection
    finally:
        connection.terminate()  # its server may be gone


def gone(pid: int) -> bool:
    """Wait until a process has ended (a zombie counts as ended)."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (OSError, IndexError):
            return True
        time.sleep(0.01)
    return False


async def test_starts_without_postgres_on_path_and_stops_clean(query, monkeypatch, folder):
    """The binaries come from the package, durability is on, no TCP port is open, nothing stays behind."""
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("PGDATABASE", "elsewhere")
    with EmbeddedPostgres(ephemeral=True) as database:
        base, pid = database.base, database.pid
        assert await query(database.connect_kwargs, "select current_user || ' ' || current_database()") == (
            "protocol3 protocol3"
        )
        for name, value in {
            "fsync": "on",
            "full_page_writes": "on",
            "synchronous_commit": "on",
            "listen_addresses": "",
            "server_encoding": "UTF8",
            "idle_in_transaction_session_timeout": "30s",
        }.items():
            assert await query(database.connect_kwargs, f"show {name}") == value
        if os.geteuid() == 0:
            assert Path(f"/proc/{pid}").stat().st_uid != 0
        assert (base / "socket").stat().st_mode & 0o777 == 0o700
    assert gone(pid)
    assert not base.exists()


async def test_an_ordinary_user_can_start_it(query, launch, folder):
    """As root the test becomes nobody; run by an ordinary user it is one already."""
    if os.geteuid() != 0:
        _, ready = launch(folder / "base")
    else:
        from protocol3.store.embedded.accounts import account_for
        from protocol3.store.embedded.binaries import find_binaries, made_reachable

        binaries = made_reachable(find_binaries(), account_for(folder / "none"))
        folder.chmod(0o777)
        _, ready = launch(
            folder / "base", "--as", "nobody", environment={"PROTOCOL3_POSTGRES_BIN": str(binaries.folder)}
        )
    assert await query(ready, "select 1") == 1


async def test_data_outlives_every_sudden_death(query, launch, folder):
    """kill -9 of the server, then of the launcher: each time the next start has what was committed."""
    database = EmbeddedPostgres(folder / "base").start()
    await query(database.connect_kwargs, "create table t (x int)", "insert into t values (1)", "select 1")
    os.kill(database.pid, signal.SIGKILL)
    assert database.wait() == -signal.SIGKILL
    database.stop()

    launcher, ready = launch(folder / "base")
    assert await query(ready, "insert into t values (2)", "select count(*) from t") == 2
    with pytest.raises(EmbeddedPostgresError, match=rf"{folder}/base is in use .*process {launcher.pid}.*--data-dir"):
        EmbeddedPostgres(folder / "base").start()
    launcher.kill()
    launcher.wait()

    with EmbeddedPostgres(folder / "base") as database:
        assert gone(ready["pid"])
        assert await query(database.connect_kwargs, "select count(*) from t") == 2


async def test_a_server_that_outlived_its_launcher_is_stopped_first(query, launch, folder):
    launcher, orphan = launch(folder / "base", "--unfollowed")
    launcher.kill()
    launcher.wait()
    assert await query(orphan, "create table t (x int)", "insert into t values (1)", "select 1") == 1
    with EmbeddedPostgres(folder / "base") as database:
        assert gone(orphan["pid"])
        assert await query(database.connect_kwargs, "select count(*) from t") == 1


async def test_a_start_waits_for_the_last_sessions_of_a_killed_server(query, folder):
    """A session that computes does not notice at once that its server is gone, and PostgreSQL rightly refuses."""
    database = EmbeddedPostgres(folder / "base").start()
    async with connected(database.connect_kwargs) as connection:
        await connection.execute("set statement_timeout = 0")
        busy = asyncio.create_task(
            connection.execute(
                "do $$ declare e timestamptz := clock_timestamp() + interval '1 second';"
                " begin while clock_timestamp() < e loop end loop; end $$"
            )
        )
        active = "select count(*) from pg_stat_activity where query like 'do %' and state = 'active'"
        while not await query(database.connect_kwargs, active):
            pass
        os.kill(database.pid, signal.SIGKILL)
        database.wait()
        database.stop()
        with EmbeddedPostgres(folder / "base") as again:
            assert await query(again.connect_kwargs, "select 1") == 1
        await asyncio.gather(busy, return_exceptions=True)


async def test_long_paths_and_open_clients(folder):
    """The socket moves to /tmp when its path would be too long; a connected client does not delay the stop."""
    database = EmbeddedPostgres(folder / ("long-" * 20)).start()
    socket, pid = Path(database.connect_kwargs["host"]), database.pid
    assert len(os.fsencode(socket)) <= SOCKET_FOLDER_BYTES
    async with connected(database.connect_kwargs) as connection:
        assert await connection.fetchval("select 1") == 1
        database.stop()
        database.stop()
    assert gone(pid)
    assert not socket.exists()
    assert "shut down" in database.log.read_text()


@as_root
def test_root_is_told_when_the_account_cannot_reach_the_folder(tmp_path):
    (tmp_path / "private").mkdir(mode=0o700)
    with pytest.raises(EmbeddedPostgresError, match=r"cannot enter .*--data-dir"):
        EmbeddedPostgres(tmp_path / "private/base").start()
