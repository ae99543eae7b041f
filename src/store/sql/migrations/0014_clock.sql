-- What is known of the wall clock where being wrong destroys something (core/wall.h), one row; and of each schedule the time up to which its
-- slots have fired, so that a clock that is put right finds the next one.
CREATE TABLE clock (one BIGINT NOT NULL PRIMARY KEY, known_ms BIGINT NOT NULL, ran_ms BIGINT NOT NULL, seen_ms BIGINT NOT NULL);
ALTER TABLE schedule ADD COLUMN fired_ms BIGINT NOT NULL DEFAULT 0;
