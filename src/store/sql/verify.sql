-- for: verifier
-- What `weir verify` walks, in short steps beside a running server.

-- name: turns_after
-- By the index, and from there to the row: what the row itself says is checked.
SELECT t.turn, t.first_seq, t.at, t.hash, t.events FROM turn i CROSS JOIN turn t ON t.turn = i.turn WHERE i.first_seq > $1 ORDER BY i.first_seq;

-- name: tasks_after
SELECT id, state FROM task WHERE id > $1 ORDER BY id;
