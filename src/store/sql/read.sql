-- for: reader
-- What the api shows. Each call is a snapshot of its own and short.

-- name: lane_get
SELECT @lane_columns@ FROM lane WHERE id = $1;

-- name: executor_get
SELECT @executor_columns@ FROM executor WHERE id = $1;

-- name: class_get
SELECT @class_columns@ FROM class WHERE id = $1;

-- name: slot_get
SELECT @slot_columns@ FROM slot WHERE id = $1;

-- name: lanes_named
SELECT @lane_columns@ FROM lane WHERE name = $1 ORDER BY id;

-- name: archives_page
-- By the table's key from the newest down; archives of other tenants and removed ones are passed over.
SELECT @archive_columns@ FROM archive WHERE lane < $1 AND removed = 0 AND (SELECT tenant FROM lane WHERE id = archive.lane) = $2
ORDER BY lane DESC LIMIT $3;

-- name: count_pending
-- Decides whether a list of P is cheaper from `ready` (few) or from the task table's end (many): counted as far as that.
SELECT COUNT(*) FROM (SELECT 1 FROM ready LIMIT $1);

-- name: tasks_newest
-- A walk from the newest down; the caller stops it.
SELECT id, lane, rev, state, name FROM task WHERE id < $1 ORDER BY id DESC;

-- name: tasks_in_state
-- The comparisons let the partial index serve.
SELECT id, lane, rev, state, name FROM task WHERE state = $2 AND state <> 'P' AND state <> 'X' AND state <> 'D' AND id < $1 ORDER BY id DESC;

-- name: tasks_pending
-- Only for few rows: they are sorted.
SELECT t.id, t.lane, t.rev, t.state, t.name FROM ready r JOIN task t ON t.id = r.task WHERE r.task < $1 ORDER BY r.task DESC;

-- name: tasks_live
SELECT DISTINCT t.id, t.lane, t.rev, t.state, t.name FROM live l JOIN task t ON t.id = l.task WHERE l.task < $1 ORDER BY l.task DESC;

-- name: tasks_of_rev
-- One revision has 5,000 tasks at most: they are sorted.
SELECT id, lane, rev, state, name FROM task WHERE lane = $2 AND rev = $3 AND id < $1 ORDER BY id DESC;

-- name: task_find
SELECT id FROM task WHERE lane = $1 AND rev = $2 AND name = $3 AND variant = $4 AND run = $5 ORDER BY id DESC LIMIT 1;

-- name: task_rest
SELECT state, rest FROM task WHERE id = $1;

-- name: attempts_of_task
SELECT @attempt_columns@ FROM attempt WHERE task = $1
UNION ALL
SELECT task, grant_no, number, executor, started, 0, -1, -1, '', -1, -1, -1, NULL FROM live WHERE task = $1
ORDER BY 2;

-- name: grant_owner
SELECT e.owner FROM (SELECT executor FROM live WHERE task = $1 AND grant_no = $2
    UNION ALL SELECT executor FROM attempt WHERE task = $1 AND grant_no = $2) a JOIN executor e ON e.id = a.executor;

-- name: executor_name
SELECT name FROM executor WHERE id = $1;

-- let edge_view_columns: t.id, t.lane, t.rev, l.name, t.name, t.variant, t.run, t.state, e.kind, e.flags, t.rest

-- name: edge_views_by_pred
SELECT @edge_view_columns@ FROM edge e JOIN task t ON t.id = e.waiter JOIN lane l ON l.id = t.lane WHERE e.pred = $1 ORDER BY e.waiter, e.kind;

-- name: edge_views_by_waiter
SELECT @edge_view_columns@ FROM edge e JOIN task t ON t.id = e.pred JOIN lane l ON l.id = t.lane WHERE e.waiter = $1 ORDER BY e.pred, e.kind;

-- name: turns_since
-- From the turn that holds event $1 on; the caller stops.
SELECT turn, first_seq, at, events FROM turn
WHERE first_seq >= COALESCE((SELECT MAX(first_seq) FROM turn WHERE first_seq <= $1), 0) ORDER BY first_seq;

-- name: turn_get
SELECT turn, first_seq, at, events FROM turn WHERE turn = $1;

-- name: log_tail_get
SELECT @log_tail_columns@ FROM log_tail WHERE task = $1 AND grant_no = $2;
