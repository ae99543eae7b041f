-- for: writer
-- Rows that every turn writes anew, by the places they stand at. While somebody's snapshot is open (pg_dump) all their versions stay, and a look
-- by the index walks past each of them. currtid2 goes from a place to the newest version, by as many steps as there were writes since; the
-- row that is found is compared with its key (+ 0: not by its index), and only when there is none the index is asked: a place is a hint.
-- It stands in a sub-select, since a volatile function gives no plan by place. All but head_get_key and head_update_at is for such times only:
-- a look by place doesn't clear a page of old versions, as one by the index does.

-- let head_at: coalesce((SELECT p.ctid FROM head p WHERE p.ctid = (SELECT currtid2('head', $1::tid)) AND p.one + 0 = 1), (SELECT k.ctid FROM head k WHERE k.one = 1))
-- let lane_at: coalesce((SELECT p.ctid FROM lane p WHERE p.ctid = (SELECT currtid2('lane', x.place)) AND p.id + 0 = x.id), (SELECT k.ctid FROM lane k WHERE k.id = x.id))
-- let executor_at: coalesce((SELECT p.ctid FROM executor p WHERE p.ctid = (SELECT currtid2('executor', x.place)) AND p.id + 0 = x.id), (SELECT k.ctid FROM executor k WHERE k.id = x.id))
-- let put_all: SELECT p.id, p.place, 1 / ((SELECT count(*) FROM put) = $1::bigint)::int FROM (SELECT 1) one LEFT JOIN put p ON true

-- name: head_get_key
-- As head_get.
SELECT @head_row@, (SELECT t.at FROM turn t WHERE t.first_seq <= head.seq ORDER BY t.first_seq DESC LIMIT 1), ctid FROM head WHERE one = 1;

-- name: head_clear
-- From the page's first place to the next one's: a walk like this clears it of versions that nobody needs, once the snapshot is gone.
SELECT count(*) FROM head WHERE ctid >= $1::tid AND ctid < $2::tid;

-- name: head_get_at
-- As head_get.
SELECT @head_row@, (SELECT t.at FROM turn t WHERE t.first_seq <= head.seq ORDER BY t.first_seq DESC LIMIT 1), ctid FROM head WHERE ctid = @head_at@;

-- name: head_wait
-- Narrow turns of all servers come one by one to the head's row, so that none waits for it behind a version that is gone.
SELECT pg_advisory_xact_lock(1466263922, hashtext('head ' || current_schema()));

-- name: head_lock_at
SELECT @head_row@, 0::bigint, ctid FROM head WHERE ctid = @head_at@ FOR UPDATE OF head;

-- name: head_update_at
-- As head_update. Where it stands was read in this turn.
WITH put AS (
    UPDATE head SET @head_update@, seal = @head_more:1@, tick = @head_more:2@::bigint + 1
    WHERE ctid = @head_more:5@::tid AND one + 0 = 1 AND tick = @head_more:2@ AND turn = @head_more:3@ AND hash = @head_more:4@ RETURNING ctid AS place)
SELECT 1 / count(*)::int, (SELECT place FROM put) FROM put;

-- name: mark_put_at
-- As mark_put.
WITH put AS (UPDATE mark SET nonce = $2 WHERE ctid = $3::tid AND server || '' = $1 RETURNING ctid AS place),
    made AS (INSERT INTO mark (server, nonce) SELECT $1::text, $2::bigint WHERE NOT EXISTS (SELECT 1 FROM put)
        ON CONFLICT (server) DO UPDATE SET nonce = excluded.nonce RETURNING ctid AS place)
SELECT place FROM put UNION ALL SELECT place FROM made;

-- name: lane_put_at
-- As lane_put, of lanes that are there; $1 of them.
WITH put AS (
    UPDATE lane l SET last_vt = u.last_vt, n_q = u.n_q, n_s = u.n_s, n_p = u.n_p, n_x = u.n_x, n_d = u.n_d, n_f = u.n_f, n_t = u.n_t, n_a = u.n_a,
        paused_since = u.paused_since, paused_by = u.paused_by, paused_reason = u.paused_reason, log_bytes = u.log_bytes,
        file_bytes = u.file_bytes, kind = u.kind, touched = $2
    FROM (SELECT @lane_later:x@, @lane_at@ AS at
        FROM unnest(@lane_later_params:4@, $3::tid[]) AS x (@lane_later@, place)
        OFFSET 0) u
    WHERE l.ctid = u.at RETURNING l.id, l.ctid AS place)
