-- for: page
-- The next pending tasks, read beside the turns (page.c), on a connection of its own.

-- name: page_begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: page_tasks
-- As ready_tasks.
SELECT @ready_tasks_columns@
FROM (SELECT task, nprio, vt, ctid FROM ready WHERE class = $1 ORDER BY nprio, vt, task LIMIT $2) r LEFT JOIN task t ON t.id = ANY (ARRAY[r.task])
ORDER BY r.nprio, r.vt, r.task;

-- name: page_tick
SELECT tick FROM head WHERE one = 1;

-- name: page_end
COMMIT;
