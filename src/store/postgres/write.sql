-- for: writer
-- What commit() writes: one statement per table and turn, its rows as arrays, all of a turn in one round trip (pipeline). A statement that
-- has to meet a certain number of rows divides by whether it did: the error ends the whole turn on the server, before anything is committed.
-- Where rows are many and hot, each array stands in a list of its own (SELECT unnest(), unnest()): in FROM each one is first written out as a
-- table of one column, which costs an attempt's 13 columns 1 us of 3.

-- name: lane_put
@lane_insert_touched@
@lane_or_update@, touched = excluded.touched
RETURNING id, ctid;

-- name: lane_add
-- Of a narrow turn, after the head's lock: so many more than there are by now.
UPDATE lane l SET last_vt = greatest(l.last_vt + u.steps, u.last_vt), n_q = l.n_q + u.n_q, n_s = l.n_s + u.n_s, n_p = l.n_p + u.n_p, n_x = l.n_x + u.n_x,
    n_d = l.n_d + u.n_d, n_f = l.n_f + u.n_f, n_t = l.n_t + u.n_t, n_a = l.n_a + u.n_a, log_bytes = l.log_bytes + u.log_bytes,
    file_bytes = l.file_bytes + u.file_bytes, touched = $14::bigint
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
    $11::bigint[], $12::bigint[], $13::bigint[]) AS u (id, last_vt, steps, n_q, n_s, n_p, n_x, n_d, n_f, n_t, n_a, log_bytes, file_bytes)
WHERE l.id = ANY (ARRAY[u.id]);

-- name: key_place_put
INSERT INTO meta (name, value) VALUES ('key_place', $1::text) ON CONFLICT (name) DO UPDATE SET value = excluded.value
WHERE meta.value <> excluded.value;

-- name: executor_count
UPDATE executor e SET processed = e.processed + u.processed, failed = e.failed + u.failed
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (id, processed, failed) WHERE e.id = ANY (ARRAY[u.id]);

-- name: class_insert
@class_insert@;

-- name: class_delete
DELETE FROM class WHERE id = ANY ($1::bigint[]);

-- name: spec_insert
@spec_insert@;

-- name: slot_delete
DELETE FROM slot WHERE id = ANY ($1::bigint[]);

-- name: slot_put
@slot_insert_touched@
@slot_or_update@, touched = excluded.touched;

-- name: task_insert
INSERT INTO task (@task_columns@) SELECT @task_unnest@;

-- name: task_update
-- In the order of ids, as every lock is taken.
WITH put AS (
    UPDATE task t SET state = u.state, rest = u.rest FROM (SELECT @task_later_unnest@ ORDER BY 1) u
    WHERE t.id = ANY (ARRAY[u.id]) RETURNING 1)
SELECT 1 / (count(*) = @task_later_more:1@::bigint)::int FROM put;

-- name: task_update_at
-- Of tasks whose rows were read in this very turn: their places are known, no index is looked through (hence + 0).
WITH put AS (
    UPDATE task t SET state = u.state, rest = u.rest FROM (SELECT unnest($1::tid[]) AS place, @task_later_unnest:2@) u
    WHERE t.ctid = u.place AND t.id + 0 = u.id RETURNING 1)
SELECT 1 / (count(*) = @task_later_more:2@::bigint)::int FROM put;

-- name: ready_insert
INSERT INTO ready (@ready_columns@) SELECT @ready_unnest@;

-- name: ready_delete
-- By the whole key: no index on task.
WITH gone AS (
    DELETE FROM ready r USING unnest(@ready_params@) AS u (@ready_columns@)
    WHERE r.class = ANY (ARRAY[u.class]) AND r.nprio = u.nprio AND r.vt = u.vt AND r.task = u.task RETURNING 1)
SELECT 1 / (count(*) = @ready_more:1@::bigint)::int FROM gone;

-- name: ready_delete_at
-- As task_update_at.
WITH gone AS (
    DELETE FROM ready r USING (SELECT unnest($1::tid[]) AS place, unnest($2::bigint[]) AS task) u WHERE r.ctid = u.place AND r.task + 0 = u.task RETURNING 1)
SELECT 1 / (count(*) = $3::bigint)::int FROM gone;

-- name: edge_insert
@edge_insert@;

-- name: edge_update
-- Each edge is found first, by its whole key.
UPDATE edge e SET flags = u.flags FROM (SELECT x.place, v.flags FROM unnest(@edge_params@) AS v (@edge_columns@)
    CROSS JOIN LATERAL (SELECT ctid AS place FROM edge WHERE pred = v.pred AND waiter = v.waiter AND kind = v.kind OFFSET 0) x) u
