-- for: writer reader
-- What only PostgreSQL speaks.

-- name: begin_snapshot
-- Several statements of one reader see the same.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- let first_ready: (SELECT task, nprio, vt, ctid FROM ready WHERE class = $1 ORDER BY nprio, vt, task LIMIT $2) r
-- let ready_tasks_columns: r.task, r.nprio, r.vt, @task_columns:t@, r.ctid, t.ctid
-- let ready_tasks: SELECT @ready_tasks_columns@ FROM @first_ready@ LEFT JOIN task t ON t.id = ANY (ARRAY[r.task]) ORDER BY r.nprio, r.vt, r.task
-- let first_ready_from: (SELECT task, nprio, vt, ctid FROM ready WHERE class = $1 AND (nprio, vt, task) >= ($3::bigint, $4::bigint, $5::bigint) ORDER BY nprio, vt, task LIMIT $2) r
-- let ready_tasks_from: SELECT @ready_tasks_columns@ FROM @first_ready_from@ LEFT JOIN task t ON t.id = ANY (ARRAY[r.task]) ORDER BY r.nprio, r.vt, r.task

-- name: ready_tasks
-- ready_first together with the rows of those tasks: who asks for the first will ask for them next.
@ready_tasks@;

-- name: ready_tasks_from
-- From the class's start on: see ready_starts.c.
@ready_tasks_from@;

-- name: edges_by_waiter
-- Sorted by an expression: while the table looks empty the primary key would be walked from end to end, for its order. So below.
SELECT @edge_columns@ FROM edge WHERE waiter = $1 ORDER BY pred + 0, kind;

-- name: holds_of_task
SELECT @hold_columns@ FROM hold WHERE task = $1 ORDER BY kind + 0, hold_key, rank;

-- name: size
SELECT pg_database_size(current_database());

-- for: writer bytes

-- name: barrier
-- A commit of nothing: when it is answered, the synchronous standby has everything that was visible before it. A crash of the primary and
-- an ended connection make commits visible that the standby doesn't have yet.
SELECT pg_logical_emit_message(true, 'weir', '');
