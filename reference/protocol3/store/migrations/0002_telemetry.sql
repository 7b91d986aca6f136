-- The trace context that the event of an attempt carries, fixed with the attempt; null where tracing was off.
alter table attempt add column trace bytea;

-- Open waits can be counted without a look at workflows that do not wait. No other index has this order.
create index workflow_waiting on workflow (wait_key, id) where wait_key is not null;
