-- The first schema. @ID@, @BLOB@ and @ROWLESS@ stand for what the two databases spell differently (tools/embed_sql): a 64-bit primary key
-- that is the row's own address, a byte string, and a table that is its own index.
--
-- Hot tables are task, ready, live, attempt, edge, turn and head; every index on them is paid by each enqueue, claim or finish, so each
-- says what it is for.

CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);

-- One row. Written as the last statement of a turn, so that on PostgreSQL managers meet here as briefly as can be. `seal` is a keyed
-- hash of (incarnation, turn, seq, hash): turns cut off at the end can't be hidden by editing this row.
CREATE TABLE head (
    one @ID@,
    incarnation BIGINT NOT NULL, turn BIGINT NOT NULL, seq BIGINT NOT NULL, hash @BLOB@ NOT NULL, seal @BLOB@ NOT NULL,
    next_task BIGINT NOT NULL, next_spec BIGINT NOT NULL, next_lane BIGINT NOT NULL, next_class BIGINT NOT NULL, next_slot BIGINT NOT NULL,
    next_executor BIGINT NOT NULL, next_token BIGINT NOT NULL, v_now BIGINT NOT NULL
);

-- Archives and queues, with the number of their tasks in each state.
CREATE TABLE lane (
    id @ID@,
    kind BIGINT NOT NULL, tenant TEXT NOT NULL, name TEXT NOT NULL, last_vt BIGINT NOT NULL,
    n_q BIGINT NOT NULL, n_s BIGINT NOT NULL, n_p BIGINT NOT NULL, n_x BIGINT NOT NULL,
    n_d BIGINT NOT NULL, n_f BIGINT NOT NULL, n_t BIGINT NOT NULL, n_a BIGINT NOT NULL,
    paused_since BIGINT NOT NULL, paused_by TEXT NOT NULL, paused_reason TEXT NOT NULL
);
CREATE INDEX lane_name ON lane (name);

CREATE TABLE class (
    id @ID@,
    class_key TEXT NOT NULL, tenant TEXT NOT NULL, zone TEXT NOT NULL, kind BIGINT NOT NULL, labels @BLOB@ NOT NULL
);

-- What an executor needs to run a task; apart, so that task rows stay narrow.
CREATE TABLE spec (
    id @ID@,
    body TEXT NOT NULL, attempts_max BIGINT NOT NULL, backoff_ms BIGINT NOT NULL, retry_on BIGINT NOT NULL, slots @BLOB@ NOT NULL
);

CREATE TABLE slot (id @ID@, tenant TEXT NOT NULL, name TEXT NOT NULL, slot_limit BIGINT NOT NULL, used BIGINT NOT NULL,
    waiting BIGINT NOT NULL);

-- Columns are what some statement looks for or shows in a list; state is the letter. Everything else is packed into `rest` (task_pack in
-- store/cells.c): it is only ever read and written as a whole, and 22 columns more cost each insert and each move twice as much.
CREATE TABLE task (
    id @ID@,
    lane BIGINT NOT NULL, rev BIGINT, state TEXT NOT NULL, name TEXT NOT NULL, variant TEXT NOT NULL, run BIGINT NOT NULL,
    rest @BLOB@ NOT NULL
);
-- ARCHIVE@REV:NAME -> task. A queue's task (rev NULL) isn't in it and doesn't pay for it.
CREATE INDEX task_key ON task (lane, rev, name, variant, run) WHERE rev IS NOT NULL;
-- Lists by state. P, X and D, the states of the hot path, are listed by other ways: ready, live, and the table itself from its end.
-- (Comparisons, not IN: for an IN of more than two SQLite builds a table at every UPDATE, 20 us where the rest takes 4.)
CREATE INDEX task_state ON task (state) WHERE state <> 'P' AND state <> 'X' AND state <> 'D';

-- A row exists if and only if the task is P. nprio is -prio, so that the order of the key is the order of claims.
CREATE TABLE ready (
    class BIGINT NOT NULL, nprio BIGINT NOT NULL, vt BIGINT NOT NULL, task BIGINT NOT NULL,
    PRIMARY KEY (class, nprio, vt, task)
) @ROWLESS@;

