/* nodes: the servers and executors that are there. */
#include "cmd/command.h"
#include "cmd/node_table.h"
#include "cmd/session.h"

const struct command_spec nodes_spec = {
    .name = "nodes",
    .operands = "",
    .summary = "the servers and executors",
    .flags = COMMAND_CLIENT,
};

int nodes_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &nodes_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    bool more;
    json_t *nodes = session_pages(&s, "/v1/nodes", "nodes", 0, &more);
    if (!nodes)
        return session_close(&s, s.status);
    if (s.json) {
        session_print(&s, nodes);
    } else {
        struct table table;
        node_table(&table, &s.arena, nodes, NULL);
        table_print(&table, &s.term, stdout, 0);
    }
    json_decref(nodes);
    return session_close(&s, 0);
}
