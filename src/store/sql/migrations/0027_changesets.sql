-- Change sets: what a task of kind apply has besides. `movetype`: enum movetype; `undoes` packs the tasks that a rollback names. `files` and `removed` come last: a row that isn't
-- wanted with its paths is read without them.
CREATE TABLE changeset (
    task @ID@,
    lane BIGINT NOT NULL, tenant TEXT NOT NULL, csid TEXT NOT NULL, hash @BLOB@ NOT NULL, movetype BIGINT NOT NULL, name TEXT NOT NULL, tai BIGINT NOT NULL,
    submitter TEXT NOT NULL, overlapping BIGINT NOT NULL, undoes @BLOB@ NOT NULL, ticket TEXT NOT NULL, approver TEXT NOT NULL, approved BIGINT NOT NULL,
    rank BIGINT NOT NULL, base TEXT NOT NULL, revision TEXT NOT NULL, rolled_back_by BIGINT NOT NULL, files TEXT NOT NULL, removed TEXT NOT NULL
);
-- No two of a tenant have one CSID. Here and in the next the tenant comes second, so that no statement can take the one index for the other.
CREATE UNIQUE INDEX changeset_csid ON changeset (csid, tenant);
-- Not unique: the same content may come again (--again).
CREATE INDEX changeset_hash ON changeset (hash, tenant, task);
-- Lists, newest first.
CREATE INDEX changeset_newest ON changeset (tenant, task);

-- The paths of change sets in the order of ranks: `applied` 0: of those that haven't ended; 1: of those that are applied. The others have no rows.
CREATE TABLE changeset_file (
    lane BIGINT NOT NULL, applied BIGINT NOT NULL, path TEXT NOT NULL, rank BIGINT NOT NULL, task BIGINT NOT NULL,
    PRIMARY KEY (lane, applied, path, rank)
) @ROWLESS@;
