/* stats: processed (failed, terminated, abandoned among them), queued, working: in all, per queue, per executor. */
#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"

const struct command_spec stats_spec = {
    .name = "stats",
    .operands = "",
    .summary = "counts: processed, failed, queued, working",
    .description = "PROCESSED are all that have ended; FAILED, TERMINATED and ABANDONED are among them. Of an executor its attempts "
                   "are counted.",
    .flags = COMMAND_CLIENT,
};

static const char *const stats_fields[] = { "processed", "failed", "terminated", "abandoned", "queued", "working" };

static void stats_row(struct table *table, const char *kind, const char *name, const json_t *counts)
{
    table_add(table, PAINT_DIM, "%s", kind);
    table_add(table, PAINT_BOLD, "%s", name);
    for (size_t i = 0; i < sizeof stats_fields / sizeof *stats_fields; i++) {
        const json_t *n = json_object_get(counts, stats_fields[i]);
        if (n) {
            table_add(table, PAINT_NONE, "%lld", (long long)field_i64(counts, stats_fields[i], 0));
        } else {
            table_add(table, PAINT_NONE, "%s", "");
        }
    }
}

/* stats_rows: a list of {name, ...} or an object by name. */
static void stats_rows(struct table *table, const char *kind, json_t *group)
{
    const char *name;
    json_t *counts;
    size_t i;
    json_array_foreach (group, i, counts)
        stats_row(table, kind, field_z(counts, "name"), counts);
    if (json_is_object(group))
        json_object_foreach (group, name, counts)
            stats_row(table, kind, name, counts);
}

int stats_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &stats_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    json_t *stats = session_get(&s, "/v1/stats");
    if (!stats)
        return session_close(&s, s.status);
    if (s.json) {
        session_print(&s, stats);
    } else {
        struct table table;
        table_init(&table, &s.arena, "OF|NAME|>PROCESSED|>FAILED|>TERMINATED|>ABANDONED|>QUEUED|>WORKING");
        stats_row(&table, "all", "", stats);
        stats_rows(&table, "queue", json_object_get(stats, "queues"));
        stats_rows(&table, "executor", json_object_get(stats, "executors"));
        table_print(&table, &s.term, stdout, 0);
    }
    json_decref(stats);
    return session_close(&s, 0);
}
