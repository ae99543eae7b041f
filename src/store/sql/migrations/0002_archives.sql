-- Archives and their revisions. `lock_users` packs the tasks that have or had the archive's lock: the exclusive one first, then those that
-- share it since.
CREATE TABLE archive (
    lane @ID@,
    kind BIGINT NOT NULL, url TEXT NOT NULL, branch TEXT NOT NULL, added BIGINT NOT NULL, removed BIGINT NOT NULL, first_rev BIGINT NOT NULL,
    next_rev BIGINT NOT NULL, youngest BIGINT NOT NULL, tip TEXT NOT NULL, definition BIGINT NOT NULL, lock_users @BLOB@ NOT NULL
);

CREATE TABLE revision (
    lane BIGINT NOT NULL, rev BIGINT NOT NULL, state BIGINT NOT NULL, ident TEXT NOT NULL, txn TEXT NOT NULL, author TEXT NOT NULL,
    message TEXT NOT NULL, at BIGINT NOT NULL, noted BIGINT NOT NULL, cause BIGINT NOT NULL, depth BIGINT NOT NULL,
    definition BIGINT NOT NULL, prevs @BLOB@ NOT NULL,
    PRIMARY KEY (lane, rev)
) @ROWLESS@;
-- git: commit -> number.
CREATE INDEX revision_ident ON revision (lane, ident, rev) WHERE ident <> '';

-- What PREV means: the newest revision that has a task of this name. Survives the pruning of its tasks.
CREATE TABLE latest (
    lane BIGINT NOT NULL, name TEXT NOT NULL, variant TEXT NOT NULL, rev BIGINT NOT NULL, task BIGINT NOT NULL,
    ran_rev BIGINT NOT NULL, ran_task BIGINT NOT NULL,
    PRIMARY KEY (lane, name, variant)
) @ROWLESS@;
-- PREV of a merge, and of what is run on an older revision. Queue tasks (rev NULL) don't pay for it.
CREATE INDEX task_name ON task (lane, name, variant, rev, run) WHERE rev IS NOT NULL;

CREATE TABLE schedule (
    lane BIGINT NOT NULL, task TEXT NOT NULL, cron TEXT NOT NULL, zone TEXT NOT NULL, next_ms BIGINT NOT NULL,
    PRIMARY KEY (lane, task, cron, zone)
) @ROWLESS@;
