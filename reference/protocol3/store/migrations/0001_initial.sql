-- Tables of the coordinator. Column order equals field order of protocol3.core.records; the order is tested.
-- Identifiers and keys compare by bytes (collate "C"), as the contract orders them. Application JSON is bytea, never
-- jsonb. Control tables leave room in their pages so that updates stay in place (HOT); bodies are written once.

create table scope (
  id bigint generated always as identity primary key,
  tenant text collate "C" not null,
  namespace text collate "C" not null,
  clock_offset_ms bigint not null default 0 check (clock_offset_ms >= 0),
  unique (tenant, namespace)
);

create table session (
  id text collate "C" primary key,
  scope_id bigint not null,
  queue text collate "C" not null,
  concurrency bigint not null,
  expires_at bigint not null,
  version bigint not null
);

create table cursor (
  session_id text collate "C" not null,
  consumer_id bigint not null,
  sequence bigint not null,
  task_id text collate "C",
  attempt_id text collate "C",
  version bigint not null,
  primary key (session_id, consumer_id)
) with (fillfactor = 70);

create table task (
  id text collate "C" primary key,
  scope_id bigint not null,
  queue text collate "C" not null,
  run_id text collate "C" not null,
  state text collate "C" not null,
  submitted_at bigint not null,
  available_at bigint not null,
  terminal_at bigint,
  cancel_requested_at bigint,
  attempt_count integer not null,
  current_attempt_id text collate "C",
  latest_attempt_id text collate "C",
  history_length integer not null,
  max_attempts integer not null,
  retry_delay_ms bigint not null,
  attempt_timeout_ms bigint not null,
  correlation_key text collate "C",
  workflow_id text collate "C",
  activation boolean not null,
  parent_workflow_id text collate "C",
  root_workflow_id text collate "C",
  version bigint not null
) with (fillfactor = 70);
create index task_claim on task (scope_id, queue, available_at, submitted_at, id) where state = 'queued';
create index task_list on task (scope_id, submitted_at desc, id desc);
create index task_correlation on task (scope_id, correlation_key, submitted_at desc, id desc)
  where correlation_key is not null;
create index task_owned on task (workflow_id, terminal_at) where workflow_id is not null;

create table task_body (
  task_id text collate "C" primary key,
  idempotency_key text collate "C",
  data bytea not null,
  descriptor bytea not null,
  origin_trace bytea
);

create table submission (
  scope_id bigint not null,
  space text collate "C" not null,
  key text collate "C" not null,
  subject_id text collate "C" not null,
  identity bytea not null,
  primary key (scope_id, space, key)
);

create table attempt (
  id text collate "C" primary key,
  task_id text collate "C" not null,
  number integer not null,
  lease_id text collate "C" not null,
  session_id text collate "C" not null,
  consumer_id bigint not null,
  event_id text collate "C" not null,
  claimed_at bigint not null,
  deadline bigint not null,
  authority_deadline bigint not null,
  lease_expires_at bigint not null,
  state text collate "C" not null,
  may_have_started boolean not null,
  renew_sequence bigint not null,
  renew_intent text collate "C",
  quiescence text collate "C" not null,
  settled_at bigint,
  verdict text collate "C",
  finished_at bigint,
  unique (task_id, number)
) with (fillfactor = 70);

create table settlement (
  attempt_id text collate "C" primary key,
  operation_id text collate "C" not null,
  command bytea not null,
  output bytea,
  identity bytea not null,
  accepted_at bigint not null
);

create table history (
  task_id text collate "C" not null,
  sequence integer not null,
  at bigint not null,
  reason text collate "C" not null,
  attempt_id text collate "C",
  primary key (task_id, sequence)
);

create table workflow (
  id text collate "C" primary key,
  scope_id bigint not null,
  state text collate "C" not null,
  revision bigint not null,
  activation_id text collate "C",
  submitted_at bigint not null,
  terminal_at bigint,
  correlation_key text collate "C",
  parent_id text collate "C",
  root_id text collate "C",
  owner_key text collate "C",
  depth integer not null,
  wait_key text collate "C",
  inbox_count integer not null,
  inbox_bytes integer not null,
  version bigint not null
) with (fillfactor = 70);
create index workflow_owned on workflow (parent_id, terminal_at) where parent_id is not null;

create table workflow_body (
  workflow_id text collate "C" primary key,
  idempotency_key text collate "C",
  input bytea not null,
  data bytea not null,
  descriptor bytea not null,
  origin_trace bytea,
  entrypoint text collate "C" not null
);

create table outcome (
  workflow_id text collate "C" primary key,
  kind text collate "C" not null,
  body bytea
);

create table checkpoint (
  workflow_id text collate "C" primary key,
  continuation text collate "C" not null,
  state bytea not null,
  until text[] collate "C"
);

create table activation (
  task_id text collate "C" primary key,
  workflow_id text collate "C" not null,
  revision bigint not null,
  local_count integer not null,
  local_bytes integer not null,
  fork_count integer not null,
  fork_bytes integer not null,
  new_children integer not null,
  unique (workflow_id, revision)
) with (fillfactor = 70);

