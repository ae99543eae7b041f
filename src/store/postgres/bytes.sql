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
SELECT u.n, l.bytes, l.sealed FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS u (task, grant_no, n)
JOIN log l ON l.task = ANY (ARRAY[u.task]) AND l.grant_no = u.grant_no ORDER BY u.task, u.grant_no FOR UPDATE OF l;

-- name: log_chunks_put
-- A chunk that is there already gets longer.
INSERT INTO log_chunk (task, grant_no, start_byte, bytes) SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[])
ON CONFLICT (task, grant_no, start_byte) DO UPDATE SET bytes = log_chunk.bytes || excluded.bytes;

-- name: logs_grow
-- One that was sealed elsewhere meanwhile is to be hashed anew.
UPDATE log SET bytes = u.bytes, sealed = CASE log.sealed WHEN 0 THEN 0 ELSE 2 END FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (task, grant_no, bytes)
WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no;

-- name: logs_seal
-- In one order, whoever locks; here and below.
UPDATE log SET sealed = 2 FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS k (task, grant_no) ORDER BY 1, 2) u
WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no AND log.sealed <> 1 RETURNING log.task, log.grant_no;

-- name: logs_ended
-- Of those whose first bytes came here, those whose attempt has ended elsewhere meanwhile: its seal found no row. After a loss
-- bytes may still come.
UPDATE log SET sealed = 2 FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS k (task, grant_no) ORDER BY 1, 2) u
WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no AND log.sealed < 1
    AND (SELECT a.finished > 0 AND a.outcome <> 'lost' FROM attempt a WHERE a.task = ANY (ARRAY[log.task]) AND a.grant_no = log.grant_no)
RETURNING log.task, log.grant_no;

-- name: logs_lost
-- Those whose attempt was given up, with what is stored: asked by the server that gave it up after that commit, and by the server that
-- stored bytes after this one, so that the later of the two counts them.
SELECT l.task, l.grant_no, l.bytes FROM unnest($1::bigint[], $2::bigint[]) AS u (task, grant_no), log l
WHERE l.task = ANY (ARRAY[u.task]) AND l.grant_no = u.grant_no
    AND (SELECT a.finished > 0 AND a.outcome = 'lost' FROM attempt a WHERE a.task = ANY (ARRAY[l.task]) AND a.grant_no = l.grant_no);

-- name: logs_noted
-- Unless more came meanwhile.
UPDATE log SET sealed = 1 FROM (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS k (task, grant_no, bytes) ORDER BY 1, 2) u
WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no AND log.sealed > 1 AND log.bytes = u.bytes;

-- name: logs_unnoted
SELECT task, grant_no FROM log WHERE sealed = 2 ORDER BY task, grant_no;

-- name: log_unnoted
-- With what was noted before.
SELECT l.bytes, coalesce(s.bytes, -1), coalesce(s.hash, '') FROM log l LEFT JOIN log_seal s ON s.task = l.task AND s.grant_no = l.grant_no
WHERE l.task = $1 AND l.grant_no = $2 AND l.sealed = 2;

-- name: logs_delete
WITH gone AS (DELETE FROM log USING (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS k (task, grant_no) ORDER BY 1, 2) u
    WHERE log.task = ANY (ARRAY[u.task]) AND log.grant_no = u.grant_no)
DELETE FROM log_chunk USING (SELECT * FROM unnest($1::bigint[], $2::bigint[]) AS k (task, grant_no) ORDER BY 1, 2) u
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

-- name: blob_hold
-- As blob_put; with the version of the row, which any later use changes.
INSERT INTO blob (hash, bytes, used) VALUES ($1, $2, extract(epoch FROM clock_timestamp())::bigint)
ON CONFLICT (hash) DO UPDATE SET used = excluded.used RETURNING (xmax = 0)::int::bigint, xmin::text::bigint;

-- name: blob_chunk_put
INSERT INTO blob_chunk (hash, n, bytes) VALUES ($1, $2, $3);

-- name: blob_drop
-- Unless it was used since it was made.
WITH gone AS (DELETE FROM blob WHERE hash = $1 AND xmin::text::bigint = $2::bigint RETURNING hash),
    pieces AS (DELETE FROM blob_chunk USING gone WHERE blob_chunk.hash = ANY (ARRAY[gone.hash]))
SELECT count(*) FROM gone;

-- name: blob_move
-- The $3 pieces of an upload become the blob's; fewer, and the transaction ends.
WITH moved AS (INSERT INTO blob_chunk (hash, n, bytes) SELECT $1, n, bytes FROM upload_piece WHERE upload = $2 RETURNING n)
SELECT 1 / (count(*) = $3::bigint)::int FROM moved;

-- name: bytes_loose
-- Pieces of an upload need not be durable: what a crash of the database takes is asked for again.
SET LOCAL synchronous_commit = off;

-- name: upload_make
-- Unless the attempt has as many as it may.
INSERT INTO upload (key, task, grant_no, tenant, bytes, used)
SELECT $1::text, $2::bigint, $3::bigint, $4::text, 0, extract(epoch FROM clock_timestamp())::bigint
WHERE (SELECT count(*) FROM upload WHERE task = $2 AND grant_no = $3) < $5::bigint
    AND (SELECT count(*) FROM upload_seal WHERE task = $2 AND grant_no = $3) < $6::bigint
