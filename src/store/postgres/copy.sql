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

-- name: copy_lives_forget
-- With a new incarnation: no executor can name these grants any more, though their jobs may have begun (model.h, forgotten). Copies have no
-- rows in live_many.
UPDATE live SET poll_seq = -2 - poll_seq WHERE poll_seq >= 0;
