-- Uploads of attempts, whichever servers their pieces come to. An upload that is being sealed has a key of its own; what it became is noted
-- in upload_seal until the attempt is over. tenant: whose quota it counts in; used: seconds.
CREATE TABLE upload (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key TEXT NOT NULL, task BIGINT NOT NULL, grant_no BIGINT NOT NULL,
    tenant TEXT NOT NULL, bytes BIGINT NOT NULL, used BIGINT NOT NULL
);
CREATE UNIQUE INDEX upload_key ON upload (key);
CREATE INDEX upload_grant ON upload (task, grant_no);
CREATE INDEX upload_tenant ON upload (tenant);
CREATE TABLE upload_piece (upload BIGINT NOT NULL, n BIGINT NOT NULL, bytes BYTEA NOT NULL, PRIMARY KEY (upload, n));
ALTER TABLE upload_piece ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE TABLE upload_seal (
    task BIGINT NOT NULL, grant_no BIGINT NOT NULL, name TEXT NOT NULL, hash TEXT NOT NULL, bytes BIGINT NOT NULL, tenant TEXT NOT NULL,
    used BIGINT NOT NULL, PRIMARY KEY (task, grant_no, name)
);
CREATE INDEX upload_seal_tenant ON upload_seal (tenant);
