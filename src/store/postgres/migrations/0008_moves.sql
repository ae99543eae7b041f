-- A plain task's moves (P, X, D) write no index: PostgreSQL puts the next version of a row onto its own page (HOT) when no column that
-- stands in an index, or in the condition of one, has changed, and there is room. So the lists by state get a column that is NULL in those
-- three states; it is made by the database, so that a server of the version before, which doesn't know it, fills it too. Pages are filled by half:
-- one turn may move all rows of a page, and what it leaves is room again for the next. The table ends smaller than without (three versions
-- of a row side by side, each in the primary key). This step writes it anew, once.
ALTER TABLE task SET (fillfactor = 50);
DROP INDEX task_state;
ALTER TABLE task ADD COLUMN listed TEXT GENERATED ALWAYS AS (CASE WHEN state <> 'P' AND state <> 'X' AND state <> 'D' THEN state END) STORED;
CREATE INDEX task_listed ON task (listed, id) WHERE listed IS NOT NULL;
