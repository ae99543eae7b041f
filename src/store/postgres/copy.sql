-- for: copy
-- Beside the statements that tools/embed_sql makes for each table of the migrations.

-- name: copy_fetch
FETCH FORWARD 1000 FROM copy_rows;

-- name: copy_close
CLOSE copy_rows;

-- name: copy_out_live
-- With those of live_many, as plain rows.
DECLARE copy_rows NO SCROLL CURSOR FOR SELECT @live_columns@ FROM live
UNION ALL SELECT i.task, @many_columns@ FROM @many_each@ ORDER BY 1, 2;
