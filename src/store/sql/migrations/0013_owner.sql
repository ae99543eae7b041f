-- The token that registered an executor: only that one speaks for it. 0: the server's own user, without a token; below: not known (it
-- registered with an older server), so it has to register again.
ALTER TABLE executor ADD COLUMN owner BIGINT NOT NULL DEFAULT -1;

-- Since when it is silent, by the wall clock; 0: it isn't, or nobody has seen it.
ALTER TABLE executor ADD COLUMN silent BIGINT NOT NULL DEFAULT 0;
