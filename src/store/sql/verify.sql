-- for: verifier
-- What `weir verify` walks, in short steps beside a running server.

-- name: turns_after
-- By the index, and from there to the row: what the row itself says is checked.
SELECT t.turn, t.first_seq, t.at, t.hash, t.events, t.tags FROM turn i CROSS JOIN turn t ON t.turn = i.turn WHERE i.first_seq > $1 ORDER BY i.first_seq;

-- name: verify_lanes
SELECT @lane_columns@ FROM lane ORDER BY id;

-- name: verify_tokens
-- As events name them.
SELECT CASE WHEN tenant IN ('', 'default') THEN name ELSE tenant || '/' || name END FROM token ORDER BY id;

-- name: verify_ready
SELECT count(*) FROM ready;

-- name: verify_slots
-- The first whose counts aren't those of its holds (core/model.h: 4 has it, 3 waits for it).
SELECT id, used, waiting, held, waits FROM (SELECT s.id, s.used, s.waiting,
    (SELECT count(*) FROM hold h WHERE h.kind = 4 AND h.hold_key = s.id) AS held,
    (SELECT count(*) FROM hold h WHERE h.kind = 3 AND h.hold_key = s.id) AS waits FROM slot s) x
WHERE used <> held OR waiting <> waits ORDER BY id LIMIT 1;

-- name: ready_after
-- Each with its task's row.
SELECT r.class, r.nprio, r.vt, r.task, t.state, t.rest FROM ready r LEFT JOIN task t ON t.id = r.task
WHERE (r.class, r.nprio, r.vt, r.task) > ($1, $2, $3, $4) ORDER BY r.class, r.nprio, r.vt, r.task LIMIT 500;

-- name: verify_live
SELECT task FROM live;

-- name: logs_after
-- Ended attempts whose log's length was reported, with what their task remembers of being pruned.
SELECT a.task, a.grant_no, a.number, a.log_bytes, t.rest, coalesce(s.bytes, -1), coalesce(s.hash, '') FROM attempt a JOIN task t ON t.id = a.task
LEFT JOIN log_seal s ON s.task = a.task AND s.grant_no = a.grant_no WHERE (a.task, a.grant_no) > ($1, $2) ORDER BY a.task, a.grant_no LIMIT $3;

-- name: log_tail_end
SELECT start_byte + length(bytes) FROM log_tail WHERE task = $1 AND grant_no = $2;

-- name: kept_after
-- The second line of outputs lists kept files.
SELECT task, CASE WHEN instr(body, char(10)) > 0 THEN substr(body, instr(body, char(10)) + 1) ELSE '' END FROM outputs
WHERE task > $1 ORDER BY task LIMIT $2;
