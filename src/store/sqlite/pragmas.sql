-- for: exec
-- Run as they are, not prepared.

-- name: pragma_create
-- Only a new, empty file takes these.
PRAGMA page_size = 4096;
PRAGMA auto_vacuum = NONE;

-- name: pragma_writer
-- Checkpoints are made by a thread of their own (checkpoint.c). The WAL is used over and over; what a burst made of it is cut back to 64 MiB.
-- Debian's SQLite overwrites what is deleted with zeros, which writes pages that nobody reads: nothing secret is kept here but hashes.
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA journal_size_limit = 67108864;
PRAGMA cache_size = -32768;
PRAGMA secure_delete = OFF;

-- name: pragma_reader
PRAGMA query_only = ON;
PRAGMA cache_size = -2048;

-- name: application_id
PRAGMA application_id;

-- name: user_version
PRAGMA user_version;

-- name: page_size
PRAGMA page_size;

-- name: count_objects
SELECT count(*) FROM sqlite_schema;

-- name: count_planted
-- Weir makes none of these; one that is there was put there.
SELECT count(*) FROM sqlite_schema WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%';

-- name: count_beginnings
-- 0: never used. A history without a head isn't new but damaged.
SELECT (SELECT count(*) FROM head) + (SELECT count(*) FROM (SELECT 1 FROM turn LIMIT 1));

-- name: quick_check
PRAGMA quick_check(1);

-- name: quick_check_head
-- For a store too large to be looked through at every start.
PRAGMA quick_check('head');

-- name: integrity_check
PRAGMA integrity_check(1);

-- name: begin_immediate
BEGIN IMMEDIATE;

-- name: migration_commit
COMMIT;

-- name: migration_rollback
ROLLBACK;

-- name: pragma_all
PRAGMA foreign_keys = OFF;
PRAGMA temp_store = MEMORY;
PRAGMA mmap_size = 0;
PRAGMA trusted_schema = OFF;
PRAGMA cell_size_check = ON;

-- name: pragma_checkpoint
-- synchronous = FULL syncs the WAL before its pages are copied and the database after; the log is only ever cut by the writer.
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA cache_size = -256;

-- name: pragma_single_file
-- A copy that travels: everything in one file, durable when the statement returns.
PRAGMA journal_mode = DELETE;
PRAGMA synchronous = FULL;

-- name: backup_log_create
-- Only in a backup: logs in parts, in the order they are to be written back. (Restoring makes it too: an older backup has none.)
CREATE TABLE IF NOT EXISTS backup_log (
    id INTEGER PRIMARY KEY, task BIGINT NOT NULL, grant_no BIGINT NOT NULL, packed BIGINT NOT NULL, start_byte BIGINT NOT NULL, bytes BLOB NOT NULL);

-- name: backup_log_drop
DROP TABLE backup_log;

-- name: backup_blob_create
-- Likewise kept files.
CREATE TABLE IF NOT EXISTS backup_blob (id INTEGER PRIMARY KEY, hash TEXT NOT NULL, start_byte BIGINT NOT NULL, bytes BLOB NOT NULL);

-- name: backup_blob_drop
DROP TABLE backup_blob;

-- name: pragma_temp_file
-- VACUUM writes a second copy, and that needn't fit into memory.
PRAGMA temp_store = FILE;

-- name: vacuum
VACUUM;
