"""The text of the `apply` function, derived from the table list so that records, tables and writes cannot drift.

`apply(guards, valid_until_real, done, unscheduled_kinds, unscheduled_refs, <one array per table>)` locks the guards in
the given order, compares versions, reads the clock after the locks, and writes everything or nothing. It returns false
on a miss. A unique violation (a submission key, a child key) is a miss as well and reaches the caller as that error. An
array of nothing is null. A change of the arguments needs a migration that drops the functions of before.

`apply_together` is the same for the sum of several decisions, which shall not wait for what one of them meets: a lock
that somebody else keeps is an error there.
"""

from __future__ import annotations

from protocol3.store.tables import TABLES, Table

#: Milliseconds that a sum of decisions waits for a lock: long enough for whoever is about to commit.
LOCK_MS = 10


def _write(table: Table) -> str:
    array = f"new_{table.name}"
    insert = f"insert into {table.name} as old select * from unnest({array})"
    if not table.once:
        insert += (
            f" on conflict ({', '.join(table.key)}) do update set "
            f"({', '.join(table.changing)}) = row({', '.join('excluded.' + c for c in table.changing)})"
        )
        if table.guard is not None:  # a row that no guard covered may be new, never a lost update
            insert += " where old.version = excluded.version - 1"
    return f"""  if cardinality({array}) > 0 then
    {insert};
    get diagnostics written = row_count;
    if written <> cardinality({array}) then
      raise exception 'unguarded write of {table.name}' using errcode = '40001';
    end if;
  end if;
"""


_PARAMETERS = ", ".join(f"${i + 1}" for i in range(5 + len(TABLES)))


def apply_functions() -> str:
    """`create or replace function` of both for the current table list."""
    arguments = (
        "guards guard[], valid_until_real bigint, done text[], unscheduled_kinds text[], unscheduled_refs text[], "
        + ", ".join(f"new_{t.name} {t.name}[]" for t in TABLES)
    )
    writes = "".join(_write(t) for t in TABLES)
    return f"""create or replace function apply({arguments}) returns boolean language plpgsql as $apply$
declare written bigint;
begin
  if not lock_guards(guards) then return false; end if;
  if valid_until_real <= floor(extract(epoch from clock_timestamp()) * 1000)::bigint then return false; end if;
{writes}  if cardinality(done) > 0 then delete from obligation where id = any(done); end if;
  if cardinality(unscheduled_kinds) > 0 then
    delete from agenda a using unnest(unscheduled_kinds, unscheduled_refs) as gone(kind, ref)
      where a.kind = gone.kind and a.ref = gone.ref;
  end if;
  return true;
end $apply$;
create or replace function apply_together({arguments}) returns boolean language plpgsql
  set lock_timeout = '{LOCK_MS}ms' as $apply$
begin
  return apply({_PARAMETERS});
end $apply$;
"""


#: The statements that call them; parameters in the order of the functions' arguments.
APPLY = f"select apply({_PARAMETERS})"
APPLY_TOGETHER = f"select apply_together({_PARAMETERS})"
