-- for: writer reader
-- What only SQLite speaks.

-- name: begin
-- Deferred: a turn that writes nothing takes no write lock and touches no disk.
BEGIN;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: edges_by_waiter
SELECT @edge_columns@ FROM edge WHERE waiter = $1 ORDER BY pred, kind;

-- name: holds_of_task
SELECT @hold_columns@ FROM hold WHERE task = $1 ORDER BY kind, hold_key, rank;

-- name: live_get
SELECT task, grant_no, number, executor, started, poll_seq FROM live WHERE task = $1 AND grant_no = $2;

-- for: writer

-- name: lives
SELECT task, grant_no, number, executor, started, poll_seq FROM live ORDER BY task, grant_no;

-- name: lives_forget
-- With a new incarnation: no executor can name these grants any more, though their jobs may have begun (model.h, forgotten). A walk of `live`,
-- once for a restore or a copy; never in a turn.
UPDATE live SET poll_seq = -2 - poll_seq WHERE poll_seq >= 0;