WHERE e.ctid = u.place;

-- name: hold_insert
@hold_insert@;

-- name: hold_delete
DELETE FROM hold h USING unnest(@hold_key_params@) AS u (@hold_key@)
WHERE h.kind = ANY (ARRAY[u.kind]) AND h.hold_key = u.hold_key AND h.rank = u.rank AND h.task = ANY (ARRAY[u.task]);

-- name: live_insert
INSERT INTO live (@live_columns@) SELECT @live_unnest@;

-- name: live_update
-- Also of one that had been recorded as lost: attempt_delete goes with it.
@live_insert@ @live_or_update@;

-- name: live_delete
DELETE FROM live l USING (SELECT @live_key_unnest@) u WHERE l.task = ANY (ARRAY[u.task]) AND l.grant_no = u.grant_no;

-- name: many_insert
INSERT INTO live_many (block, grant_no, number, executor, started, poll_seq, bits)
SELECT block, grant_no, number, executor, started, poll_seq, bit_or(bits)
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
    AS u (block, grant_no, number, executor, started, poll_seq, bits) GROUP BY 1, 2, 3, 4, 5, 6;

-- let many_met: m.block = ANY (ARRAY[u.block]) AND m.grant_no = u.grant_no AND m.bits & u.bits <> 0

-- name: many_end
-- In the order of blocks; $4 bits have to be met. Only who has a task's lock changes its bit, so what is counted is as it was when this
-- began; other bits of the row may have been changed until it had the row's lock.
WITH u AS MATERIALIZED (SELECT block, grant_no, bit_or(bits) AS bits FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS x (block, grant_no, bits)
        GROUP BY 1, 2 ORDER BY 1, 2),
    put AS (UPDATE live_many m SET bits = m.bits & ~u.bits FROM u WHERE @many_met@)
SELECT 1 / (coalesce(sum(length(replace((m.bits & u.bits)::bit(64)::text, '0', ''))), 0) = $4::bigint)::int FROM u JOIN live_many m ON @many_met@;

-- name: many_clean
-- After many_end: who cleared the last bit of a row, having waited for whoever cleared the others, sees that.
DELETE FROM live_many WHERE block = ANY($1::bigint[]) AND bits = 0;

-- name: attempt_insert
-- The first end of an attempt: PostgreSQL writes a third more for an insert that may meet a row (ON CONFLICT).
INSERT INTO attempt (@attempt_columns@) SELECT @attempt_unnest@;

-- name: attempt_insert_same
-- What one worker reports of work that isn't a process. An array that has the same value throughout costs as much as any other: 0.1 us a row.
INSERT INTO attempt (@attempt_columns@)
SELECT unnest($1::bigint[]), unnest($2::bigint[]), $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bigint, $9::bigint, $13::text, $10::bigint,
    $11::bigint, $12::bigint, unnest($3::bytea[]);

-- name: attempt_put
-- A late result rewrites an attempt that was recorded as lost.
@attempt_insert@ @attempt_or_update@;

-- name: attempt_delete
DELETE FROM attempt a USING unnest(@attempt_key_params@) AS u (@attempt_key@) WHERE a.task = ANY (ARRAY[u.task]) AND a.grant_no = u.grant_no;

-- name: outputs_put
-- Of two for one task in a turn the last one counts; here and below.
@outputs_insert_last@ @outputs_or_update@;

-- name: log_tail_put
@log_tail_insert_last@ @log_tail_or_update@;

-- name: log_seals_longer
-- Of the hashes that a turn wants to note: the indexes of those whose log another server has noted with as many bytes, or more. A sub-select, so that
-- each is found by its key, also while the table is small.
SELECT u.n - 1 FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS u (task, grant_no, bytes, n)
WHERE (SELECT s.bytes FROM log_seal s WHERE s.task = u.task AND s.grant_no = u.grant_no) >= u.bytes ORDER BY 1;

-- name: log_seal_put
@log_seal_insert_last@ @log_seal_or_update@;

-- name: log_seal_delete
DELETE FROM log_seal s USING unnest(@log_seal_key_params@) AS u (@log_seal_key@) WHERE s.task = ANY (ARRAY[u.task]) AND s.grant_no = u.grant_no;

-- name: outputs_delete
DELETE FROM outputs WHERE task = ANY($1::bigint[]);

-- name: log_tails_delete
DELETE FROM log_tail WHERE task = ANY($1::bigint[]);

