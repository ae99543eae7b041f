-- for: writer
-- What commit() writes. Full rows come in, so no statement reads before it writes.

-- name: lane_update
-- Tried before lane_insert: a lane is made once and counted in every turn; its name never changes, so no index is touched.
UPDATE lane SET @lane_update@ WHERE @lane_where@;

-- name: lane_insert
@lane_insert@;

-- name: class_insert
@class_insert@;

-- name: class_delete
DELETE FROM class WHERE id = $1;

-- name: spec_insert
@spec_insert@;

-- name: slot_delete
DELETE FROM slot WHERE id = $1;

-- name: slot_put
@slot_insert@ @slot_or_update@;

-- name: task_insert
-- Ids ascend, so rows land at the end of the table without a search.
@task_insert@;

-- name: task_update
-- lane, rev, name, variant and run never change and aren't set: task_key stays untouched.
UPDATE task SET @task_update@ WHERE @task_where@;

-- name: ready_insert
@ready_insert@;

-- name: ready_delete
-- By the whole key: no search, no index on task.
DELETE FROM ready WHERE @ready_where@;

-- name: edge_insert
@edge_insert@;

-- name: edge_update
UPDATE edge SET @edge_update@ WHERE @edge_where@;

-- name: hold_insert
@hold_insert@;

-- name: hold_delete
DELETE FROM hold WHERE @hold_where@;

-- name: live_insert
@live_insert@;

-- name: live_update
UPDATE live SET @live_update@ WHERE @live_where@;

-- name: live_delete
DELETE FROM live WHERE @live_where@;

-- name: attempt_insert
-- The usual end of an attempt that ran: it can't be there yet, so nothing is paid for the case that it is.
@attempt_insert@;

-- name: attempt_put
-- A late result rewrites an attempt that was recorded as lost.
@attempt_insert@ @attempt_or_update@;

-- name: attempt_delete
DELETE FROM attempt WHERE @attempt_where@;

-- name: outputs_put
@outputs_insert@ @outputs_or_update@;

-- name: log_tail_put
@log_tail_insert@ @log_tail_or_update@;

-- name: unique_put
-- The newest claim of a turn wins: a task may be created, granted, and followed by the next of its key within one turn.
@unique_key_insert@ @unique_key_or_update@;

-- name: unique_delete
-- With the task: a key that another task has taken since isn't this one's to give back.
DELETE FROM unique_key WHERE @unique_key_where@ AND task = @unique_key_more:0@;

-- name: idempotency_put
-- A key that has expired but isn't deleted yet may be used again.
@idempotency_insert@ @idempotency_or_update@;

-- name: idempotency_delete
-- At most $2 rows, the oldest first, so that one turn's share of cleaning is bounded.
DELETE FROM idempotency WHERE (tenant, token, route, key_text) IN
    (SELECT tenant, token, route, key_text FROM idempotency WHERE expires <= $1 ORDER BY expires LIMIT $2);

-- name: executor_put
@executor_insert@ @executor_or_update@;

-- name: site_put
@site_insert@ @site_or_update@;

-- name: token_insert
@token_insert@;

-- name: executor_delete
DELETE FROM executor WHERE id = $1;

-- name: token_delete
DELETE FROM token WHERE id = $1;

-- name: turn_insert
INSERT INTO turn (turn, first_seq, at, hash, events, tags) VALUES ($1, $2, $3, $4, $5, $6);

-- name: head_update
-- The last statement of a turn.
UPDATE head SET @head_update@, seal = @head_more:1@, tick = @head_more:2@ WHERE one = 1;

-- name: head_insert
-- Once, for a new store; head_update fills it.
INSERT INTO head (one, incarnation, turn, seq, hash, seal, next_task, next_spec, next_lane, next_class, next_slot, next_executor, next_token, v_now)
VALUES (1, 0, 0, 0, '', '', 1, 1, 1, 1, 1, 1, 1, 0);

-- name: meta_put
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: meta_get
SELECT value FROM meta WHERE name = $1;

-- name: meta_delete
DELETE FROM meta WHERE name = $1;

-- name: archive_put
@archive_insert@ @archive_or_update@;

-- name: revision_put
@revision_insert@ @revision_or_update@;

-- name: latest_put
@latest_insert@ @latest_or_update@;

-- name: schedule_put
@schedule_insert@ @schedule_or_update@;

-- name: changeset_put
@changeset_insert@ @changeset_or_update@;

-- name: changeset_file_insert
@changeset_file_insert@;

-- name: changeset_file_delete
DELETE FROM changeset_file WHERE @changeset_file_where@;

-- name: clock_put
INSERT INTO clock (one, @clock_columns@) VALUES (1, @clock_values@)
ON CONFLICT (one) DO UPDATE SET known_ms = excluded.known_ms, ran_ms = excluded.ran_ms, seen_ms = excluded.seen_ms;

-- name: schedule_delete
DELETE FROM schedule WHERE @schedule_where@;

-- name: outputs_delete
DELETE FROM outputs WHERE task = $1;

-- name: log_seal_put
@log_seal_insert@ @log_seal_or_update@;

-- name: log_seal_delete
DELETE FROM log_seal WHERE @log_seal_where@;

-- name: log_tails_delete
DELETE FROM log_tail WHERE task = $1;
