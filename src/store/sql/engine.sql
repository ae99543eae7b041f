-- for: writer
-- What only the engine loads.

-- name: ready_first
-- A walk along the primary key from the class's first entry: its cost doesn't grow with the queue.
SELECT task, nprio, vt FROM ready WHERE class = $1 ORDER BY nprio, vt, task LIMIT $2;

-- name: holds_due
SELECT @hold_columns@ FROM hold WHERE kind = $1 AND hold_key <= $2 ORDER BY hold_key, rank, task LIMIT $3;

-- name: holds_after
-- A walk along the primary key, a batch a turn.
SELECT @hold_columns@ FROM hold WHERE kind = $1 AND (hold_key, rank, task) > ($2, $3, $4)
ORDER BY hold_key, rank, task LIMIT $5;

-- name: clock_get
SELECT @clock_columns@ FROM clock WHERE one = 1;

-- name: unique_get
SELECT task FROM unique_key WHERE tenant = $1 AND key_text = $2;

-- name: idempotency_get
SELECT @idempotency_columns@ FROM idempotency WHERE tenant = $1 AND token = $2 AND route = $3 AND key_text = $4;

-- name: latest_get
SELECT @latest_columns@ FROM latest WHERE lane = $1 AND name = $2 AND variant = $3;

-- name: task_upto
-- The newest at or below a revision; second runs don't count.
SELECT id, rev FROM task WHERE lane = $1 AND name = $2 AND variant = $3 AND rev <= $4 AND rev IS NOT NULL AND run = 0 ORDER BY rev DESC LIMIT 1;

-- name: task_of_key
SELECT id, run FROM task WHERE lane = $1 AND rev = $2 AND name = $3 AND variant = $4 AND run = $5 AND rev IS NOT NULL LIMIT 1;

-- name: task_last_run
SELECT id, run FROM task WHERE lane = $1 AND rev = $2 AND name = $3 AND variant = $4 AND rev IS NOT NULL ORDER BY run DESC LIMIT 1;

-- name: tasks_open
-- For the removal of an archive: walks its history once.
SELECT id FROM task WHERE lane = $1 AND rev IS NOT NULL AND state <> 'D' AND state <> 'F' AND state <> 'T' AND state <> 'A' ORDER BY rev LIMIT $2;

-- name: ids_after
-- Pruning walks the history, a batch a turn.
SELECT id FROM task WHERE id > $1 ORDER BY id LIMIT $2;
