-- for: backup
-- Prepared only while a backup is written or read back: the table isn't there otherwise.

-- name: backup_attempt_known
-- Is this attempt part of the copied snapshot? The logs are copied after it and may be of attempts it doesn't know.
SELECT 1 FROM attempt WHERE task = $1 AND grant_no = $2 UNION ALL SELECT 1 FROM live WHERE task = $1 AND grant_no = $2;

-- name: backup_log_put
INSERT INTO backup_log (task, grant_no, packed, start_byte, bytes) VALUES ($1, $2, $3, $4, $5);

-- name: backup_log_each
SELECT task, grant_no, packed, start_byte, bytes,
    NOT EXISTS (SELECT 1 FROM log_seal s WHERE s.task = backup_log.task AND s.grant_no = backup_log.grant_no) FROM backup_log ORDER BY id;

-- name: backup_seals_lost
-- Logs that were pruned while the backup was made, or weren't there.
SELECT task, grant_no FROM log_seal WHERE (task, grant_no) NOT IN (SELECT task, grant_no FROM backup_log) ORDER BY task, grant_no;

-- name: backup_outputs
-- Outputs with a list of files: their second line.
SELECT body FROM outputs WHERE instr(body, char(10)) > 0;

-- name: backup_tarballs
-- Of change sets; what their tasks remember says which were pruned.
SELECT t.rest, c.hash FROM changeset c JOIN task t ON t.id = c.task;

-- name: backup_blob_put
INSERT INTO backup_blob (hash, start_byte, bytes) VALUES ($1, $2, $3);

-- name: backup_blob_undo
-- Of a file whose bytes turned out not to be those of its name: the last one that was put.
DELETE FROM backup_blob WHERE id > $1;

-- name: backup_blob_last
SELECT coalesce(max(id), 0) FROM backup_blob;

-- name: backup_blob_each
SELECT hash, start_byte, bytes FROM backup_blob ORDER BY id;

-- name: restored_hold
-- Nothing begins in a restored store before somebody says so: `all` is paused.
INSERT INTO lane (id, last_vt, n_q, n_s, n_p, n_x, n_d, n_f, n_t, n_a, paused_since, paused_by, paused_reason, log_bytes, file_bytes,
    kind, tenant, name)
VALUES (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, $1, $2, $3, 0, 0, $4, '', 'all')
ON CONFLICT (id) DO UPDATE SET paused_since = excluded.paused_since, paused_by = excluded.paused_by, paused_reason = excluded.paused_reason;