CREATE TABLE edge (
    pred BIGINT NOT NULL, waiter BIGINT NOT NULL, kind BIGINT NOT NULL, flags BIGINT NOT NULL,
    PRIMARY KEY (pred, waiter, kind)
) @ROWLESS@;
CREATE INDEX edge_waiter ON edge (waiter);

CREATE TABLE hold (
    kind BIGINT NOT NULL, hold_key BIGINT NOT NULL, rank BIGINT NOT NULL, task BIGINT NOT NULL, since BIGINT NOT NULL,
    PRIMARY KEY (kind, hold_key, rank, task)
) @ROWLESS@;
CREATE INDEX hold_task ON hold (task);

-- Attempts that run: few, hot, always cached. A finish moves the row to `attempt`: three touches of a B-tree in the life of an attempt,
-- where one table with a partial index over the unfinished would take four.
CREATE TABLE live (
    task BIGINT NOT NULL, grant_no BIGINT NOT NULL, number BIGINT NOT NULL, executor BIGINT NOT NULL, started BIGINT NOT NULL,
    PRIMARY KEY (task, grant_no)
) @ROWLESS@;
CREATE TABLE attempt (
    task BIGINT NOT NULL, grant_no BIGINT NOT NULL, number BIGINT NOT NULL, executor BIGINT NOT NULL, started BIGINT NOT NULL,
    finished BIGINT NOT NULL, exit_status BIGINT NOT NULL, signal_no BIGINT NOT NULL, outcome TEXT NOT NULL, cpu_ms BIGINT NOT NULL,
    max_rss_bytes BIGINT NOT NULL, log_bytes BIGINT NOT NULL, finish_hash @BLOB@ NOT NULL,
    PRIMARY KEY (task, grant_no)
) @ROWLESS@;

CREATE TABLE outputs (task @ID@, body TEXT NOT NULL);
CREATE TABLE log_tail (
    task BIGINT NOT NULL, grant_no BIGINT NOT NULL, start_byte BIGINT NOT NULL, bytes @BLOB@ NOT NULL,
    PRIMARY KEY (task, grant_no)
) @ROWLESS@;

CREATE TABLE unique_key (tenant TEXT NOT NULL, key_text TEXT NOT NULL, task BIGINT NOT NULL, PRIMARY KEY (tenant, key_text)) @ROWLESS@;

CREATE TABLE idempotency (
    tenant TEXT NOT NULL, token TEXT NOT NULL, route TEXT NOT NULL, key_text TEXT NOT NULL,
    body_hash @BLOB@ NOT NULL, status BIGINT NOT NULL, ids @BLOB@ NOT NULL, expires BIGINT NOT NULL,
    PRIMARY KEY (tenant, token, route, key_text)
) @ROWLESS@;
CREATE INDEX idempotency_expires ON idempotency (expires);

CREATE TABLE executor (
    id @ID@,
    name TEXT NOT NULL, instance TEXT NOT NULL, host TEXT NOT NULL, version TEXT NOT NULL, zone TEXT NOT NULL, slots BIGINT NOT NULL,
    kinds BIGINT NOT NULL, labels @BLOB@ NOT NULL, state BIGINT NOT NULL, registered BIGINT NOT NULL, processed BIGINT NOT NULL,
    failed BIGINT NOT NULL
);

CREATE TABLE token (
    id @ID@,
    name TEXT NOT NULL, tenant TEXT NOT NULL, hash @BLOB@ NOT NULL, scopes BIGINT NOT NULL, created BIGINT NOT NULL, expires BIGINT NOT NULL
);

-- The history: one row a turn, its events packed (store/pack.h), each hash over the one before.
CREATE TABLE turn (turn @ID@, first_seq BIGINT NOT NULL, at BIGINT NOT NULL, hash @BLOB@ NOT NULL, events @BLOB@ NOT NULL);
CREATE INDEX turn_first_seq ON turn (first_seq);
