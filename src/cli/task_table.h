/* task_table: a list of tasks for people, and the filters that list and history share. */
#ifndef WEIR_CLI_TASK_TABLE_H
#define WEIR_CLI_TASK_TABLE_H

#include "cli/session.h"

/* task_filters: "/v1/tasks?..." from --state, --archive, --queue, --task and the limit; NULL: a usage error was
 * printed. */
const char *task_filters(struct session *session, int64_t limit);
void task_table_print(struct session *session, const json_t *tasks);
/* task_took: from start to end, or to now while it runs; false: it never started. */
bool task_took(const json_t *task, int64_t now_ms, int64_t *out_ms);

#endif
