-- for: copy
-- Beside the statements that tools/embed_sql makes for each table of the migrations.

-- name: copy_fetch
FETCH FORWARD 1000 FROM copy_rows;

-- name: copy_close
CLOSE copy_rows;
