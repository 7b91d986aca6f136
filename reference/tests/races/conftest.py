"""One arena for a test session: the table is played against three processes on one database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

HERE = Path(__file__).resolve()
# `races` (this room) and `system` (the tools' processes) are found behind everything that is installed.
sys.path += [str(HERE.parents[1]), str(HERE.parents[3] / "tools")]


async def _execute(dsn: str, text: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(text)
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def arena(postgres: Any, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three coordinators with test controls."""
    from races.arena import Arena  # the path is set above

    asyncio.run(_execute(postgres.dsn, f"create database races template {template}"))
    arena = Arena.start(tmp_path_factory.mktemp("races"), postgres.dsn.replace("/protocol3?", "/races?"))
    yield arena
    arena.stop()
