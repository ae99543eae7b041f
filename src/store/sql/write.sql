-- for: writer
-- What commit() writes. Full rows come in, so no statement reads before it writes.

-- name: lane_update
-- Tried before lane_insert: a lane is made once and counted in every turn; its name never changes, so no index is touched.
UPDATE lane SET last_vt = $2, n_q = $3, n_s = $4, n_p = $5, n_x = $6, n_d = $7, n_f = $8, n_t = $9, n_a = $10,
    paused_since = $11, paused_by = $12, paused_reason = $13, log_bytes = $14, file_bytes = $15, kind = $16
WHERE id = $1;

-- name: lane_insert
INSERT INTO lane (id, last_vt, n_q, n_s, n_p, n_x, n_d, n_f, n_t, n_a, paused_since, paused_by, paused_reason, log_bytes, file_bytes,
    kind, tenant, name)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18);

-- name: class_insert
INSERT INTO class (id, class_key, tenant, zone, kind, labels, goes) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: class_delete
DELETE FROM class WHERE id = $1;

-- name: spec_insert
INSERT INTO spec (id, body, attempts_max, backoff_ms, retry_on, slots, slot_key, semaphores, class_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: slot_delete
DELETE FROM slot WHERE id = $1;

-- name: slot_put
INSERT INTO slot (id, tenant, name, slot_limit, used, waiting) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET slot_limit = excluded.slot_limit, used = excluded.used,
    waiting = excluded.waiting;

-- name: task_insert
-- Ids ascend, so rows land at the end of the table without a search.
INSERT INTO task (id, lane, rev, state, name, variant, run, rest) VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: task_update
-- lane, rev, name, variant and run never change and aren't set: task_key stays untouched.
UPDATE task SET state = $2, rest = $3 WHERE id = $1;

-- name: ready_insert
INSERT INTO ready (class, nprio, vt, task) VALUES ($1, $2, $3, $4);

-- name: ready_delete
-- By the whole key: no search, no index on task.
DELETE FROM ready WHERE class = $1 AND nprio = $2 AND vt = $3 AND task = $4;

-- name: edge_insert
INSERT INTO edge (pred, waiter, kind, flags) VALUES ($1, $2, $3, $4);

-- name: edge_update
UPDATE edge SET flags = $4 WHERE pred = $1 AND waiter = $2 AND kind = $3;

-- name: hold_insert
INSERT INTO hold (kind, hold_key, rank, task, since) VALUES ($1, $2, $3, $4, $5);

-- name: hold_delete
DELETE FROM hold WHERE kind = $1 AND hold_key = $2 AND rank = $3 AND task = $4;

-- name: live_insert
INSERT INTO live (task, grant_no, number, executor, started, poll_seq) VALUES ($1, $2, $3, $4, $5, $6);

-- name: live_update
UPDATE live SET number = $3, executor = $4, started = $5, poll_seq = $6 WHERE task = $1 AND grant_no = $2;

-- name: live_delete
DELETE FROM live WHERE task = $1 AND grant_no = $2;

-- name: attempt_insert
-- The usual end of an attempt that ran: it can't be there yet, so nothing is paid for the case that it is.
INSERT INTO attempt (task, grant_no, number, executor, started, finished, exit_status, signal_no, outcome, cpu_ms, max_rss_bytes, log_bytes,
    finish_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13);

-- name: attempt_put
-- A late result rewrites an attempt that was recorded as lost.
INSERT INTO attempt (task, grant_no, number, executor, started, finished, exit_status, signal_no, outcome, cpu_ms, max_rss_bytes, log_bytes,
    finish_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (task, grant_no) DO UPDATE SET number = excluded.number, executor = excluded.executor, started = excluded.started,
    finished = excluded.finished, exit_status = excluded.exit_status, signal_no = excluded.signal_no, outcome = excluded.outcome,
    cpu_ms = excluded.cpu_ms, max_rss_bytes = excluded.max_rss_bytes, log_bytes = excluded.log_bytes, finish_hash = excluded.finish_hash;

-- name: attempt_delete
DELETE FROM attempt WHERE task = $1 AND grant_no = $2;

-- name: outputs_put
INSERT INTO outputs (task, body) VALUES ($1, $2) ON CONFLICT (task) DO UPDATE SET body = excluded.body;

-- name: log_tail_put
INSERT INTO log_tail (task, grant_no, start_byte, bytes) VALUES ($1, $2, $3, $4)
ON CONFLICT (task, grant_no) DO UPDATE SET start_byte = excluded.start_byte, bytes = excluded.bytes;

-- name: unique_put
-- The newest claim of a turn wins: a task may be created, granted, and followed by the next of its key within one turn.
INSERT INTO unique_key (tenant, key_text, task) VALUES ($1, $2, $3) ON CONFLICT (tenant, key_text) DO UPDATE SET task = excluded.task;

-- name: unique_delete
-- With the task: a key that another task has taken since isn't this one's to give back.
DELETE FROM unique_key WHERE tenant = $1 AND key_text = $2 AND task = $3;

-- name: idempotency_put
-- A key that has expired but isn't deleted yet may be used again.
INSERT INTO idempotency (tenant, token, route, key_text, body_hash, status, ids, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, token, route, key_text) DO UPDATE SET body_hash = excluded.body_hash, status = excluded.status, ids = excluded.ids,
    expires = excluded.expires;

-- name: idempotency_delete
-- At most $2 rows, the oldest first, so that one turn's share of cleaning is bounded.
DELETE FROM idempotency WHERE (tenant, token, route, key_text) IN
    (SELECT tenant, token, route, key_text FROM idempotency WHERE expires <= $1 ORDER BY expires LIMIT $2);

-- name: executor_put
INSERT INTO executor (id, name, instance, host, version, zone, slots, kinds, labels, state, registered, processed, failed, tenant, owner,
    silent)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, instance = excluded.instance, host = excluded.host, version = excluded.version,
    zone = excluded.zone, slots = excluded.slots, kinds = excluded.kinds, labels = excluded.labels, state = excluded.state,
    registered = excluded.registered, processed = excluded.processed, failed = excluded.failed, tenant = excluded.tenant,
    owner = excluded.owner, silent = excluded.silent;

-- name: site_put
INSERT INTO site (name, body, version, changed, changed_by) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (name) DO UPDATE SET body = excluded.body, version = excluded.version, changed = excluded.changed,
    changed_by = excluded.changed_by;

-- name: token_insert
INSERT INTO token (id, name, tenant, hash, scopes, created, expires) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: executor_delete
DELETE FROM executor WHERE id = $1;

-- name: token_delete
DELETE FROM token WHERE id = $1;

-- name: turn_insert
INSERT INTO turn (turn, first_seq, at, hash, events, tags) VALUES ($1, $2, $3, $4, $5, $6);

-- name: head_update
-- The last statement of a turn.
UPDATE head SET incarnation = $1, turn = $2, seq = $3, hash = $4, seal = $5, next_task = $6, next_spec = $7, next_lane = $8,
    next_class = $9, next_slot = $10, next_executor = $11, next_token = $12, v_now = $13, tick = $14
WHERE one = 1;

-- name: head_insert
-- Once, for a new store; head_update fills it.
INSERT INTO head (one, incarnation, turn, seq, hash, seal, next_task, next_spec, next_lane, next_class, next_slot, next_executor, next_token, v_now)
VALUES (1, 0, 0, 0, '', '', 1, 1, 1, 1, 1, 1, 1, 0);

-- name: meta_put
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: meta_get
SELECT value FROM meta WHERE name = $1;

-- name: meta_delete
DELETE FROM meta WHERE name = $1;

-- name: archive_put
INSERT INTO archive (lane, kind, url, branch, added, removed, first_rev, next_rev, youngest, tip, definition, lock_users)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (lane) DO UPDATE SET kind = excluded.kind, url = excluded.url, branch = excluded.branch, added = excluded.added,
    removed = excluded.removed, first_rev = excluded.first_rev, next_rev = excluded.next_rev, youngest = excluded.youngest,
    tip = excluded.tip, definition = excluded.definition, lock_users = excluded.lock_users;

-- name: revision_put
INSERT INTO revision (lane, rev, state, ident, txn, author, message, at, noted, cause, depth, definition, prevs)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (lane, rev) DO UPDATE SET state = excluded.state, ident = excluded.ident, txn = excluded.txn, author = excluded.author,
    message = excluded.message, at = excluded.at, noted = excluded.noted, cause = excluded.cause, depth = excluded.depth,
    definition = excluded.definition, prevs = excluded.prevs;

-- name: latest_put
INSERT INTO latest (lane, name, variant, rev, task, ran_rev, ran_task) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (lane, name, variant) DO UPDATE SET rev = excluded.rev, task = excluded.task, ran_rev = excluded.ran_rev,
    ran_task = excluded.ran_task;

-- name: schedule_put
INSERT INTO schedule (lane, task, cron, zone, next_ms, fired_ms) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (lane, task, cron, zone) DO UPDATE SET next_ms = excluded.next_ms, fired_ms = excluded.fired_ms;

-- name: clock_put
INSERT INTO clock (one, known_ms, ran_ms, seen_ms) VALUES (1, $1, $2, $3)
ON CONFLICT (one) DO UPDATE SET known_ms = excluded.known_ms, ran_ms = excluded.ran_ms, seen_ms = excluded.seen_ms;

-- name: schedule_delete
DELETE FROM schedule WHERE lane = $1 AND task = $2 AND cron = $3 AND zone = $4;

-- name: outputs_delete
DELETE FROM outputs WHERE task = $1;

-- name: log_seal_put
INSERT INTO log_seal (task, grant_no, bytes, hash) VALUES ($1, $2, $3, $4)
ON CONFLICT (task, grant_no) DO UPDATE SET bytes = excluded.bytes, hash = excluded.hash;

-- name: log_seal_delete
DELETE FROM log_seal WHERE task = $1 AND grant_no = $2;

-- name: log_tails_delete
DELETE FROM log_tail WHERE task = $1;
