-- for: bytes
-- Logs and kept files, on connections of their own.

-- name: bytes_begin
BEGIN;

-- name: bytes_commit
COMMIT;

-- name: bytes_rollback
ROLLBACK;

-- name: logs_make
INSERT INTO log (task, grant_no, bytes, sealed) SELECT task, grant_no, 0, 0 FROM unnest($1::bigint[], $2::bigint[]) AS u (task, grant_no)
ORDER BY 1, 2 ON CONFLICT (task, grant_no) DO NOTHING;

-- name: logs_lock
-- In one order, whoever locks.
SELECT u.n, l.bytes FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS u (task, grant_no, n)
JOIN log l ON l.task = ANY (ARRAY[u.task]) AND l.grant_no = u.grant_no ORDER BY u.task, u.grant_no FOR UPDATE OF l;

-- name: log_chunks_put
-- A chunk that is there already gets longer.
INSERT INTO log_chunk (task, grant_no, start_byte, bytes) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])
ON CONFLICT (task, grant_no, start_byte) DO UPDATE SET bytes = log_chunk.bytes || excluded.bytes;

-- name: logs_grow
UPDATE log SET bytes = u.bytes FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (task, grant_no, bytes)
WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no;

-- name: logs_seal
UPDATE log SET sealed = 1 FROM unnest($1::bigint[], $2::bigint[]) AS u (task, grant_no)
WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no AND log.sealed = 0;

-- name: logs_delete
WITH gone AS (DELETE FROM log USING unnest($1::bigint[], $2::bigint[]) AS u (task, grant_no)
    WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no)
DELETE FROM log_chunk USING unnest($1::bigint[], $2::bigint[]) AS u (task, grant_no)
WHERE log_chunk.task = ANY (ARRAY[u.task]) AND log_chunk.grant_no = u.grant_no;

-- name: log_get
SELECT bytes, sealed FROM log WHERE task = $1 AND grant_no = $2;

-- name: log_read
-- From byte $3 up to byte $4, cut where they are.
SELECT greatest(start_byte, $3), substr(bytes, (greatest($3 - start_byte, 0) + 1)::int, ($4 - greatest(start_byte, $3))::int)
FROM log_chunk WHERE task = $1 AND grant_no = $2 AND start_byte < $4
    AND start_byte >= (SELECT max(start_byte) FROM log_chunk WHERE task = $1 AND grant_no = $2 AND start_byte <= $3)
ORDER BY start_byte;

-- name: logs_open
SELECT task, grant_no FROM log WHERE sealed = 0 ORDER BY task, grant_no;

-- name: logs_page
SELECT task, grant_no, bytes, sealed FROM log WHERE (task, grant_no) > ($1::bigint, $2::bigint) ORDER BY task, grant_no LIMIT $3;

-- name: blob_put
-- 1: it is new, and wants its pieces.
INSERT INTO blob (hash, bytes, used) VALUES ($1, $2, extract(epoch FROM clock_timestamp())::bigint)
ON CONFLICT (hash) DO UPDATE SET used = excluded.used RETURNING (xmax = 0)::int::bigint;

-- name: blob_chunk_put
INSERT INTO blob_chunk (hash, n, bytes) VALUES ($1, $2, $3);

-- name: blob_get
SELECT bytes FROM blob WHERE hash = $1;

-- name: blob_read
-- From byte $3 of piece $2 on, $4 bytes at most.
SELECT substr(bytes, ($3::bigint + 1)::int, ($4::bigint)::int) FROM blob_chunk WHERE hash = $1 AND n = $2;

-- name: blobs_old
SELECT hash FROM blob WHERE used < extract(epoch FROM clock_timestamp())::bigint - $1::bigint ORDER BY hash;

-- name: blob_delete
-- Unless it was kept again meanwhile.
WITH gone AS (DELETE FROM blob WHERE hash = $1 AND used < extract(epoch FROM clock_timestamp())::bigint - $2::bigint RETURNING hash),
    pieces AS (DELETE FROM blob_chunk USING gone WHERE blob_chunk.hash = ANY (ARRAY[gone.hash]))
SELECT count(*) FROM gone;

-- name: token_salt
-- The first server's stays.
INSERT INTO meta (name, value) VALUES ('token_salt', $1::text) ON CONFLICT (name) DO UPDATE SET value = meta.value RETURNING value;
