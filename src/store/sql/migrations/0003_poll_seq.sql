-- The number of the poll that a grant was given to: a later poll that doesn't name the grant takes it back, an older one doesn't, whoever was
-- restarted in between. -1: granted to a poll without a number, or before there was this column.
ALTER TABLE live ADD COLUMN poll_seq BIGINT NOT NULL DEFAULT -1;
