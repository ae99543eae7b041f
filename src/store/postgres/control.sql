-- for: exec
-- Run as they are while a connection is opened or a schema made; not prepared.

-- name: session
-- Every statement of ours walks an index, also while a table is so small that a scan would look cheaper: the plan is made once and kept while
-- the table grows. Joins are written `x.id = ANY (ARRAY[u.id])` for the first column of an index (the others with `=`): that finds rows
-- by the index, too, but makes no use of its order, for which a table that was empty when the plan was made (and analyzed) would be walked
-- from end to end, and our rows looked up in it.
SET statement_timeout = 0;
SET jit = off;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_nestloop = on;
SET enable_indexscan = on;
SET enable_bitmapscan = on;
SET enable_tidscan = on;
SET enable_sort = on;
-- Whatever the database or the role has by default. A turn waits for its lock first and must then see what others have committed.
SET default_transaction_isolation = 'read committed';
SET default_transaction_deferrable = off;
SET idle_in_transaction_session_timeout = '60s';
-- PostgreSQL has them since 14 and 17.
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('idle_session_timeout', 'transaction_timeout');
-- Below the time that an answer is waited for (ANSWER_MS of pg.c): the database says why.
SET lock_timeout = '10s';
SET standard_conforming_strings = on;
-- A commit whose wait for the synchronous standby was broken off is told by a warning (notice_take).
SET client_min_messages = 'warning';

-- name: session_backend
-- Before the session's settings: the role may have a statement_timeout that nothing survives. LOCAL: a pooler may give the connection away.
SET LOCAL statement_timeout = 0;
SELECT pg_backend_pid()::bigint;

-- name: session_clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: session_writable
-- Asked, not taken from what the connection was greeted with: a pooler greets with what was true when it started. 1: standby, 2: read-only.
SELECT '', pg_is_in_recovery()::int + 2 * (current_setting('default_transaction_read_only') = 'on')::int;

-- name: session_place
-- The cluster, and its timeline, which grows with each promotion; 0: a standby. The checkpoint's timeline would come late.
SELECT system_identifier::text, CASE WHEN pg_is_in_recovery() THEN 0
    ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END FROM pg_control_system();

-- name: session_durable
-- Stronger settings (remote_write, remote_apply) stay as they are.
SELECT set_config('synchronous_commit', 'on', false) FROM pg_settings WHERE name = 'synchronous_commit' AND setting IN ('off', 'local');

-- name: session_keepalive
-- A server whose network is gone gives its lock back within seconds; a unix socket ignores these.
SET tcp_keepalives_idle = 1;
SET tcp_keepalives_interval = 1;
SET tcp_keepalives_count = 3;
SET tcp_user_timeout = 3000;

-- name: session_turns
-- A server that stands still in the middle of a turn loses it, and the turn's lock with it: the others go on within seconds.
SET idle_in_transaction_session_timeout = '3s';
-- Who waits longer for his turn tells his clients that there is none: a synchronous standby may be away.
SET lock_timeout = '10s';
-- And no statement_timeout: a commit that is broken off while it waits for the standby would be answered as done.

-- name: weaknesses
-- What accepted work wouldn't survive: 1 a power cut (fsync), 2 a torn page, 4 a failover (standbys, none of them synchronous).
SELECT '', (current_setting('fsync') = 'off')::int + 2 * (current_setting('full_page_writes') = 'off')::int
    + 4 * (current_setting('synchronous_standby_names') = '' AND EXISTS (SELECT 1 FROM pg_stat_replication))::int;

-- name: session_reader
SET default_transaction_read_only = on;

-- name: session_brief
-- Of connections that the server's loop waits for: a table that somebody has locked, or a statement that lasts, is answered 503 instead.
SET lock_timeout = '1s';
SET statement_timeout = '3s';

-- name: session_hurried
-- Of those that the loop itself waits for: nobody is answered meanwhile.
SET lock_timeout = '30ms';

-- name: lock_wait
SET lock_timeout = '2s';

