"""Records and tables are the same thing twice, and migrations run once."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files

import asyncpg
import pytest

from protocol3.store.apply_sql import apply_functions
from protocol3.store.database import DatabaseError, is_current, migrate
from protocol3.store.tables import TABLES, record_of, row_of

COLUMNS = """
select column_name, is_nullable = 'YES' as nullable from information_schema.columns
where table_schema = 'protocol3' and table_name = $1 order by ordinal_position
"""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_columns_are_the_fields(pool, table):
    """Names, order, and which may be null: rows are written and read by position and name."""
    rows = await pool.fetch(COLUMNS, table.name)
    assert [row["column_name"] for row in rows] == list(table.columns)
    annotations = table.record.__annotations__
    assert [row["nullable"] for row in rows] == ["None" in str(annotations[name]) for name in table.columns]


@pytest.mark.parametrize("table", [table for table in TABLES if table.guard], ids=lambda table: table.name)
def test_the_version_is_the_last_column(table):
    """There the engine sets it."""
    assert table.columns[-1] == "version"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_the_key_is_the_primary_key(pool, table):
    """What `apply` treats as a conflict is what the database does."""
    text = (
        "select array_agg(a.attname::text order by array_position(i.indkey::int2[], a.attnum)) from pg_index i "
        "join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey) "
        "where i.indrelid = ('protocol3.' || $1)::regclass and i.indisprimary"
    )
    assert tuple(await pool.fetchval(text, table.name)) == table.key


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
async def test_a_record_comes_back_as_it_was_written(pool, blank, table):
    """Whole-row composites, both ways."""
    record = blank(table.record)
    row = await pool.fetchval(f"select $1::{table.name}", row_of(record))
    assert record_of(table.record, row) == record


def test_only_what_is_over_is_deleted():
    """DLV-021, DLV-312, EVT-012, DLV-310: obligations and agenda entries go, everything else stays."""
    texts = [
        apply_functions(),
        *(text.read_text() for text in files("protocol3.store").joinpath("migrations").iterdir()),
    ]
    assert set(re.findall(r"\b(?:delete from|truncate)\s+(\w+)", " ".join(texts))) == {"obligation", "agenda"}


async def test_migrating_again_changes_nothing(database, pool):
    """Also with several at once: they wait for each other."""
    assert await asyncio.gather(migrate(database), migrate(database)) == [[], []]
    async with pool.acquire() as connection:
        assert await is_current(connection)


async def test_an_apply_of_before_is_gone(database, pool):
    """One with other arguments would stay beside the present one, and a server that needs the present one is told."""
    async with pool.acquire() as connection:
        await connection.execute("create function apply(guard[], text[]) returns boolean return true")
        await connection.execute("delete from migration where name = '0003_apply_anew.sql'")
        assert not await is_current(connection)
        assert await migrate(database) == ["0003_apply_anew.sql"]
        assert await connection.fetchval("select count(*) from pg_proc where proname = 'apply'") == 1


async def test_a_database_of_a_newer_version_is_refused(database, pool):
    """Neither served nor migrated: what this version writes there would not be what the newer one reads."""
    async with pool.acquire() as connection:
        before = await connection.fetchval("select xmin::text from pg_proc where proname = 'apply'")
        await connection.execute("insert into migration (name) values ('9999_later.sql')")
        try:
            with pytest.raises(DatabaseError, match="newer"):
                await is_current(connection)
            with pytest.raises(DatabaseError, match="newer"):
                await migrate(database)
        finally:
            await connection.execute("delete from migration where name = '9999_later.sql'")
        assert await connection.fetchval("select xmin::text from pg_proc where proname = 'apply'") == before


async def test_a_database_that_lacks_a_migration_is_not_current(pool):
    """A server refuses to start on it."""
    async with pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("delete from migration")
        assert not await is_current(connection)
        await transaction.rollback()


async def test_an_empty_database_is_not_current(postgres):
    """Nothing was ever migrated in the server's own database."""
    connection = await asyncpg.connect(postgres.dsn)
    assert not await is_current(connection)
    await connection.close()
