/* nodes: the servers and executors that are there. */
#include <string.h>

#include "cli/command.h"
#include "cli/lane_table.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"

/* load_text: of an executor the slots in use, of a server the load of its machine. */
static void load_text(const json_t *node, char *out, size_t size)
{
    const json_t *load = json_object_get(node, "load");
    int64_t running = field_i64(node, "running", -1), slots = field_i64(node, "slots", -1);
    if (running >= 0 && slots >= 0)
        snprintf(out, size, "%lld/%lld", (long long)running, (long long)slots);
    else
        snprintf(out, size, json_is_number(load) ? "%.2f" : "", json_number_value(load));
}

void node_table(struct table *table, struct arena *arena, const json_t *nodes, const char *role)
{
    static const struct {
        const char *state;
        enum paint paint;
    } paints[] = {
        { "active", PAINT_GREEN },
        { "paused", PAINT_YELLOW },
        { "draining", PAINT_YELLOW },
        { "lost", PAINT_RED },
        { "gone", PAINT_RED },
    };
    const json_t *node;
    size_t i;
    table_init(table, arena, "NAME|ROLE|STATE|>LOAD|HOST|ZONE|VERSION");
    json_array_foreach (nodes, i, node) {
        const char *state = field_z(node, "state");
        enum paint paint = PAINT_NONE;
        char load[64];
        if (role && strcmp(field_z(node, "role"), role) != 0)
            continue;
        for (size_t p = 0; p < sizeof paints / sizeof *paints; p++)
            if (strcmp(paints[p].state, state) == 0)
                paint = paints[p].paint;
        load_text(node, load, sizeof load);
        table_add(table, PAINT_BOLD, "%s", field_z(node, "name"));
        table_add(table, PAINT_NONE, "%s", field_z(node, "role"));
        table_add(table, paint, "%s", state);
        table_add(table, PAINT_NONE, "%s", load);
        table_add(table, PAINT_NONE, "%s", field_z(node, "host"));
        table_add(table, PAINT_NONE, "%s", field_z(node, "zone"));
        table_add(table, PAINT_DIM, "%s", field_z(node, "version"));
    }
}

/* coordination_say: nothing has to be done about it at once, but nobody else would tell. */
static void coordination_say(struct session *s, const json_t *coordination)
{
    if (strcmp(field_z(coordination, "state"), "away") != 0)
        return;
    const char *why = field_z(coordination, "detail");
    session_note(s, "coordination: %s is away (%s) since %s: work goes on, duties go by the store alone",
        field_z(coordination, "kind"), term_safe_z(&s->arena, why), field_z(coordination, "since"));
}

static void node_warnings_say(struct session *s, const json_t *nodes)
{
    const json_t *node, *warning;
    size_t i, k;
    json_array_foreach (nodes, i, node)
        json_array_foreach (json_object_get(node, "warnings"), k, warning)
            session_note(s, "warning: %s: %s", term_safe_z(&s->arena, field_z(node, "name")),
                term_safe_z(&s->arena, json_string_value(warning)));
}

void executor_print(struct session *s, const json_t *executor)
{
    json_t *labels = json_object_get(executor, "labels"), *value;
    const char *name;
    session_line(s, "executor", PAINT_BOLD, field_z(executor, "name"));
    session_line(s, "state", PAINT_NONE, field_z(executor, "state"));
    session_line(s, "host", PAINT_NONE, field_z(executor, "host"));
    session_line(s, "zone", PAINT_NONE, field_z(executor, "zone"));
    session_line(s, "version", PAINT_NONE, field_z(executor, "version"));
    session_line(s, "kinds", PAINT_NONE, texts_join(&s->arena, json_object_get(executor, "kinds")));
    json_object_foreach (labels, name, value)
        printf(
            "%-10s %s=%s\n", "label", term_safe_z(&s->arena, name), term_safe_z(&s->arena, json_string_value(value)));
    printf("%-10s %lld, %lld of them in use\n", "slots", (long long)field_i64(executor, "slots", 0),
        (long long)field_i64(executor, "running", 0));
    printf("%-10s %lld, %lld of them failed\n", "processed", (long long)field_i64(executor, "processed", 0),
        (long long)field_i64(executor, "failed", 0));
    time_line(executor, "registered", "registered", clock_wall_ms());
}

int nodes_command(struct session *s)
{
    json_t *answer = session_try_pages(s, "/v1/nodes", "nodes", 0), *nodes = json_object_get(answer, "nodes");
    if (!answer)
        return session_fail(s);
    coordination_say(s, json_object_get(answer, "coordination"));
    node_warnings_say(s, nodes);
    if (s->json) {
        session_print(s, nodes);
    } else {
        struct table table;
        node_table(&table, &s->arena, nodes, NULL);
        table_print(&table, &s->term, stdout, 0);
    }
    json_decref(answer);
    return 0;
}
