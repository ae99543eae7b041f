-- Servers that share a store, and what one of them does for all.
CREATE TABLE server (
    name TEXT NOT NULL PRIMARY KEY, instance TEXT NOT NULL, host TEXT NOT NULL, version TEXT NOT NULL, address TEXT NOT NULL,
    started BIGINT NOT NULL, beat BIGINT NOT NULL, load BIGINT NOT NULL
);
CREATE TABLE duty (name TEXT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, epoch BIGINT NOT NULL, beat BIGINT NOT NULL);
