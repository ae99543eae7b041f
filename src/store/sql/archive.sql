-- for: writer reader
-- Archives, revisions, schedules: what both the engine and readers load.

-- name: archives
SELECT @archive_columns@ FROM archive ORDER BY lane;

-- name: archive_get
SELECT @archive_columns@ FROM archive WHERE lane = $1;

-- name: revision_get
SELECT @revision_columns@ FROM revision WHERE lane = $1 AND rev = $2;

-- name: revisions_below
SELECT @revision_columns@ FROM revision WHERE lane = $1 AND rev < $2 ORDER BY rev DESC LIMIT $3;

-- name: revision_of_ident
SELECT rev FROM revision WHERE lane = $1 AND ident = $2 AND ident <> '' ORDER BY rev DESC LIMIT 1;

-- name: schedules
SELECT @schedule_columns@ FROM schedule ORDER BY lane, task, cron, zone;

-- name: schedules_of
SELECT @schedule_columns@ FROM schedule WHERE lane = $1 ORDER BY task, cron, zone;
