-- for: reader
-- What the api shows, with as few round trips as can be.

-- let task_view_columns: @task_columns:t@, l.name, l.tenant, l.kind

-- name: task_view
SELECT @task_view_columns@ FROM task t LEFT JOIN lane l ON l.id = ANY (ARRAY[t.lane]) WHERE t.id = $1;

-- name: task_views
SELECT @task_view_columns@ FROM task t LEFT JOIN lane l ON l.id = ANY (ARRAY[t.lane]) WHERE t.id = ANY($1::bigint[]) ORDER BY t.id DESC;

-- name: attempt_views
SELECT @attempt_columns:a@, e.name
FROM (SELECT @attempt_columns@ FROM attempt WHERE task = ANY($1::bigint[])
    UNION ALL
    SELECT task, grant_no, number, executor, started, 0, -1, -1, '', -1, -1, -1, NULL FROM live WHERE task = ANY($1)
    UNION ALL
    SELECT t.id, m.grant_no, m.number, m.executor, m.started, 0, -1, -1, '', -1, -1, -1, NULL FROM unnest($1) AS t (id) JOIN @many_of@) a
LEFT JOIN executor e ON e.id = ANY (ARRAY[a.executor]) ORDER BY a.task DESC, a.grant_no;

-- name: grant_owner
SELECT e.owner FROM (SELECT executor FROM live WHERE task = $1 AND grant_no = $2
    UNION ALL SELECT m.executor FROM (SELECT $1::bigint AS id) t JOIN @many_of@ WHERE m.grant_no = $2
    UNION ALL SELECT executor FROM attempt WHERE task = $1 AND grant_no = $2) a JOIN executor e ON e.id = ANY (ARRAY[a.executor]);

-- let edge_view_columns: t.id, t.lane, t.rev, l.name, t.name, t.variant, t.run, t.state, e.kind, e.flags, t.rest

-- name: edge_views_by_pred
SELECT @edge_view_columns@ FROM edge e JOIN task t ON t.id = ANY (ARRAY[e.waiter]) JOIN lane l ON l.id = ANY (ARRAY[t.lane]) WHERE e.pred = $1 ORDER BY e.waiter + 0, e.kind;

-- name: edge_views_by_waiter
SELECT @edge_view_columns@ FROM edge e JOIN task t ON t.id = ANY (ARRAY[e.pred]) JOIN lane l ON l.id = ANY (ARRAY[t.lane]) WHERE e.waiter = $1 ORDER BY e.pred + 0, e.kind;

-- name: need_views
SELECT e.waiter, @edge_view_columns@ FROM edge e JOIN task t ON t.id = ANY (ARRAY[e.pred]) JOIN lane l ON l.id = ANY (ARRAY[t.lane])
WHERE e.waiter = ANY($1::bigint[]) ORDER BY e.waiter DESC, e.pred, e.kind;

-- name: outputs_of
SELECT @outputs_columns@ FROM outputs WHERE task = ANY($1::bigint[]) ORDER BY task DESC;

-- name: lanes_named
-- Not in the order of a key: a walk along it would do without sorting.
SELECT id FROM lane WHERE name = $1 AND ($2::text = '' OR tenant = $2) ORDER BY id + 0;

-- name: count_pending
-- Decides whether a list of P is cheaper from `ready` (few) or from the task table's end (many): counted as far as that, along the key,
-- so that it ends there.
SELECT count(*) FROM (SELECT 1 FROM ready ORDER BY class, nprio, vt, task LIMIT $1) r;

-- A list takes $6 rows below $1 from the narrowest source there is, keeps those that fit ($2 lanes, NULL: all; $3 rev, 0: all; $4 states;
-- $5 name, empty: all; $7 tenant, empty: all), and says with a row of kind 1 how far down it came, when there may be more. Whose lanes they
-- are is looked up for those of the window, however many the tenant has.
-- let of_tenant: $7::text = '' OR lane IN (SELECT l.id FROM lane l WHERE l.id = ANY (ARRAY(SELECT DISTINCT lane FROM w)) AND l.tenant = $7)
-- let fit: ($2::bigint[] IS NULL OR lane = ANY($2)) AND ($3::bigint = 0 OR rev = $3) AND state = ANY($4::text[]) AND ($5::text = '' OR name = $5) AND (@of_tenant@)
-- let page: SELECT 0::bigint, id FROM w WHERE @fit@ UNION ALL SELECT 1::bigint, min(id) FROM w HAVING count(*) >= $6
-- let narrow: t.id, t.lane, t.rev, t.state, t.name

-- name: tasks_newest
WITH w AS MATERIALIZED (SELECT @narrow@ FROM task t WHERE t.id < $1 ORDER BY t.id DESC LIMIT $6) @page@;