-- name: lock_wait_long
SET lock_timeout = '30s';

-- name: writer_lock
-- One server writes at a time; the lock ends with the connection.
SELECT pg_advisory_lock(1466263922, hashtext('writer ' || current_schema()));

-- name: writer_share
-- Servers share the store; what must be alone with it (store copy) takes the lock above.
SELECT pg_advisory_lock_shared(1466263922, hashtext('writer ' || current_schema()));

-- name: server_name
-- Held by the server of that name (its hash): two that start at the same moment, and one that stands still, are told apart too.
SELECT pg_advisory_lock(1466263922, hashtext('name ' || $1::bigint || ' ' || current_schema()));

-- name: own_backend_end
-- Before the name is asked for again: the database's process that served us before, should it not have noticed that we are gone. Not while
-- it waits for the synchronous standby: see backend_end. A pooler may have given us the same process once more.
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE pid = $1::bigint::int AND pid <> pg_backend_pid() AND application_name = current_setting('application_name') AND wait_event IS DISTINCT FROM 'SyncRep';

-- name: listen
LISTEN weir;

-- name: writer_holder
SELECT a.application_name, a.pid::bigint, a.state FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 1466263922 AND a.datname = current_database()
    AND l.objid = (hashtext('writer ' || current_schema())::bigint & 4294967295)::oid;

-- name: schema_lock
-- Two servers that start on an empty database make it once.
SELECT pg_advisory_xact_lock(1466263922, hashtext('schema ' || current_schema()));

-- name: schema_turn_lock
-- As a turn takes it.
SELECT pg_advisory_xact_lock(1466263922, hashtext('turn ' || current_schema()));

-- name: schema_lock_brief
SET LOCAL lock_timeout = '300ms';

-- name: schema_know
-- Held while a server writes: which schema it knows.
SELECT pg_advisory_lock_shared(1466263922, hashtext('knows ' || $1::bigint || ' ' || current_schema()));

-- name: schema_behind
-- The newest schema up to $1 that some server knows no further than; 0: none. The locks keep such a server from starting meanwhile.
SELECT coalesce(max(k), 0) FROM generate_series(1, $1::bigint) k
WHERE NOT pg_try_advisory_xact_lock(1466263922, hashtext('knows ' || k || ' ' || current_schema()));

-- name: schema_exists
SELECT count(*) FROM pg_class WHERE relname = 'weir_schema' AND relkind = 'r' AND relnamespace = current_schema()::regnamespace;

-- name: schema_strangers
-- Tables, views and sequences that no extension has put there.
SELECT count(*) FROM pg_class c WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relnamespace = current_schema()::regnamespace
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e');

-- name: schema_version
SELECT version FROM weir_schema;

-- name: schema_planted
-- Weir makes neither triggers nor rules; one that is there was put there.
SELECT (SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal)
    + (SELECT count(*) FROM pg_rules WHERE schemaname = current_schema());

-- name: count_beginnings
-- 0: never used. A history without a head isn't new but damaged.
SELECT (SELECT count(*) FROM head) + (SELECT count(*) FROM (SELECT 1 FROM turn LIMIT 1) t);

-- name: key_place
-- Where a server keeps verify.key: its machine, a blank, the directory.
SELECT value, 0 FROM meta WHERE name = 'key_place';

-- name: exec_begin
BEGIN;

-- name: exec_commit
COMMIT;

-- name: exec_rollback
ROLLBACK;

-- name: amcheck_there
SELECT count(*) FROM pg_extension WHERE extname = 'amcheck';

-- name: amcheck_index
-- The one of our B-trees at this place in their order, and that it has every row of its table; 0: there is none any more. One statement an
-- index: no snapshot is open for longer than one of them takes.
WITH one AS (SELECT x.indexrelid FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'btree' AND t.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'head'::regclass)
    ORDER BY x.indexrelid OFFSET $1::bigint LIMIT 1)
SELECT count(*) FROM one, LATERAL bt_index_check(one.indexrelid::regclass, true) AS checked;
