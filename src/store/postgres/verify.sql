-- for: verifier
-- What `weir verify` walks, in steps beside a running server.

-- name: turns_after
SELECT turn, first_seq, at, hash, events, tags FROM turn WHERE first_seq > $1 ORDER BY first_seq LIMIT $2;

-- name: walk_live
-- With those of live_many, as plain rows.
SELECT @live_columns@ FROM (SELECT @live_columns@ FROM live UNION ALL SELECT i.task, @many_columns@ FROM @many_each@) x
WHERE (task, grant_no) > ($1, $2) ORDER BY task, grant_no LIMIT 500;

-- name: verify_live
SELECT task FROM live UNION ALL SELECT i.task FROM @many_each@;
