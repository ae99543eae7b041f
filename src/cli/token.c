/* token: make, list and revoke the bearer tokens of the HTTP interface. */
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"

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
    session_put(s, body, "tenant", "tenant");
    session_put(s, body, "expires", "expires");
    return body;
}

static void created_print(struct session *s, const json_t *answer)
{
    printf("%s\n", term_safe_z(&s->arena, field_z(answer, "token")));
}

int token_create_command(struct session *s)
{
    int64_t expires;
    if (!option_duration(&s->options, "expires", &expires))
        return EXIT_USAGE;
    if (!session_utf8(s, "name") || !session_utf8(s, "tenant") || !session_utf8(s, "scope"))
        return s->status;
    return session_answer(s, session_post(s, "/v1/tokens", create_body(s)), created_print);
}

void tokens_print(struct session *s, const json_t *tokens)
{
    struct table table;
    const json_t *token;
    int64_t now = clock_wall_ms(), created, expires;
    size_t i;
    table_init(&table, &s->arena, "NAME|SCOPES|TENANT|>CREATED|EXPIRES");
    json_array_foreach (tokens, i, token) {
        table_add(&table, PAINT_BOLD, "%s", field_z(token, "name"));
        table_add(&table, PAINT_NONE, "%s", texts_join(&s->arena, json_object_get(token, "scopes")));
        table_add(&table, PAINT_NONE, "%s", field_z(token, "tenant"));
        table_add(&table, PAINT_DIM, "%s", field_time(token, "created", &created) ? ago_text(created, now).z : "");
        table_add(
            &table, PAINT_NONE, "%s", field_time(token, "expires", &expires) ? ago_text(expires, now).z : "never");
    }
    table_print(&table, &s->term, stdout, 0);
    if (i == 0)
        session_note(s, "there are no tokens: the socket and loopback are open to the server's own user");
}

static void revoked_print(struct session *s, const json_t *answer)
{
    (void)answer;
    session_note(s, "%s is revoked", s->options.operands[0]);
}

int token_revoke_command(struct session *s)
{
    const char *path = session_path(s, "/v1/tokens/*", s->options.operands[0]);
    return session_answer(
        s, session_call(s, &(struct session_request){ .method = "DELETE", .path = path }), revoked_print);
}