-- name: tasks_in_state
-- Q, S, F, T, A: `listed` is the state of these, and the only column of them that an index has. Said as a range: `=` would let it walk the
-- table's own key downwards, past all others, while there are few.
WITH w AS MATERIALIZED (SELECT @narrow@ FROM task t WHERE (t.listed, t.id) < ($8, $1) AND t.listed >= $8 ORDER BY t.listed DESC, t.id DESC LIMIT $6) @page@;

-- name: tasks_pending
-- Only for few rows: they are sorted.
WITH w AS MATERIALIZED (SELECT @narrow@ FROM ready r JOIN task t ON t.id = ANY (ARRAY[r.task]) WHERE r.task < $1 ORDER BY r.task DESC LIMIT $6) @page@;

-- name: tasks_live
-- Block by block, so that it ends with the limit.
WITH w AS MATERIALIZED (SELECT @narrow@ FROM (SELECT DISTINCT task FROM (
        (SELECT DISTINCT task FROM live WHERE task < $1 ORDER BY task DESC LIMIT $6)
        UNION ALL
        (SELECT i.task FROM @many_each@ AND m.block <= $1 >> 6 AND i.task < $1 ORDER BY m.block DESC, i.task DESC LIMIT $6)) x
        ORDER BY task DESC LIMIT $6) x
    JOIN task t ON t.id = ANY (ARRAY[x.task])) @page@;

-- name: tasks_of_rev
-- One revision has 5,000 tasks at most: they are sorted.
WITH w AS MATERIALIZED (SELECT @narrow@ FROM task t WHERE t.lane = ANY($2::bigint[]) AND t.rev = $3 AND t.id < $1
    ORDER BY t.id DESC LIMIT $6) @page@;

-- name: task_find
-- From the lane to its tasks: the planner would look through all tasks of that name.
SELECT t.id FROM lane l CROSS JOIN LATERAL (SELECT id FROM task
    WHERE lane = l.id AND rev = $2 AND rev IS NOT NULL AND name = $3 AND variant = $4 AND run = $5 OFFSET 0) t
WHERE l.name = $1 AND ($6::text = '' OR l.tenant = $6) ORDER BY l.id + 0, t.id DESC LIMIT 1;

-- name: archive_views
SELECT @lane_columns:l@, @archive_columns:a@ FROM archive a JOIN lane l ON l.id = ANY (ARRAY[a.lane]) ORDER BY a.lane;

-- name: archive_views_page
-- By the table's key from the newest down; archives of other tenants and removed ones are passed over. Joined so that it can't begin at lanes,
-- most of which may be queues.
SELECT @lane_columns:l@, @archive_columns:a@ FROM archive a JOIN lane l ON l.id = ANY (ARRAY[a.lane])
WHERE a.lane < $1 AND a.removed = 0 AND l.tenant = $2 ORDER BY a.lane DESC LIMIT $3;

-- name: changesets_newest
-- As the lists of tasks: $3 of the tenant's ($2) change sets below $1; those that fit ($4 lane, 0: all; $5 move type, 0: all; $6 states), and with kind 1
-- how far down it came. Said as a range: `=` would let it walk the table's own key downwards, past all others, while there are few.
WITH w AS MATERIALIZED (SELECT c.task, c.lane, c.movetype FROM changeset c WHERE (c.tenant, c.task) < ($2, $1) AND c.tenant >= $2
    ORDER BY c.tenant DESC, c.task DESC LIMIT $3)
SELECT 0::bigint, w.task FROM w JOIN task t ON t.id = ANY (ARRAY[w.task])
WHERE ($4::bigint = 0 OR w.lane = $4) AND ($5::bigint = 0 OR w.movetype = $5) AND t.state = ANY ($6::text[])
UNION ALL SELECT 1::bigint, min(task) FROM w HAVING count(*) >= $3;

-- name: changeset_views
SELECT @changeset_brief@, @task_columns:t@, l.name FROM unnest($1::bigint[]) AS u (task)
CROSS JOIN LATERAL (SELECT @changeset_columns@ FROM changeset WHERE task >= u.task AND task <= u.task ORDER BY task LIMIT 1) c
JOIN task t ON t.id = ANY (ARRAY[u.task]) JOIN lane l ON l.id = ANY (ARRAY[c.lane]) ORDER BY c.task DESC;

-- name: lane_named
SELECT @lane_columns@ FROM lane WHERE name = $1 AND tenant = $2 ORDER BY id + 0 LIMIT 1;

-- name: archive_view
SELECT @lane_columns:l@, @archive_columns:a@ FROM lane l JOIN archive a ON a.lane = ANY (ARRAY[l.id]) WHERE l.name = $1 AND ($2::text = '' OR l.tenant = $2) ORDER BY l.id + 0 DESC LIMIT 1;

-- name: servers
SELECT @server_columns@ FROM server ORDER BY name;
