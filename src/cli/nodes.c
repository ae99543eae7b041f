/* nodes: the servers and executors that are there. */
#include <string.h>

#include "cli/command.h"
#include "cli/node_table.h"
#include "cli/session.h"
#include "cli/task_text.h"

/* coordination_say: nothing has to be done about it at once, but nobody else would tell. */
static void coordination_say(struct session *s, const json_t *coordination)
{
    if (strcmp(field_z(coordination, "state"), "away") != 0)
        return;
    const char *why = field_z(coordination, "detail");
    session_note(s, "coordination: %s is away (%s) since %s: work goes on, duties go by the store alone",
        field_z(coordination, "kind"), term_safe_z(&s->arena, why), field_z(coordination, "since"));
}

static void warnings_say(struct session *s, const json_t *nodes)
{
    const json_t *node, *warning;
    size_t i, k;
    json_array_foreach (nodes, i, node)
        json_array_foreach (json_object_get(node, "warnings"), k, warning)
            session_note(s, "warning: %s: %s", term_safe_z(&s->arena, field_z(node, "name")),
                term_safe_z(&s->arena, json_string_value(warning)));
}

int nodes_command(struct session *s)
{
    json_t *answer = session_try_pages(s, "/v1/nodes", "nodes", 0), *nodes = json_object_get(answer, "nodes");
    if (!answer)
        return session_fail(s);
    coordination_say(s, json_object_get(answer, "coordination"));
    warnings_say(s, nodes);
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
