-- log.sealed 2: no more bytes come, and its hash isn't noted in log_seal yet; 1: it is, or an older version sealed it.
CREATE INDEX log_unnoted ON log (task, grant_no) WHERE sealed = 2;
