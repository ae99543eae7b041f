-- Tenants. A lane is of one tenant, so what a tenant has is the sum over its lanes: tasks by state were counted there from the first; bytes
-- of kept logs and files are counted from now on (tasks that ended earlier carry no MARK_KEPT and are never taken off).
ALTER TABLE lane ADD COLUMN log_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN file_bytes BIGINT NOT NULL DEFAULT 0;

-- An executor that registered with a token of a tenant gets only that tenant's tasks; empty: everybody's.
ALTER TABLE executor ADD COLUMN tenant TEXT NOT NULL DEFAULT '';

-- What the site's configuration says, as the servers that share the store go by it: one row a key of weir.yaml, its value as JSON.
CREATE TABLE site (
    name TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL, version BIGINT NOT NULL, changed BIGINT NOT NULL, changed_by TEXT NOT NULL
);