-- name: unique_put
-- The newest claim of a turn wins: a task may be created, granted, and followed by the next of its key within one turn.
@unique_key_insert_last@ @unique_key_or_update@;

-- name: unique_insert
-- Of a narrow turn: another's key, also one that is being written beside us, ends the turn.
@unique_key_insert_last@;

-- name: unique_delete
-- With the task: a key that another task has taken since isn't this one's to give back.
DELETE FROM unique_key k USING unnest(@unique_key_params@) AS u (@unique_key_columns@)
WHERE k.tenant = ANY (ARRAY[u.tenant]) AND k.key_text = u.key_text AND k.task = u.task;

-- name: idempotency_put
-- A key that has expired but isn't deleted yet may be used again.
@idempotency_insert_last@ @idempotency_or_update@;

-- name: idempotency_insert
-- As unique_insert.
@idempotency_insert_last@;

-- name: idempotency_delete
-- At most $2 rows, the oldest first, so that one turn's share of cleaning is bounded.
DELETE FROM idempotency WHERE ctid = ANY(ARRAY(SELECT ctid FROM idempotency WHERE expires <= $1 ORDER BY expires LIMIT $2));

-- name: executor_put
-- What it has done is counted by executor_count.
@executor_insert_touched@ @executor_or_update@, touched = excluded.touched;

-- name: site_put
@site_insert@ @site_or_update@;

-- name: token_insert
@token_insert@;

-- name: executor_delete
DELETE FROM executor WHERE id = ANY ($1::bigint[]);

-- name: token_delete
DELETE FROM token WHERE id = ANY($1::bigint[]);

-- name: turn_insert
INSERT INTO turn (turn, first_seq, at, hash, events, tags) VALUES ($1, $2, $3, $4, $5, $6);

-- name: notify
-- A hint for whoever follows: delivered with the commit, or never.
SELECT pg_notify('weir', $1::text);

-- name: head_update
-- The last statement of a turn, and only if nobody has written since: two servers can't continue one history.
WITH put AS (
    UPDATE head SET @head_update@, seal = @head_more:1@, tick = @head_more:2@::bigint + 1
    WHERE one = 1 AND tick = @head_more:2@ AND turn = @head_more:3@ AND hash = @head_more:4@ RETURNING 1)
SELECT 1 / count(*)::int FROM put;

-- name: head_insert
-- Once, for a new store; head_update fills it.
INSERT INTO head (one, incarnation, turn, seq, hash, seal, next_task, next_spec, next_lane, next_class, next_slot, next_executor, next_token, v_now)
VALUES (1, 0, 0, 0, '', '', 1, 1, 1, 1, 1, 1, 1, 0);

-- name: backend_end
-- The connection of this very process that was lost, should the database not have noticed yet. One that waits for the synchronous standby
-- has committed: ended now, others would see what the standby doesn't have.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::bigint::int AND pid <> pg_backend_pid() AND application_name = $2 AND wait_event IS DISTINCT FROM 'SyncRep';

-- name: archive_put
@archive_insert_touched@ @archive_or_update@, touched = excluded.touched;

-- name: revision_put
@revision_insert_last@ @revision_or_update@;

-- name: latest_put
@latest_insert_last@ @latest_or_update@;

-- name: schedule_put
@schedule_insert_last@ @schedule_or_update@;

-- name: changeset_put
@changeset_insert_last@ @changeset_or_update@;

-- name: changeset_file_insert
@changeset_file_insert@;

-- name: changeset_file_delete
DELETE FROM changeset_file f USING unnest(@changeset_file_key_params@) AS u (@changeset_file_key@)
WHERE f.lane = ANY (ARRAY[u.lane]) AND f.applied = u.applied AND f.path = u.path AND f.rank = u.rank;

-- name: clock_put
INSERT INTO clock (one, @clock_columns@) VALUES (1, @clock_values@)
ON CONFLICT (one) DO UPDATE SET known_ms = excluded.known_ms, ran_ms = excluded.ran_ms, seen_ms = excluded.seen_ms;

-- name: schedule_delete
DELETE FROM schedule s USING unnest(@schedule_key_params@) AS u (@schedule_key@)
WHERE s.lane = ANY (ARRAY[u.lane]) AND s.task = u.task AND s.cron = u.cron AND s.zone = u.zone;

-- name: clock_now
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- name: turn_begin
BEGIN;

-- What the turn meets from there on is waited for less long: a table that somebody has locked. (Longer than a server that stands still
-- keeps its rows: idle_in_transaction_session_timeout.)
-- let table_wait: set_config('lock_timeout', '4s', true)

