-- for: verifier
-- What `weir verify` walks, in steps beside a running server.

-- name: turns_after
SELECT turn, first_seq, at, hash, events FROM turn WHERE first_seq > $1 ORDER BY first_seq LIMIT $2;

-- name: tasks_after
SELECT id, state, lane, rest FROM task WHERE id > $1 ORDER BY id LIMIT $2;

-- name: verify_lanes
SELECT id, paused_since, n_q, n_s, n_p, n_x, n_d, n_f, n_t, n_a FROM lane ORDER BY id;

-- name: verify_tokens
-- As events name them.
SELECT CASE WHEN tenant IN ('', 'default') THEN name ELSE tenant || '/' || name END FROM token ORDER BY id;

-- name: verify_live
SELECT task FROM live UNION ALL SELECT i.task FROM @many_each@;

-- name: verify_ready
SELECT count(*) FROM ready;
