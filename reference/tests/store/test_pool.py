"""What the pool keeps."""

from __future__ import annotations

import sys


async def test_a_connection_is_kept_however_many_statements_it_ran(pool):
    """A new one has to learn every row type again. asyncpg would make one after 50,000 statements; it tells nobody of
    its setting, so that is looked at."""
    async with pool.acquire():
        pass
    assert pool._max_queries == sys.maxsize
    assert {holder._max_queries for holder in pool._holders} == {sys.maxsize}
