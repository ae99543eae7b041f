-- for: reader
-- What the api shows, said alike by both databases; sqlite/read.sql and postgres/read.sql have the rest.

-- name: ready_of_class
-- The first of a class in the order in which they start, a walk along the primary key.
SELECT task FROM ready WHERE class = $1 ORDER BY nprio, vt, task LIMIT $2;

-- name: lane_get
SELECT @lane_columns@ FROM lane WHERE id = $1;

-- name: executor_get
SELECT @executor_columns@ FROM executor WHERE id = $1;

-- name: class_get
SELECT @class_columns@ FROM class WHERE id = $1;

-- name: slot_get
SELECT @slot_columns@ FROM slot WHERE id = $1;

-- name: task_rest
SELECT state, rest FROM task WHERE id = $1;

-- name: turns_since
-- $2 turns from the one on that holds event $1.
SELECT turn, first_seq, at, events FROM turn
WHERE first_seq >= COALESCE((SELECT MAX(first_seq) FROM turn WHERE first_seq <= $1), 0) ORDER BY first_seq LIMIT $2;

-- name: turn_get
SELECT turn, first_seq, at, events FROM turn WHERE turn = $1;

-- name: log_tail_get
SELECT @log_tail_columns@ FROM log_tail WHERE task = $1 AND grant_no = $2;
