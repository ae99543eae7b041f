-- for: claim
-- The next pending tasks, read beside the turns (prefetch_claim.c), on a connection of its own.

-- name: claim_begin
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- name: claim_tasks
@ready_tasks@;

-- name: claim_tasks_from
@ready_tasks_from@;

-- name: claim_tick
SELECT tick FROM head WHERE one = 1;

-- name: claim_end
COMMIT;
