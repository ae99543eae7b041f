-- for: writer reader
-- What only PostgreSQL speaks.

-- name: begin_snapshot
-- Several statements of one reader see the same.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: head_tick
SELECT tick FROM head WHERE one = 1;

-- name: size
SELECT pg_database_size(current_database());
