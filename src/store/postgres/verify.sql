-- for: verifier
-- What `weir verify` walks, in steps beside a running server.

-- name: turns_after
SELECT turn, first_seq, at, hash, events FROM turn WHERE first_seq > $1 ORDER BY first_seq LIMIT $2;

-- name: tasks_after
SELECT id, state FROM task WHERE id > $1 ORDER BY id LIMIT $2;
