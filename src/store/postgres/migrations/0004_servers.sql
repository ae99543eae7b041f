-- The number of the commit that wrote the row last: what a server reads of what the others did. Few rows: no index but on the largest.
ALTER TABLE lane ADD COLUMN touched BIGINT NOT NULL DEFAULT 0;
ALTER TABLE slot ADD COLUMN touched BIGINT NOT NULL DEFAULT 0;
ALTER TABLE executor ADD COLUMN touched BIGINT NOT NULL DEFAULT 0;
ALTER TABLE archive ADD COLUMN touched BIGINT NOT NULL DEFAULT 0;
-- What each server committed last: a commit whose answer was lost is told by it, whatever others have written since.
CREATE TABLE mark (server TEXT NOT NULL PRIMARY KEY, nonce BIGINT NOT NULL);
ALTER TABLE mark SET (fillfactor = 10);
ALTER TABLE server SET (fillfactor = 30);
ALTER TABLE duty SET (fillfactor = 30);
