-- Logs of attempts and kept files, for every server that shares the store. A log's bytes are rows that follow one another without a gap;
-- log.bytes is their sum, and whoever appends holds that row's lock.
CREATE TABLE log (
    task BIGINT NOT NULL, grant_no BIGINT NOT NULL, bytes BIGINT NOT NULL, sealed BIGINT NOT NULL, PRIMARY KEY (task, grant_no)
);
CREATE INDEX log_open ON log (task, grant_no) WHERE sealed = 0;
CREATE TABLE log_chunk (
    task BIGINT NOT NULL, grant_no BIGINT NOT NULL, start_byte BIGINT NOT NULL, bytes BYTEA NOT NULL, PRIMARY KEY (task, grant_no, start_byte)
);
-- used: when it was kept last, in seconds. Pieces all have the same size but the last.
CREATE TABLE blob (hash TEXT NOT NULL PRIMARY KEY, bytes BIGINT NOT NULL, used BIGINT NOT NULL);
CREATE TABLE blob_chunk (hash TEXT NOT NULL, n BIGINT NOT NULL, bytes BYTEA NOT NULL, PRIMARY KEY (hash, n));
ALTER TABLE blob_chunk ALTER COLUMN bytes SET STORAGE EXTERNAL;
