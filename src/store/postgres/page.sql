-- for: page
-- The next pending tasks, read beside the turns (page.c), on a connection of its own.

-- name: page_begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: page_tasks
@ready_tasks@;

-- name: page_tasks_from
@ready_tasks_from@;

-- name: page_tick
SELECT tick FROM head WHERE one = 1;

-- name: page_end
COMMIT;
