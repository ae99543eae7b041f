/* node_table: see node_table.h. */
#include "cli/node_table.h"

#include <string.h>

#include "cli/task_text.h"

/* load_text: `load` is a number, or {running, slots}; some servers say running and slots beside it. */
static void load_text(const json_t *node, char *out, size_t size)
{
    const json_t *load = json_object_get(node, "load");
    const json_t *from = json_is_object(load) ? load : node;
    int64_t running = field_i64(from, "running", -1), slots = field_i64(from, "slots", -1);
    if (running >= 0 && slots >= 0)
        snprintf(out, size, "%lld/%lld", (long long)running, (long long)slots);
    else if (slots >= 0)
        snprintf(out, size, "%lld slots", (long long)slots);
    else if (json_is_number(load))
        snprintf(out, size, "%.2f", json_number_value(load));
    else
        out[0] = '\0';
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