-- name: turn_lock
-- One turn at a time, whoever takes it; the lock ends with the transaction.
SELECT pg_advisory_xact_lock(1466263922, hashtext('turn ' || current_schema())), @table_wait@;

-- name: turn_share
-- A narrow turn: beside those of other servers, not beside a wide one.
SELECT pg_advisory_xact_lock_shared(1466263922, hashtext('turn ' || current_schema())), @table_wait@;

-- name: tables_look
-- In a transaction that comes to nothing: could a turn write?
LOCK TABLE head, mark, lane, class, spec, slot, task, ready, edge, hold, live, live_many, attempt, outputs, log_tail, log_seal, unique_key, idempotency, executor, turn
    IN ROW EXCLUSIVE MODE;

-- name: tables_brief
SET LOCAL lock_timeout = '50ms';

-- name: mark_put
INSERT INTO mark (server, nonce) VALUES ($1, $2) ON CONFLICT (server) DO UPDATE SET nonce = excluded.nonce;

-- name: head_lock
-- The last lock of a narrow turn.
SELECT @head_row@, 0::bigint, ctid FROM head WHERE one = 1 FOR UPDATE OF head;

-- name: head_time
-- Behind head_lock, which may have waited: a sub-select there would have the snapshot of before the wait, and an older turn's time.
SELECT at FROM turn WHERE first_seq > 0 ORDER BY first_seq DESC LIMIT 1;

-- name: mark_get
SELECT nonce FROM mark WHERE server = $1;

-- name: server_put
INSERT INTO server (@server_columns@) VALUES (@server_values@) @server_or_update@;

-- name: duty_put
@duty_insert@ @duty_or_update@;

-- name: lanes_touched
SELECT @lane_columns@ FROM lane WHERE touched > $1 ORDER BY id;

-- name: classes_above
SELECT @class_columns@ FROM class WHERE id >= $1 ORDER BY id;

-- name: slots_touched
SELECT @slot_columns@ FROM slot WHERE touched > $1 ORDER BY id;

-- name: executors_touched
SELECT @executor_columns@ FROM executor WHERE touched > $1 ORDER BY id;

-- name: archives_touched
SELECT @archive_columns@ FROM archive WHERE touched > $1 ORDER BY lane;

-- name: duties
SELECT @duty_columns@ FROM duty ORDER BY name;

-- name: tasks_ahead
SELECT @task_columns@ FROM task WHERE id = ANY($1::bigint[]);

-- name: tasks_ahead_lock
-- In the order of ids, as every lock is taken.
SELECT @task_columns@ FROM task WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE;

-- name: tasks_ahead_take
-- Of what a narrow turn needs later on: see below.
SELECT @task_columns@ FROM task WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE NOWAIT;

-- name: task_get_lock
-- What a narrow turn didn't know before it began isn't waited for, here and below: so no two wait for each other.
SELECT @task_columns@ FROM task WHERE id = $1 FOR UPDATE NOWAIT;

-- name: archives_lock
-- The first locks of a narrow turn.
SELECT @archive_columns@ FROM archive WHERE lane = ANY($1::bigint[]) ORDER BY lane FOR UPDATE;

-- name: archive_lock
SELECT @archive_columns@ FROM archive WHERE lane = $1 FOR UPDATE NOWAIT;

-- name: slot_lock
SELECT @slot_columns@ FROM slot WHERE id = $1 FOR UPDATE NOWAIT;

-- name: slot_lock_wait
-- Only behind slots with smaller numbers; nobody who has one waits for a task.
SELECT @slot_columns@ FROM slot WHERE id = $1 FOR UPDATE;

-- name: task_numbers
SELECT nextval('task_number') FROM generate_series(1, $1::bigint);

-- name: task_numbers_set
-- Of a wide turn. It holds whether the turn is committed or not: a gap at most.
SELECT setval('task_number', $1::bigint);

-- In the order of $1: a loop that ends with the first $2 rows, however many wait for these.
-- let few_edges: unnest($1::bigint[]) p (id) CROSS JOIN LATERAL (SELECT @edge_columns@ FROM edge WHERE pred = p.id ORDER BY waiter, kind LIMIT $2) e LIMIT $2

-- name: waiters_ahead_lock
SELECT @task_columns@ FROM task WHERE id = ANY(ARRAY(SELECT e.waiter FROM @few_edges@)) ORDER BY id FOR UPDATE;

-- name: waiters_ahead_take
SELECT @task_columns@ FROM task WHERE id = ANY(ARRAY(SELECT e.waiter FROM @few_edges@)) ORDER BY id FOR UPDATE NOWAIT;

