-- The arguments of `apply` have changed. It is made after every migration; here go the ones with other arguments.

do $$
declare former regprocedure;
begin
  for former in select p.oid from pg_proc p where p.pronamespace = current_schema()::regnamespace and p.proname = 'apply'
  loop
    execute 'drop function ' || former;
  end loop;
end $$;
