-- for: verifier
-- What `weir verify` walks, in steps beside a running server.

-- name: turns_after
SELECT turn, first_seq, at, hash, events, tags FROM turn WHERE first_seq > $1 ORDER BY first_seq LIMIT $2;

-- name: walk_live
-- With those of live_many, as plain rows.
SELECT @live_columns@ FROM (SELECT @live_columns@ FROM live UNION ALL SELECT i.task, @many_columns@ FROM @many_each@) x
WHERE (task, grant_no) > ($1, $2) ORDER BY task, grant_no LIMIT 500;

-- name: verify_lanes
SELECT @lane_columns@ FROM lane ORDER BY id;

-- name: verify_tokens
-- As events name them.
SELECT CASE WHEN tenant IN ('', 'default') THEN name ELSE tenant || '/' || name END FROM token ORDER BY id;

-- name: verify_live
SELECT task FROM live UNION ALL SELECT i.task FROM @many_each@;

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