-- name: ready_tasks_lock
-- Those that nobody else has locked. The task is locked too: who looks at it for another reason waits for what comes of it.
SELECT r.task, r.nprio, r.vt, @task_columns:t@, r.place, t.place
FROM (SELECT task, nprio, vt, ctid AS place FROM ready WHERE class = $1 ORDER BY nprio, vt, task LIMIT $2 FOR UPDATE SKIP LOCKED) r
JOIN LATERAL (SELECT @task_columns@, ctid AS place FROM task WHERE id = r.task FOR UPDATE SKIP LOCKED) t ON true
ORDER BY r.nprio, r.vt, r.task;

-- name: ready_tasks_lock_from
-- As ready_tasks_lock.
SELECT r.task, r.nprio, r.vt, @task_columns:t@, r.place, t.place
FROM (SELECT task, nprio, vt, ctid AS place FROM ready WHERE class = $1 AND (nprio, vt, task) >= ($3::bigint, $4::bigint, $5::bigint)
    ORDER BY nprio, vt, task LIMIT $2 FOR UPDATE SKIP LOCKED) r
JOIN LATERAL (SELECT @task_columns@, ctid AS place FROM task WHERE id = r.task FOR UPDATE SKIP LOCKED) t ON true
ORDER BY r.nprio, r.vt, r.task;

-- name: ready_lowest
-- Also what others have locked.
SELECT task, nprio, vt FROM ready WHERE class = $1 AND (nprio, vt, task) >= ($3::bigint, $4::bigint, $5::bigint) ORDER BY nprio, vt, task LIMIT ($2::bigint > 0)::int;

-- name: ready_news
SELECT id, state, rest FROM task WHERE id = ANY($1::bigint[]);

-- name: ready_classes
-- Each is found from the one before: a step in the index for each class, however many tasks they have.
WITH RECURSIVE c (class) AS (
    SELECT 0::bigint
    UNION ALL SELECT r.class FROM c CROSS JOIN LATERAL (SELECT class FROM ready WHERE class > c.class ORDER BY class LIMIT 1) r)
SELECT class FROM c WHERE class > 0;

-- name: ready_count
-- $2 at most.
SELECT count(*) FROM (SELECT 1 FROM ready WHERE class = $1 ORDER BY nprio, vt, task LIMIT $2) r;

-- name: ready_count_from
SELECT count(*) FROM (SELECT 1 FROM ready WHERE class = $1 AND (nprio, vt, task) >= ($3::bigint, $4::bigint, $5::bigint) ORDER BY nprio, vt, task LIMIT $2) r;

-- name: edges_ahead
SELECT @edge_columns:e@ FROM @few_edges@;

-- name: waiters_ahead
SELECT @task_columns@ FROM task WHERE id = ANY(ARRAY(SELECT e.waiter FROM @few_edges@));

-- Attempts that run are rows of `live`, or bits of live_many; the last column says which.
-- let many_columns: m.grant_no, m.number, m.executor, m.started, m.poll_seq
-- let many_each: live_many m CROSS JOIN LATERAL generate_series(m.block << 6, (m.block << 6) + 63) i (task) WHERE m.bits >> (i.task & 63)::int & 1 = 1
-- let many_of: live_many m ON m.block = ANY (ARRAY[t.id >> 6]) AND m.bits >> (t.id & 63)::int & 1 = 1

-- name: lives
SELECT @live_columns@, 0::bigint FROM live UNION ALL SELECT i.task, @many_columns@, 1 FROM @many_each@;

-- name: live_get
-- Tried before attempt_get: who asks for an attempt mostly means the one that runs.
SELECT @live_columns@, 0::bigint FROM live WHERE task = $1 AND grant_no = $2
UNION ALL SELECT t.id, @many_columns@, 1 FROM (SELECT $1::bigint AS id) t JOIN @many_of@ WHERE m.grant_no = $2;

-- name: lives_ahead
SELECT @live_columns@, 0::bigint FROM live WHERE task = ANY($1::bigint[])
UNION ALL SELECT t.id, @many_columns@, 1 FROM unnest($1::bigint[]) AS t (id) JOIN @many_of@;

-- name: turn_of
-- Of the turn that the event is in.
SELECT hash FROM turn WHERE first_seq <= $1 ORDER BY first_seq DESC LIMIT 1;

-- name: turns_others
-- A few turns more than are taken over: then it is too much.
SELECT turn, first_seq, at, events FROM turn WHERE first_seq > $1 ORDER BY first_seq LIMIT $2;
