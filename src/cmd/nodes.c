/* nodes: the servers and executors that are there. */
#include <string.h>

#include "cmd/command.h"
#include "cmd/node_table.h"
#include "cmd/session.h"
#include "cmd/task_text.h"

const struct command_spec nodes_spec = {
    .name = "nodes",
    .operands = "",
    .summary = "the servers and executors",
    .description =
        "Every server that shares the store and every executor, with its version, host, load and state. A server's load is that of its "
        "machine; an executor's is what it runs of what it could. Says so when the coordination service is away, which "
        "servers have a file with other site keys than those in force, and what the server that answers warns of.",
    .flags = COMMAND_CLIENT,
};

/* coordination_say: nothing has to be done about it at once, but nobody else would tell. */
static void coordination_say(struct session *s, const json_t *coordination)
{
    if (strcmp(field_z(coordination, "state"), "away") != 0)
        return;
    const char *why = field_z(coordination, "detail");
    session_note(s, "coordination: %s is away (%s) since %s: work goes on, duties go by the store alone", field_z(coordination, "kind"),
        term_safe_z(&s->arena, why), field_z(coordination, "since"));
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

int nodes_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &nodes_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    json_t *answer = session_get(&s, "/v1/nodes"), *nodes = json_object_get(answer, "nodes");
    if (!answer)
        return session_close(&s, s.status);
    coordination_say(&s, json_object_get(answer, "coordination"));
    warnings_say(&s, nodes);
    if (s.json) {
        session_print(&s, nodes);
    } else {
        struct table table;
        node_table(&table, &s.arena, nodes, NULL);
        table_print(&table, &s.term, stdout, 0);
    }
    json_decref(answer);
    return session_close(&s, 0);
}
