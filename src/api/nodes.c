/* nodes: the servers and executors that are there, in pages: servers by name, then executors by number.
 *
 * Servers have no numbers: a page that ends among them leads on from a name (`server.NAME`), so that it doesn't matter
 * which server is asked for the next one, nor who came or went meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "api/answer.h"
#include "api/call.h"
#include "coord/coord.h"

#define CURSOR_SERVER "server."

struct nodes_page {
    struct list_page executors; /* what is asked for of them */
    size_t limit;
    bool servers_over;      /* it begins among the executors */
    struct str behind;      /* else behind this server; empty: with the first */
    struct server_row *all; /* as they were read, and this one if it has no row */
    size_t n_all, n_stored;
    const struct server_row **servers; /* of this page */
    size_t n_servers;
    struct executor **rows;
    size_t n_rows;
    bool more;
};

struct node { /* one that is shown */
    struct str name, version, host;
    const char *state, *reason; /* reason NULL: none */
    double load;
    const struct executor *executor; /* NULL: it is a server */
    int64_t running;
    const char *server; /* that hears the executor; NULL: not known */
    bool self;          /* the server that answers */
    int64_t differs;    /* the site's keys that the server's file says otherwise */
};

/* node_warnings: of a server. */
static void node_warnings(struct call *call, struct json *json, const struct node *node)
{
    json_array_begin(json);
    if (node->self)
        trouble_render(call, json);
    for (unsigned weak = node->self ? engine_weak(call->api->config.engine) : 0, one = 1; one <= weak; one <<= 1)
        if (weak & one)
            json_z(json, store_weakness(one));
    config_differs_render(call, json, node->name, node->differs);
    json_array_end(json);
}

RENDERER(node_render, Node, struct call *call, struct json *json, const struct node *node)

/* load_now: of this machine; of servers that share a store as its row says it, so that all of them say the same. */
static double load_now(const struct server_row *row)
{
    double load[1] = { 0 };
    if (row->load >= 0)
        return (double)row->load / SERVER_LOAD_UNIT;
    return getloadavg(load, 1) == 1 ? load[0] : 0;
}

static void node_self(struct call *call, struct json *json, double load)
{
    const struct api_config *config = &call->api->config;
    bool healthy = engine_health(config->engine) == ENGINE_OK;
    char trouble[ENGINE_TEXT_MAX];
    struct node node = { .name = str_of(config->server_name),
        .version = str_of(config->version),
        .host = str_of(config->host),
        .state = call->api->closing ? "draining"
                 : healthy          ? "active"
                                    : "failing",
        .reason = engine_trouble(config->engine, true, trouble) ? trouble : NULL,
        .load = load,
        .self = true,
        .differs = engine_site_differs(config->engine) };
    node_render(call, json, &node);
}

static void node_other(struct call *call, struct json *json, const struct server_row *row)
{
    bool lives = server_lives(call->api, row);
    struct node node = { .name = row->name,
        .version = row->version,
        .host = row->host,
        .state = lives ? "active" : "lost",
        .load = (double)row->load / SERVER_LOAD_UNIT,
        .differs = lives ? row->differs : 0 };
    node_render(call, json, &node);
}

static void node_executor(
    struct call *call, struct json *json, const struct executor *executor, const struct smap *servers_of)
{
    struct executor_live heard;
    const struct executor_live *live = engine_executor(call->api->config.engine, executor->id, &heard) ? &heard : NULL;
    int64_t running = live != NULL ? live->running : 0;
    struct node node = { .name = executor->name,
        .version = executor->version,
        .host = executor->host,
        .state = executor_state_now(call->api, executor, live),
        .load = executor->slots > 0 ? (double)running / (double)executor->slots : 0,
        .executor = executor,
        .running = running,
        .server = servers_of->n > 0 ? smap_find(servers_of, executor_member(&call->arena, executor)) : NULL };
    node_render(call, json, &node);
}

static void coordination_render(struct call *call, struct json *json)
{
    struct coord_status status;
    coord_status(engine_coord(call->api->config.engine), &status);
    ANSWER_WRITE(ANSWER_Coordination);
}

static int by_name(const void *a, const void *b)
{
    const struct server_row *const *x = a, *const *y = b;
    return str_cmp((*x)->name, (*y)->name);
}

