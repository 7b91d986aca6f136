"""Scopes by their number: every record refers to its scope by `scope.id`."""

from __future__ import annotations

import asyncpg

from protocol3.contract.models.common import Scope

#: Scopes a process remembers; beyond that the oldest are looked up again.
REMEMBERED = 65_536

_FIND = "select id from scope where tenant = $1 and namespace = $2"
_NAME = "select tenant, namespace from scope where id = $1"
_ADD = "insert into scope (tenant, namespace) values ($1, $2) on conflict do nothing"


class Scopes:
    """Both directions, remembered: a scope's number never changes and is never removed."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record]) -> None:
        self._pool = pool
        self._numbers: dict[Scope, int] = {}
        self._scopes: dict[int, Scope] = {}

    async def find(self, scope: Scope) -> int | None:
        """The number of a scope, or None if nothing was ever stored under it. Creates nothing: reads use this."""
        known = self._numbers.get(scope)
        if known is not None:
            return known
        number: int | None = await self._pool.fetchval(_FIND, scope.tenant_id, scope.namespace)
        if number is not None:
            self._remember(number, scope)
        return number

    async def require(self, scope: Scope) -> int:
        """The number of a scope, given to it now if it is new."""
        number = await self.find(scope)
        while number is None:
            await self._pool.execute(_ADD, scope.tenant_id, scope.namespace)
            number = await self.find(scope)
        return number

    async def named(self, number: int) -> Scope:
        """The scope that a stored record refers to."""
        known = self._scopes.get(number)
        if known is not None:
            return known
        row = await self._pool.fetchrow(_NAME, number)
        if row is None:
            raise LookupError("a record refers to a scope that does not exist")
        scope = Scope(tenant_id=row["tenant"], namespace=row["namespace"])
        self._remember(number, scope)
        return scope

    def _remember(self, number: int, scope: Scope) -> None:
        if len(self._numbers) >= REMEMBERED:
            oldest = next(iter(self._numbers))
            del self._scopes[self._numbers.pop(oldest)]
        self._numbers[scope] = number
        self._scopes[number] = scope
