-- The number of the commit, also of one without events: what an answer says as of which it is valid (Weir-Turn), and what a read may wait for.
-- PostgreSQL has had it from the first.
ALTER TABLE head ADD COLUMN @UNLESS@ tick BIGINT NOT NULL DEFAULT 0;
