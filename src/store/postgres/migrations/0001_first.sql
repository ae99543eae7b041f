-- What only PostgreSQL needs beside sql/migrations/0001_first.sql, in the same step.

-- Says that the tables beside it are Weir's, and which schema they have.
CREATE TABLE weir_schema (version BIGINT NOT NULL);
INSERT INTO weir_schema (version) VALUES (0);

-- The number of the commit, also of one without events: a commit whose answer was lost is told by it.
ALTER TABLE head ADD COLUMN tick BIGINT NOT NULL DEFAULT 0;

-- SQLite's indexes end with the row's id by themselves; lists by state are walked in that order.
DROP INDEX task_state;
CREATE INDEX task_state ON task (state, id) WHERE state <> 'P' AND state <> 'X' AND state <> 'D';

-- Rows that are written in every turn find room for their next version on their own page, so that no index is touched (HOT).
ALTER TABLE head SET (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE lane SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE slot SET (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE executor SET (fillfactor = 30);
-- Rows come and go: what is dead is cleared away by count, however large the table is.
ALTER TABLE ready SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE live SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
ALTER TABLE hold SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
-- Packed bytes don't pack again.
ALTER TABLE turn ALTER COLUMN events SET STORAGE EXTERNAL;