/* The servers behind read->behind, as many as there is room for. True: there are more. */
static bool servers_pick(struct call *call, struct nodes_page *read)
{
    size_t n = 0;
    read->servers = ARENA_ARRAY(&call->arena, const struct server_row *, read->n_all);
    for (size_t i = 0; i < read->n_all; i++)
        if (read->behind.len == 0 || str_cmp(read->all[i].name, read->behind) > 0)
            read->servers[n++] = &read->all[i];
    if (n > 1)
        qsort(read->servers, n, sizeof(struct server_row *), by_name);
    read->n_servers = n < read->limit ? n : read->limit;
    return n > read->limit;
}

static bool servers_read(struct call *call, struct nodes_page *read)
{
    struct str own = str_of(call->api->config.server_name);
    struct server_row *rows;
    size_t n;
    bool known = false;
    if (!reader_servers(call->api->config.reader, &call->arena, &rows, &n, &call->err))
        return false;
    read->all = ARENA_ARRAY(&call->arena, struct server_row, n + 1);
    for (size_t i = 0; i < n; i++) {
        read->all[read->n_all++] = rows[i];
        known |= str_eq(rows[i].name, own);
    }
    read->n_stored = n;
    if (!known) /* it has its store to itself, or has only begun */
        read->all[read->n_all++] = (struct server_row){ .name = own, .load = -1 };
    return true;
}

static bool nodes_read(struct call *call)
{
    struct nodes_page *read = call->state;
    if (!servers_read(call, read))
        return false;
    if (!read->servers_over && str_eqz(call->actor.tenant, TENANT_DEFAULT)) /* servers are the site's */
        read->more = servers_pick(call, read);
    if (read->more)
        return true;
    size_t room = read->limit - read->n_servers;
    read->executors.limit = room + 1;
    if (!reader_executors_page(
            call->api->config.reader, &call->arena, &read->executors, &read->rows, &read->n_rows, &call->err))
        return false;
    read->more = read->n_rows > room;
    read->n_rows -= read->more;
    return true;
}

static struct str nodes_next(struct call *call, const struct nodes_page *read)
{
    if (!read->more)
        return (struct str){ 0 };
    if (read->n_rows > 0)
        return call_cursor(call, read->rows[read->n_rows - 1]->id);
    return str_fmt(&call->arena, CURSOR_SERVER "%.*s", STR_ARG(read->servers[read->n_servers - 1]->name));
}

static void nodes_render(struct call *call, struct json *json, const struct nodes_page *read)
{
    struct smap servers_of = { 0 };
    executor_register_read(call, &servers_of);
    json_array_begin(json);
    for (size_t i = 0; i < read->n_servers; i++)
        if (str_eqz(read->servers[i]->name, call->api->config.server_name))
            node_self(call, json, load_now(read->servers[i]));
        else
            node_other(call, json, read->servers[i]);
    for (size_t i = 0; i < read->n_rows; i++)
        node_executor(call, json, read->rows[i], &servers_of);
    smap_release(&servers_of);
    json_array_end(json);
}

static bool nodes_show(struct call *call)
{
    const struct nodes_page *read = call->state;
    struct str next = nodes_next(call, read);
    servers_take(call->api, read->all, read->n_stored);
    ANSWER_RETURN(200, ANSWER_NodeList);
}

static bool cursor_read(struct call *call, struct nodes_page *read)
{
    struct str cursor;
    if (!call_param_str(call, "cursor", &cursor))
        return true;
    if (str_starts(cursor, STR(CURSOR_SERVER)) && cursor.len > strlen(CURSOR_SERVER)) {
        read->behind = str_sub(cursor, strlen(CURSOR_SERVER), cursor.len);
        return true;
    }
    read->servers_over = true;
    return call_param_i64(call, "cursor", 0, INT64_MAX, &read->executors.from);
}

bool serve_nodes_list(struct call *call)
{
    struct nodes_page *read = ARENA_NEW(&call->arena, struct nodes_page);
    int64_t limit = PAGE_MAX;
    *read = (struct nodes_page){ .executors = executors_page_of(call) };
    if (!call_param_limit(call, PAGE_MAX, &limit) || !cursor_read(call, read))
        return call_problem(call);
    read->limit = (size_t)limit;
    call->state = read;
    return call_read(call, nodes_read, nodes_show);
}