create table activation_context (
  task_id text collate "C" primary key,
  continuation text collate "C" not null,
  state bytea not null,
  inputs bytea not null,
  wake bytea
);

create table local (
  activation_id text collate "C" not null,
  key text collate "C" not null,
  attempt_id text collate "C" not null,
  record bytea not null,
  identity bytea not null,
  primary key (activation_id, key)
);

create table fork (
  workflow_id text collate "C" not null,
  key text collate "C" not null,
  activation_id text collate "C" not null,
  attempt_id text collate "C" not null,
  identity bytea not null,
  primary key (workflow_id, key)
);

create table child (
  workflow_id text collate "C" not null,
  key text collate "C" not null,
  kind text collate "C" not null,
  child_id text collate "C" not null,
  fork_key text collate "C",
  identity bytea not null,
  delivered_in text collate "C",
  primary key (workflow_id, key)
) with (fillfactor = 80);
create index child_undelivered on child (workflow_id) where delivered_in is null;

create table wait (
  workflow_id text collate "C" not null,
  key text collate "C" not null,
  kind text collate "C" not null,
  deadline bigint,
  primary key (workflow_id, key)
);

create table inbox (
  workflow_id text collate "C" not null,
  key text collate "C" not null,
  source text collate "C" not null,
  event_id text collate "C" not null,
  identity bytea not null,
  size integer not null,
  accepted_at bigint not null,
  primary key (workflow_id, key),
  unique (workflow_id, source, event_id)
);

create table inbox_body (
  workflow_id text collate "C" not null,
  key text collate "C" not null,
  event bytea not null,
  primary key (workflow_id, key)
);

create table obligation (
  id text collate "C" primary key,
  scope_id bigint not null,
  kind text collate "C" not null,
  workflow_id text collate "C" not null,
  subject text collate "C" not null,
  created_at bigint not null,
  ready_real bigint not null,
  tries integer not null,
  version bigint not null
) with (fillfactor = 70);
create index obligation_ready on obligation (ready_real);
create index obligation_workflow on obligation (workflow_id);

create table agenda (
  kind text collate "C" not null,
  ref text collate "C" not null,
  scope_id bigint not null,
  due bigint not null,
  primary key (kind, ref)
);
create index agenda_due on agenda (due);

-- A record whose version a decision relied on; the caller sorts guards into the one lock order.
create type guard as (kind text, id text, part bigint, version bigint, seen boolean);

-- Locks the guarded rows in the given order and tells whether every version still holds. A seen guard is locked shared,
-- so that transitions which only rely on a record do not exclude each other.
create function lock_guards(guards guard[]) returns boolean language plpgsql as $$
declare g guard; v bigint; held boolean := true;
begin
  foreach g in array guards loop
    v := null;
    case g.kind
      when 'workflow' then
        if g.seen then select w.version into v from workflow w where w.id = g.id for share;
        else select w.version into v from workflow w where w.id = g.id for no key update; end if;
      when 'task' then
        if g.seen then select t.version into v from task t where t.id = g.id for share;
        else select t.version into v from task t where t.id = g.id for no key update; end if;
      when 'cursor' then
        if g.seen then select c.version into v from cursor c where c.session_id = g.id and c.consumer_id = g.part for share;
        else select c.version into v from cursor c where c.session_id = g.id and c.consumer_id = g.part for no key update; end if;
      when 'session' then
        if g.seen then select s.version into v from session s where s.id = g.id for share;
        else select s.version into v from session s where s.id = g.id for no key update; end if;
      when 'obligation' then select o.version into v from obligation o where o.id = g.id for update;
      when 'clock' then select s.clock_offset_ms into v from scope s where s.id = g.id::bigint for share;
    end case;
    if v is distinct from g.version then held := false; end if;
  end loop;
  return held;
end $$;

-- Locks what a claim needs, in the one lock order: sessions, cursors, then at most `most` queued tasks of the queue that
-- are due, which it never waits for. Returns the tasks. A function, because each statement of it sees what the one
-- before waited for.
create function lock_claim(sessions text[], consumers bigint[], the_scope bigint, the_queue text, most integer)
returns text[] language plpgsql as $$
declare
  now_ms bigint := floor(extract(epoch from clock_timestamp()) * 1000)::bigint
    + (select s.clock_offset_ms from scope s where s.id = the_scope);
begin
  perform from session s where s.id = any(sessions) order by s.id for share;
  perform from cursor c join unnest(sessions, consumers) as u(session_id, consumer_id) using (session_id, consumer_id)
    order by c.session_id, c.consumer_id for no key update of c;
  return (select array_agg(locked.id) from (
    select t.id from task t
    where t.scope_id = the_scope and t.queue = the_queue and t.state = 'queued' and t.available_at <= now_ms
    order by t.available_at, t.submitted_at, t.id limit most for no key update skip locked) locked);
end $$;
