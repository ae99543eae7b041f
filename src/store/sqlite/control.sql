-- for: writer reader
-- What only SQLite speaks.

-- name: begin
-- Deferred: a turn that writes nothing takes no write lock and touches no disk.
BEGIN;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;