ON CONFLICT (key) DO NOTHING;

-- name: upload_lock
SELECT id, bytes FROM upload WHERE key = $1 FOR UPDATE;

-- name: upload_piece_put
-- What stands before byte $3 of the piece stays.
INSERT INTO upload_piece (upload, n, bytes) VALUES ($1, $2, $4)
ON CONFLICT (upload, n) DO UPDATE SET bytes = substr(upload_piece.bytes, 1, ($3::bigint)::int) || excluded.bytes;

-- name: upload_grow
-- The upload has $2 bytes now: pieces from $3 on go, and piece $4 has $5 of them (0: it is whole, or gone).
WITH cut AS (UPDATE upload_piece SET bytes = substr(bytes, 1, ($5::bigint)::int)
        WHERE upload = $1 AND n = $4::bigint AND $5::bigint > 0 AND length(bytes)::bigint > $5::bigint),
    gone AS (DELETE FROM upload_piece WHERE upload = $1 AND n >= $3)
UPDATE upload SET bytes = $2, used = extract(epoch FROM clock_timestamp())::bigint WHERE id = $1;

-- name: upload_take
-- A name of its own: pieces that come from here on begin another upload.
UPDATE upload SET key = key || '.' || id WHERE key = $1 RETURNING id, bytes;

-- name: upload_piece
SELECT bytes FROM upload_piece WHERE upload = $1 AND n = $2;

-- name: upload_drop
WITH gone AS (DELETE FROM upload WHERE id = $1) DELETE FROM upload_piece WHERE upload = $1;

-- name: upload_seal_put
INSERT INTO upload_seal (task, grant_no, name, hash, bytes, tenant, used)
VALUES ($1, $2, $3, $4, $5, $6, extract(epoch FROM clock_timestamp())::bigint)
ON CONFLICT (task, grant_no, name) DO UPDATE SET hash = excluded.hash, bytes = excluded.bytes, used = excluded.used;

-- name: upload_seals
SELECT name, hash, bytes FROM upload_seal WHERE task = $1 AND grant_no = $2 ORDER BY name;

-- name: uploads_lock
-- Until the piece is committed no other server counts what this tenant has sent.
SELECT pg_advisory_xact_lock(1466263922, hashtext('uploads ' || $1::text || ' ' || current_schema()));

-- name: uploads_waiting
SELECT (coalesce((SELECT sum(bytes) FROM upload WHERE tenant = $1), 0)
    + coalesce((SELECT sum(bytes) FROM upload_seal WHERE tenant = $1), 0))::bigint;

-- name: upload_grants
SELECT task, grant_no, extract(epoch FROM clock_timestamp())::bigint - max(used) FROM (
    SELECT task, grant_no, used FROM upload WHERE task > 0 UNION ALL SELECT task, grant_no, used FROM upload_seal WHERE task > 0) AS u
GROUP BY task, grant_no ORDER BY task, grant_no;

-- name: uploads_forget
WITH gone AS (DELETE FROM upload WHERE task = $1 AND grant_no = $2 RETURNING id),
    pieces AS (DELETE FROM upload_piece USING gone WHERE upload_piece.upload = ANY (ARRAY[gone.id]))
DELETE FROM upload_seal WHERE task = $1 AND grant_no = $2;

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

-- name: verify_logs_after
-- Ended attempts, with what their task remembers of being pruned.
SELECT a.task, a.grant_no, a.number, a.log_bytes, t.rest,
    coalesce((SELECT s.bytes FROM log_seal s WHERE s.task = a.task AND s.grant_no = a.grant_no), -1),
    coalesce((SELECT s.hash FROM log_seal s WHERE s.task = a.task AND s.grant_no = a.grant_no), '')
FROM attempt a JOIN task t ON t.id = ANY (ARRAY[a.task]) WHERE (a.task, a.grant_no) > ($1::bigint, $2::bigint) ORDER BY a.task, a.grant_no LIMIT $3::bigint;

-- name: verify_tarballs_after
-- Change sets, with what their task remembers of being pruned.
SELECT c.task, t.rest, c.hash FROM changeset c JOIN task t ON t.id = ANY (ARRAY[c.task]) WHERE c.task > $1::bigint ORDER BY c.task LIMIT $2::bigint;

-- name: verify_kept_after
-- The second line of outputs lists kept files.
SELECT task, CASE WHEN position(chr(10) in body) > 0 THEN substr(body, position(chr(10) in body) + 1) ELSE '' END FROM outputs
WHERE task > $1::bigint ORDER BY task LIMIT $2::bigint;

-- name: verify_log
-- The bytes that its chunks have, where they begin and end, what its row says, and the end of the tail that its finish brought.
SELECT coalesce((SELECT sum(length(bytes))::bigint FROM log_chunk WHERE task = $1 AND grant_no = $2), 0),
    coalesce((SELECT max(start_byte + length(bytes)) FROM log_chunk WHERE task = $1 AND grant_no = $2), 0),
    coalesce((SELECT bytes FROM log WHERE task = $1 AND grant_no = $2), 0),
    coalesce((SELECT start_byte + length(bytes) FROM log_tail WHERE task = $1 AND grant_no = $2), 0);

-- name: verify_blob
SELECT n, bytes FROM blob_chunk WHERE hash = $1 AND n >= $2::bigint ORDER BY n LIMIT 4;
