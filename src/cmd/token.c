/* token: make, list and revoke the bearer tokens of the HTTP interface. */
#include <string.h>

#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"
#include "io/clock.h"

static const struct option_spec create_options[] = {
    { "name", 0, "N", "the token's name, unique", OPTION_REQUIRED | OPTION_NON_EMPTY, NULL },
    { "scope", 0, "S", "read, enqueue, execute or admin", OPTION_REQUIRED | OPTION_REPEATABLE | OPTION_NON_EMPTY, NULL },
    { "tenant", 0, "T", "the tenant (default: the caller's own); it is there with its first token, unless weir.yaml lists the tenants",
        OPTION_NON_EMPTY, NULL },
    { "expires", 0, "D", "how long it is good for, such as 90d (default: for ever)", 0, NULL },
    { 0 },
};
static const char *const create_examples[] = {
    "a token for a build server, kept in a file",
    "weir token create --name ci --scope read --scope enqueue > ~/.weir-token",
    NULL,
};
static const struct command_spec create_spec = {
    .name = "token create",
    .operands = "[SCOPE...]",
    .operands_max = 16,
    .summary = "make a token and print it, this once",
    .description = "The token alone goes to stdout. The server keeps only its hash: it can't be shown again. Once a token exists, loopback "
                   "needs one too; the local socket goes on without.",
    .options = create_options,
    .flags = COMMAND_CLIENT,
    .examples = create_examples,
};
static const struct command_spec token_list_spec = {
    .name = "token list",
    .operands = "",
    .summary = "the tokens: names, scopes, expiry; never the token itself",
    .flags = COMMAND_CLIENT,
};
static const struct command_spec revoke_spec = {
    .name = "token revoke",
    .operands = "NAME",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "make a token worthless",
    .flags = COMMAND_CLIENT,
};
static const struct command_spec *const token_parts[] = { &create_spec, &token_list_spec, &revoke_spec, NULL };
const struct command_spec token_spec = {
    .name = "token",
    .operands = "create|list|revoke ...",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "make, list, revoke tokens",
    .parts = token_parts,
};

static void scopes_add(json_t *scopes, const char *text)
{
    struct str rest = str_of(text), one;
    while (str_cut(&rest, ',', &one))
        if (str_trim(one).len)
            json_array_append_new(scopes, json_stringn(str_trim(one).ptr, str_trim(one).len));
}

static json_t *create_body(struct session *s)
{
    json_t *body = json_object(), *scopes = json_array();
    for (size_t i = 0; i < option_count(&s->options, "scope"); i++)
        scopes_add(scopes, option_nth(&s->options, "scope", i));
    for (size_t i = 0; i < s->options.n_operands; i++)
        scopes_add(scopes, s->options.operands[i]);
    json_object_set_new(body, "name", json_string(option_get(&s->options, "name")));
    json_object_set_new(body, "scopes", scopes);
    if (option_given(&s->options, "tenant"))
        json_object_set_new(body, "tenant", json_string(option_get(&s->options, "tenant")));
    if (option_given(&s->options, "expires"))
        json_object_set_new(body, "expires", json_string(option_get(&s->options, "expires")));
    return body;
}

static int token_create(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &create_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    int64_t expires;
    if (!option_duration(&s.options, "expires", &expires))
        return session_close(&s, EXIT_USAGE);
    if (!session_utf8(&s, "name") || !session_utf8(&s, "tenant") || !session_utf8(&s, "scope"))
        return session_close(&s, s.status);
    json_t *answer = session_post(&s, "/v1/tokens", create_body(&s));
    if (!answer)
        return session_close(&s, s.status);
    if (s.json)
        session_print(&s, answer);
    else
        printf("%s\n", term_safe_z(&s.arena, field_z(answer, "token")));
    json_decref(answer);
    return session_close(&s, 0);
}

static void scopes_text(const json_t *scopes, char *out, size_t size)
{
    const json_t *scope;
    size_t i, at = 0;
    out[0] = '\0';
    json_array_foreach (scopes, i, scope) {
        int n = snprintf(out + at, size - at, "%s%s", i ? " " : "", json_is_string(scope) ? json_string_value(scope) : "?");
        if (n < 0 || (size_t)n >= size - at)
            return;
        at += (size_t)n;
    }
}

static int token_list(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &token_list_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    bool more;
    json_t *tokens = session_pages(&s, "/v1/tokens", "tokens", 0, &more);
    if (!tokens)
        return session_close(&s, s.status);
    if (s.json) {
        session_print(&s, tokens);
    } else {
        struct table table;
        const json_t *token;
        int64_t now = clock_wall_ms(), created, expires;
        size_t i;
        table_init(&table, &s.arena, "NAME|SCOPES|TENANT|>CREATED|EXPIRES");
        json_array_foreach (tokens, i, token) {
            char scopes[128];
            scopes_text(json_object_get(token, "scopes"), scopes, sizeof scopes);
            table_add(&table, PAINT_BOLD, "%s", field_z(token, "name"));
            table_add(&table, PAINT_NONE, "%s", scopes);
            table_add(&table, PAINT_NONE, "%s", field_z(token, "tenant"));
            table_add(&table, PAINT_DIM, "%s", field_time(token, "created", &created) ? ago_text(created, now).z : "");
            table_add(&table, PAINT_NONE, "%s", field_time(token, "expires", &expires) ? ago_text(expires, now).z : "never");
        }
        table_print(&table, &s.term, stdout, 0);
        if (i == 0)
            session_note(&s, "there are no tokens: the socket and loopback are open to the server's own user");
    }
    json_decref(tokens);
    return session_close(&s, 0);
}

static int token_revoke(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &revoke_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    struct str name = client_encode(&s.arena, str_of(s.options.operands[0]));
    struct str path = str_fmt(&s.arena, "/v1/tokens/%.*s", STR_ARG(name));
    json_t *answer = session_call(&s, &(struct session_request){ .method = "DELETE", .path = str_dupz(&s.arena, path) });
    if (!answer)
        return session_close(&s, s.status);
    if (s.json)
        session_print(&s, answer);
    else
        session_note(&s, "%s is revoked", s.options.operands[0]);
    json_decref(answer);
    return session_close(&s, 0);
}

int token_main(int argc, char **argv)
{
    static const struct command_part parts[] = {
        { "create", token_create },
        { "list", token_list },
        { "revoke", token_revoke },
    };
    return command_parts(&token_spec, parts, sizeof parts / sizeof *parts, argc, argv);
}