@put_all@;

-- name: lane_add_at
-- As lane_add.
WITH put AS (
    UPDATE lane l SET last_vt = greatest(l.last_vt + u.steps, u.last_vt), n_q = l.n_q + u.n_q, n_s = l.n_s + u.n_s, n_p = l.n_p + u.n_p,
        n_x = l.n_x + u.n_x, n_d = l.n_d + u.n_d, n_f = l.n_f + u.n_f, n_t = l.n_t + u.n_t, n_a = l.n_a + u.n_a, log_bytes = l.log_bytes + u.log_bytes,
        file_bytes = l.file_bytes + u.file_bytes, touched = $2
    FROM (SELECT x.last_vt, x.steps, x.n_q, x.n_s, x.n_p, x.n_x, x.n_d, x.n_f, x.n_t, x.n_a, x.log_bytes, x.file_bytes, @lane_at@ AS at
        FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
            $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::tid[])
            AS x (id, last_vt, steps, n_q, n_s, n_p, n_x, n_d, n_f, n_t, n_a, log_bytes, file_bytes, place)
        OFFSET 0) u
    WHERE l.ctid = u.at RETURNING l.id, l.ctid AS place)
@put_all@;

-- name: executor_count_at
-- As executor_count.
WITH put AS (
    UPDATE executor e SET processed = e.processed + u.processed, failed = e.failed + u.failed
    FROM (SELECT x.processed, x.failed, @executor_at@ AS at
        FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::tid[]) AS x (id, processed, failed, place) OFFSET 0) u
    WHERE e.ctid = u.at RETURNING e.id, e.ctid AS place)
@put_all@;

-- name: lane_ctids
SELECT id, ctid FROM lane ORDER BY id;

-- name: executor_ctids
SELECT id, ctid FROM executor ORDER BY id;

-- name: lanes_touched_at
-- As lanes_touched: of those that are known ($2, at $3) each is looked at; from $4 on none is known yet. One that isn't found by its place comes
-- too, with its new one.
WITH known AS MATERIALIZED (SELECT x.id AS known, l.* FROM unnest($2::bigint[], $3::tid[]) AS x (id, place)
    LEFT JOIN LATERAL (SELECT @lane_columns@, ctid AS at, touched FROM lane WHERE ctid = (SELECT currtid2('lane', x.place)) AND id + 0 = x.id OFFSET 0) l ON true)
SELECT @lane_columns@, at FROM known WHERE touched > $1
UNION ALL SELECT @lane_columns@, ctid FROM lane WHERE id >= $4
UNION ALL SELECT @lane_columns@, ctid FROM lane WHERE id = ANY(ARRAY(SELECT known FROM known WHERE at IS NULL))
ORDER BY 1;

-- name: executors_touched_at
-- And those that have only moved: what they have done was counted. The last column tells them apart.
WITH known AS MATERIALIZED (SELECT x.id AS known, x.place, e.* FROM unnest($2::bigint[], $3::tid[]) AS x (id, place)
    LEFT JOIN LATERAL (SELECT @executor_columns@, ctid AS at, touched FROM executor WHERE ctid = (SELECT currtid2('executor', x.place)) AND id + 0 = x.id OFFSET 0) e ON true)
SELECT @executor_columns@, at, (touched > $1)::int::bigint FROM known WHERE touched > $1 OR at <> place
UNION ALL SELECT @executor_columns@, ctid, 1 FROM executor WHERE id >= $4
UNION ALL SELECT @executor_columns@, ctid, (touched > $1)::int::bigint FROM executor WHERE id = ANY(ARRAY(SELECT known FROM known WHERE at IS NULL))
ORDER BY 1;
