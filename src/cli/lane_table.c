/* lane_table: see lane_table.h. */
#include "cli/lane_table.h"

#include <string.h>

#include "cli/task_text.h"

int64_t lane_count(const json_t *lane, char letter)
{
    const char name[2] = { letter, '\0' };
    return field_i64(json_object_get(lane, "counts"), name, 0);
}

int64_t lane_unfinished(const json_t *lane)
{
    int64_t n = 0;
    for (const char *c = state_letters; *c; c++)
        if (!letter_ended(*c))
            n += lane_count(lane, *c);
    return n;
}

const char *lane_paused(struct arena *arena, const json_t *lane)
{
    const char *by = field_z(lane, "paused_by"), *reason = field_z(lane, "reason");
    if (!json_is_true(json_object_get(lane, "paused")))
        return NULL;
    return str_dupz(arena, str_fmt(arena, "%s%s%s%s", *by ? "by " : "", by, *reason ? ": " : "", reason));
}

void lane_table(struct table *table, struct arena *arena, const json_t *lanes)
{
    const json_t *lane;
    size_t i;
    table_init(table, arena, "NAME|KIND|>Q|>S|>P|>X|>D|>F|>T|>A|PAUSED");
    json_array_foreach (lanes, i, lane) {
        const char *paused = lane_paused(arena, lane);
        bool all = strcmp(field_z(lane, "kind"), "all") == 0;
        if (all && !paused)
            continue; /* not a lane: the pause of everything */
        table_add(table, PAINT_BOLD, "%s", field_z(lane, "name"));
        table_add(table, PAINT_NONE, "%s%s", field_z(lane, "kind"),
            json_is_true(json_object_get(lane, "removed")) ? ", removed" : "");
        for (const char *c = state_letters; *c; c++) {
            int64_t n = lane_count(lane, *c);
            char number[24] = "";
            if (!all)
                snprintf(number, sizeof number, "%lld", (long long)n);
            table_add(table, n ? paint_of_state(*c) : PAINT_DIM, "%s", number);
        }
        table_add(table, PAINT_YELLOW, "%s", paused ? paused : "");
    }
}

const json_t *lane_find(const json_t *lanes, const char *name)
{
    const json_t *lane;
    size_t i;
    json_array_foreach (lanes, i, lane)
        if (strcmp(field_z(lane, "name"), name) == 0 && strcmp(field_z(lane, "kind"), "all") != 0)
            return lane;
    return NULL;
}
