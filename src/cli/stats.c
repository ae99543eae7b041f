/* stats: processed (failed, terminated, abandoned among them), queued, working: in all, per queue, per executor. */
#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

static const char *const stats_fields[] = { "processed", "failed", "terminated", "abandoned", "queued", "working" };

static void stats_row(struct table *table, const char *kind, const char *name, const json_t *counts)
{
    table_add(table, PAINT_DIM, "%s", kind);
    table_add(table, PAINT_BOLD, "%s", name);
    for (size_t i = 0; i < sizeof stats_fields / sizeof *stats_fields; i++) {
        bool there = json_object_get(counts, stats_fields[i]) != NULL;
        table_add(table, PAINT_NONE, there ? "%lld" : "", (long long)field_i64(counts, stats_fields[i], 0));
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

void stats_print(struct session *s, const json_t *stats)
{
    struct table table;
    table_init(&table, &s->arena, "OF|NAME|>PROCESSED|>FAILED|>TERMINATED|>ABANDONED|>QUEUED|>WORKING");
    stats_row(&table, "all", "", stats);
    stats_rows(&table, "queue", json_object_get(stats, "queues"));
    stats_rows(&table, "executor", json_object_get(stats, "executors"));
    table_print(&table, &s->term, stdout, 0);
}
