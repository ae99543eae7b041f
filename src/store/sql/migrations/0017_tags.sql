-- What a turn makes of rows: each that it writes and removes, with a tag (store/tags.h), under the turn's hash. NULL: the turn was written by a server of an older
-- schema; what it has written isn't known, and `verify` forgets what it knew of rows.
ALTER TABLE turn ADD COLUMN tags @BLOB@;
