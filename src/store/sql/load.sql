-- for: writer reader
-- What both the engine's connection and readers load. Lists of columns are written once, in rows.def.

-- let head_row: @head_columns@, seal, tick

-- name: head_get
-- With the time of its turn: the next one isn't older, whichever server's clock it is taken by.
SELECT @head_row@, (SELECT t.at FROM turn t WHERE t.first_seq <= head.seq ORDER BY t.first_seq DESC LIMIT 1) FROM head WHERE one = 1;

-- name: lanes
SELECT @lane_columns@ FROM lane ORDER BY id;

-- name: lanes_page
-- A page of a list, as the three others: by the table's key; rows that are somebody else's are passed over. $3: 1: everybody's.
SELECT @lane_columns@ FROM lane WHERE id > $1 AND (tenant = $2 OR id = 0 OR CAST($3 AS BIGINT) = 1) ORDER BY id LIMIT $4;

-- name: classes
SELECT @class_columns@ FROM class ORDER BY id;

-- name: slots
SELECT @slot_columns@ FROM slot ORDER BY id;

-- name: slots_page
-- Without those that stand for something else, whose names have a slash: concurrency keys (most by their number: SLOT_KEYED), quotas.
SELECT @slot_columns@ FROM slot WHERE id > $1 AND id < 4611686018427387904 AND (tenant = '' OR tenant = $2 OR CAST($3 AS BIGINT) = 1)
    AND name NOT LIKE '%/%' ORDER BY id LIMIT $4;

-- name: executors
SELECT @executor_columns@ FROM executor ORDER BY id;

-- name: executors_page
SELECT @executor_columns@ FROM executor WHERE id > $1 AND (tenant = $2 OR CAST($3 AS BIGINT) = 1) ORDER BY id LIMIT $4;

-- name: site
SELECT @site_columns@ FROM site ORDER BY name;

-- name: tokens
SELECT @token_columns@ FROM token ORDER BY id;

-- name: tokens_after
SELECT @token_columns@ FROM token WHERE id > $1 ORDER BY id LIMIT $2;

-- name: tokens_page
-- Newest first.
SELECT @token_columns@ FROM token WHERE id < $1 AND (tenant = $2 OR CAST($3 AS BIGINT) = 1)
ORDER BY id DESC LIMIT $4;

-- name: task_get
SELECT @task_columns@ FROM task WHERE id = $1;

-- name: spec_get
SELECT @spec_columns@ FROM spec WHERE id = $1;

-- name: edges_by_pred
SELECT @edge_columns@ FROM edge WHERE pred = $1 ORDER BY waiter, kind;

-- name: outs_after
SELECT @edge_columns@ FROM edge WHERE pred = $1 AND waiter > $2 ORDER BY waiter, kind LIMIT $3;

-- name: outs_others
SELECT @edge_columns@ FROM edge WHERE pred = $1 AND kind <> $2;

-- name: attempt_get
SELECT @attempt_columns@ FROM attempt WHERE task = $1 AND grant_no = $2;

-- name: outputs_get
SELECT @outputs_columns@ FROM outputs WHERE task = $1;

-- name: log_seal_get
SELECT @log_seal_columns@ FROM log_seal WHERE task = $1 AND grant_no = $2;

-- name: holds_of
SELECT @hold_columns@ FROM hold WHERE kind = $1 AND hold_key = $2 ORDER BY rank, task LIMIT $3;
