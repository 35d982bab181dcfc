-- Failed runs, in order of arrival: the rowid counts arrivals and is never reused (see `counter`).
--
-- `place` is createdAt and arrival, six bytes each, big-endian: one value whose bytes sort as listings do. An
-- integer of both would run out of bits for millions of records of one millisecond, and SQLite does not seek by
-- (created_at, rowid) as a pair, so equal timestamps would be scanned.
--
-- Filter values that recur are numbers from `term`, which are per tenant: an index on them needs no tenant column.
-- `bytes` is the length of `json`, kept beside it so that a page can be measured without reading it.
CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  tenant INTEGER NOT NULL,
  place BLOB NOT NULL,
  arrived_at INTEGER NOT NULL,
  workflow_url INTEGER,
  workflow_run_id TEXT,
  workflow_created_at INTEGER,
  label INTEGER,
  failure_function_state INTEGER,
  caller_ip INTEGER,
  flow_control_key INTEGER,
  url INTEGER,
  response_status INTEGER,
  dlq_ids TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  json TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX run_dlq_ids ON run (tenant, dlq_ids);
CREATE INDEX run_all ON run (tenant, place);
CREATE INDEX run_workflow_url ON run (workflow_url, place) WHERE workflow_url IS NOT NULL;
CREATE INDEX run_workflow_run_id ON run (tenant, workflow_run_id, place) WHERE workflow_run_id IS NOT NULL;
CREATE INDEX run_workflow_created_at ON run (tenant, workflow_created_at, place) WHERE workflow_created_at IS NOT NULL;
CREATE INDEX run_label ON run (label, place) WHERE label IS NOT NULL;
CREATE INDEX run_failure_function_state ON run (failure_function_state, place) WHERE failure_function_state IS NOT NULL;
CREATE INDEX run_caller_ip ON run (caller_ip, place) WHERE caller_ip IS NOT NULL;
CREATE INDEX run_flow_control_key ON run (flow_control_key, place) WHERE flow_control_key IS NOT NULL;
CREATE INDEX run_url ON run (url, place) WHERE url IS NOT NULL;
CREATE INDEX run_response_status ON run (response_status, place) WHERE response_status IS NOT NULL;

-- Tenants, with how many runs each has.
CREATE TABLE tenant (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  runs INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Filter values in use, with how many runs have each: what chooses the index for several filters.
CREATE TABLE term (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant INTEGER NOT NULL,
  filter TEXT NOT NULL,
  value TEXT NOT NULL,
  runs INTEGER NOT NULL,
  UNIQUE (tenant, filter, value)
) STRICT;

CREATE TABLE counter (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter (name, value) VALUES ('arrival', 0);

CREATE TABLE token (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
