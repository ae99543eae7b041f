-- for: reader
-- What the api shows. Each call is a snapshot of its own and short.

-- name: lanes_named
-- An empty tenant: everybody's.
SELECT id FROM lane WHERE name = $1 AND ($2 = '' OR tenant = $2) ORDER BY id;

-- name: lane_named
SELECT @lane_columns@ FROM lane WHERE name = $1 AND tenant = $2 ORDER BY id LIMIT 1;

-- name: lane_tenant
SELECT tenant FROM lane WHERE id = $1;

-- let archive_view_columns: @lane_columns:l@, @archive_columns:a@

-- name: archive_views
SELECT @archive_view_columns@ FROM archive a CROSS JOIN lane l ON l.id = a.lane ORDER BY a.lane;

-- name: archive_view
SELECT @archive_view_columns@ FROM lane l CROSS JOIN archive a ON a.lane = l.id
WHERE l.name = $1 AND ($2 = '' OR l.tenant = $2) ORDER BY l.id DESC LIMIT 1;

-- name: archive_views_page
-- By the table's key from the newest down; archives of other tenants and removed ones are passed over.
SELECT @archive_view_columns@ FROM archive a CROSS JOIN lane l ON l.id = a.lane
WHERE a.lane < $1 AND a.removed = 0 AND l.tenant = $2 ORDER BY a.lane DESC LIMIT $3;

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
SELECT t.id FROM lane l CROSS JOIN task t ON t.lane = l.id
WHERE l.name = $1 AND ($6 = '' OR l.tenant = $6) AND t.rev = $2 AND t.name = $3 AND t.variant = $4 AND t.run = $5 ORDER BY l.id, t.id DESC LIMIT 1;

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

-- name: changesets_newest
-- A walk of the tenant's change sets from the newest down; the caller stops it.
SELECT c.task, c.lane, c.movetype, t.state FROM changeset c CROSS JOIN task t ON t.id = c.task WHERE c.tenant = $2 AND c.task < $1 ORDER BY c.task DESC;

-- name: changeset_views
-- Without the paths.
SELECT @changeset_brief@, @task_columns:t@, l.name FROM changeset c CROSS JOIN task t ON t.id = c.task LEFT JOIN lane l ON l.id = c.lane WHERE c.task = $1;
