-- for: writer reader
-- Change sets: what both the engine and readers load. By a place in an index, whatever has been queued. Said as ranges, in an order: `=` would let
-- PostgreSQL take another index that has the column, and walk it, while there are few.

-- name: changeset_get
SELECT @changeset_columns@ FROM changeset WHERE task >= $1 AND task <= $1 ORDER BY task LIMIT 1;

-- name: changeset_of_csid
SELECT task FROM changeset WHERE (csid, tenant) >= ($2, $1) AND (csid, tenant) <= ($2, $1) ORDER BY csid LIMIT 1;

-- for: writer

-- name: changeset_of_hash
-- The newest.
SELECT task FROM changeset WHERE (hash, tenant) >= ($2, $1) AND (hash, tenant) <= ($2, $1) ORDER BY hash DESC, tenant DESC, task DESC LIMIT 1;

-- name: changeset_file_after
-- A path's next row, one step along the primary key.
SELECT @changeset_file_columns@ FROM changeset_file WHERE lane = $1 AND applied = $2 AND path = $3 AND rank > $4 ORDER BY rank LIMIT 1;

-- name: changesets_open
-- For the removal of an archive: along the primary key, so a change set comes once for each of its paths.
SELECT task FROM changeset_file WHERE lane = $1 AND applied = 0 ORDER BY path, rank LIMIT $2;

-- name: changeset_file_before
SELECT @changeset_file_columns@ FROM changeset_file WHERE lane = $1 AND applied = $2 AND path = $3 AND rank < $4 ORDER BY rank DESC LIMIT 1;

-- let changeset_brief: c.task, c.lane, c.tenant, c.csid, c.hash, c.movetype, c.name, c.tai, c.submitter, c.overlapping, c.undoes, c.ticket, c.approver, c.approved, c.rank, c.base, c.revision, c.rolled_back_by, '', ''
