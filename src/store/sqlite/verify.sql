-- for: verifier
-- What `weir verify` walks, in short steps beside a running server.

-- name: turns_after
-- By the index, and from there to the row: what the row itself says is checked.
SELECT t.turn, t.first_seq, t.at, t.hash, t.events, t.tags FROM turn i CROSS JOIN turn t ON t.turn = i.turn WHERE i.first_seq > $1 ORDER BY i.first_seq LIMIT $2;

-- name: verify_live
SELECT task FROM live;

-- name: verify_logs_after
-- Ended attempts whose log's length was reported, with what their task remembers of being pruned.
SELECT a.task, a.grant_no, a.number, a.log_bytes, t.rest, coalesce(s.bytes, -1), coalesce(s.hash, '') FROM attempt a JOIN task t ON t.id = a.task
LEFT JOIN log_seal s ON s.task = a.task AND s.grant_no = a.grant_no WHERE (a.task, a.grant_no) > ($1, $2) ORDER BY a.task, a.grant_no LIMIT $3;

-- name: log_tail_end
SELECT start_byte + length(bytes) FROM log_tail WHERE task = $1 AND grant_no = $2;

-- name: verify_tarballs_after
-- Change sets, with what their task remembers of being pruned.
SELECT c.task, t.rest, c.hash FROM changeset c JOIN task t ON t.id = c.task WHERE c.task > $1 ORDER BY c.task LIMIT $2;

-- name: verify_kept_after
-- The second line of outputs lists kept files.
SELECT task, CASE WHEN instr(body, char(10)) > 0 THEN substr(body, instr(body, char(10)) + 1) ELSE '' END FROM outputs
WHERE task > $1 ORDER BY task LIMIT $2;
