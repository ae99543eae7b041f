-- What a sealed log was: the hash (BLAKE2b, 32 bytes) of its first `bytes` bytes, all that were stored, without the tail that came with the finish. Written by turns
-- after the seal, many in one; gone with the log. A log without a row: still open, empty, not noted yet, or an older version's.
CREATE TABLE log_seal (
    task BIGINT NOT NULL, grant_no BIGINT NOT NULL, bytes BIGINT NOT NULL, hash @BLOB@ NOT NULL,
    PRIMARY KEY (task, grant_no)
) @ROWLESS@;
