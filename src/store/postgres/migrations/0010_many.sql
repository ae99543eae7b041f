-- Attempts that run and were granted with many others by one poll: a row has those of 64 tasks with neighbouring numbers (block: the number
-- without its last six bits), a bit for each that still runs. So a claim of a thousand is 16 rows, and so is its end, where it would be a
-- thousand rows in and out of `live`. A row without bits goes.
CREATE TABLE live_many (
    block BIGINT NOT NULL, grant_no BIGINT NOT NULL, number BIGINT NOT NULL, executor BIGINT NOT NULL, started BIGINT NOT NULL,
    poll_seq BIGINT NOT NULL, bits BIGINT NOT NULL
);
ALTER TABLE live_many SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX live_many_block ON live_many (block);
