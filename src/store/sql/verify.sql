-- for: verifier
-- What `weir verify` walks in short steps beside a running server, said alike by both databases.

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
