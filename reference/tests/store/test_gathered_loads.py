"""Every load of one row on PostgreSQL: gathered, it says the same of everybody, whatever the names look like."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from typing import Any

import pytest

from protocol3.store.clock import timed
from protocol3.store.database import open_pool
from protocol3.store.gathered import Gathering, Reader, together
from protocol3.store.loads import activations, decisions, delivery, progress, tasks, workflows

COLUMNS = {"text": "text", "int8": "bigint", "int4": "bigint", "bool": "boolean"}
TEXTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": text
    for module in (activations, decisions, delivery, progress, tasks, workflows)
    for name, text in vars(module).items()
    if isinstance(text, str) and re.match(r"\s*select\s", text) and "$" in text and "{{" not in text
}

NAMES = ["a", "A", "", " ", "a ", "'", '"', "\\", "{a,b}", "$1", "\n", "\x01", "é", "e\u0301", "😀", "y" * 2_000]
ABSENT = ["absent", "a'", "z" * 100_000]
SCOPES = range(1, 5)
NUMBERS = [*SCOPES, 0, -1, 2**63 - 1, -(2**63), None]
KEYS = [[], ["a"], NAMES]
#: Columns with few values.
WORDS = {"state": ["queued", "succeeded", "waiting"], "space": ["task", "workflow"], "kind": ["task", "drain"]}
READS = 100
#: Asked for one workflow in a list, it is one row.
LISTS = {progress._WAITS}


@pytest.mark.parametrize("virtual", [False, True], ids=["real", "virtual"])
@pytest.mark.parametrize("name", TEXTS)
async def test_every_load_can_be_gathered(pool: Any, name: str, virtual: bool) -> None:
    """With the same columns: no name in it hides the list of parameters, and every type fits."""
    text = timed(TEXTS[name], virtual=virtual)
    async with pool.acquire() as connection:
        one = await connection.prepare(text)
        columns = tuple(COLUMNS.get(parameter.name) for parameter in one.get_parameters())
        if not any(columns):
            pytest.skip("asked for a list, it is a statement for several by itself")
        several = await connection.prepare(together(text, columns))
        assert [(a.name, a.type) for a in several.get_attributes()[1:]] == [
            (a.name, a.type) for a in one.get_attributes()
        ]


def _value(chance: random.Random, column: Any, name: str) -> Any:
    if column["column_name"] in WORDS and column["data_type"] == "text":
        return chance.choice(WORDS[column["column_name"]])
    if column["is_nullable"] == "YES" and chance.random() < 0.3:
        return None
    integer = chance.choice(SCOPES)
    kinds = {"text": name, "bytea": name.encode(), "boolean": integer > 2, "ARRAY": NAMES[:3]}
    return kinds.get(column["data_type"], integer)


@pytest.fixture(scope="module")
def filled(database: str) -> str:
    """The URL of a database that has a row of each name in every table, and clocks that are ahead."""

    async def fill() -> None:
        chance = random.Random(1)
        pool = await open_pool(database, size=1)
        async with pool.acquire() as connection:
            for scope_id in SCOPES:
                text = "insert into scope (tenant, namespace, clock_offset_ms) values ('t', $1, $2)"
                await connection.execute(text, str(scope_id), scope_id * 10**9)
            columns = await connection.fetch(
                "select table_name, column_name, data_type, is_nullable from information_schema.columns "
                "where table_schema = 'protocol3' and table_name not in ('scope', 'migration') "
                "order by table_name, ordinal_position"
            )
            for table, found in itertools.groupby(columns, lambda column: column["table_name"]):
                of = list(found)
                places = ", ".join(f"${n}" for n in range(1, len(of) + 1))
                rows = [[_value(chance, column, name) for column in of] for name in NAMES]
                await connection.executemany(f"insert into {table} values ({places}) on conflict do nothing", rows)
        await pool.close()

    asyncio.run(fill())
    return database


def _asked(chance: random.Random, kinds: list[str]) -> list[Any]:
    name = chance.choice(NAMES)
    values = {
        "text": lambda: chance.choice([name] * 8 + NAMES[:3] + ABSENT + [None]),
        "int8": lambda: chance.choice([*SCOPES] * 3 + NUMBERS),
        "int4": lambda: chance.choice([0, 1, 2**31 - 1]),
        "bool": lambda: chance.random() < 0.5,
    }
    return [values.get(kind, lambda: chance.choice(KEYS))() for kind in kinds]


@pytest.mark.parametrize("virtual", [False, True], ids=["real", "virtual"])
@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if text not in LISTS])
async def test_everybody_gets_what_it_would_alone(filled: str, name: str, virtual: bool) -> None:
    """Its own row, with the clock of its own scope."""
    text, chance = timed(TEXTS[name], virtual=virtual), random.Random(name)
    pool = await open_pool(filled)
    try:
        async with pool.acquire() as connection:
            kinds = [parameter.name for parameter in (await connection.prepare(text)).get_parameters()]
            asked = [_asked(chance, kinds) for _ in range(READS)]
            if "limit $" in text:  # of a page, which has a size
                asked = [[*values[:-1], abs(values[-1] or 1) % 5] for values in asked]
            alone = [await connection.fetchrow(text, *values) for values in asked]
        gathering = Gathering(lambda: pool.acquire())

        async def read(values: list[Any]) -> Any:
            async with Reader(gathering, lambda: pool.acquire()) as reader:
                return await reader.fetchrow(text, *values)

        answers = await asyncio.gather(*map(read, asked))
    finally:
        await pool.close()
    assert [_said(row) for row in answers] == [_said(row) for row in alone]
    assert any(row is not None for row in alone)


def _said(row: Any) -> Any:
    """All but when, and where in a list."""
    return None if row is None else {key: value for key, value in row.items() if key not in ("now", "place")}
