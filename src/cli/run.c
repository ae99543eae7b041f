/* run: starts a task of an archive's revision by hand. */
#include <string.h>

#include "cli/command.h"
#include "cli/revision_text.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "text/json_value.h"

/* run_body: NULL: reported, and session.status is set. */
static json_t *run_body(struct session *s)
{
    int64_t rev = 0;
    json_t *body = json_object(), *params = json_object();
    s->status = EXIT_USAGE;
    bool good = option_i64(&s->options, "rev", 1, INT64_MAX - 1, &rev);
    for (size_t i = 0; good && i < option_count(&s->options, "param"); i++) {
        const char *pair = option_nth(&s->options, "param", i), *equals = strchr(pair, '=');
        good = equals != NULL && equals != pair;
        if (!good)
            s->status = usage_error(s->options.spec, "--param '%s' isn't NAME=VALUE", pair);
        else if (!(good = str_is_utf8(str_of(pair))))
            session_err(s, ERR_invalid, "--param holds bytes that aren't UTF-8");
        if (!good)
            break;
        json_object_set_new(
            params, str_dupz(&s->arena, (struct str){ pair, (size_t)(equals - pair) }), json_string(equals + 1));
    }
    if (good && json_object_size(params) > 0)
        json_object_set(body, "params", params);
    json_decref(params);
    if (!good) {
        json_decref(body);
        return NULL;
    }
    json_object_set_new(body, "task", json_string(s->options.operands[1]));
    if (rev > 0)
        json_object_set_new(body, "rev", json_integer((json_int_t)rev));
    session_put(s, body, "reason", "reason");
    return body;
}

static void started_print(struct session *s, const json_t *task)
{
    printf("%s\n", term_safe_z(&s->arena, task_key(&s->arena, task)));
}

int run_command(struct session *s)
{
    if (!session_utf8(s, "reason"))
        return s->status;
    if (!str_is_utf8(str_of(s->options.operands[1])))
        return session_err(s, ERR_invalid, "the task's name isn't UTF-8");
    json_t *body = run_body(s);
    if (!body)
        return s->status;
    json_t *task = session_post(s, archive_path(s, s->options.operands[0], "/runs"), body);
    return session_answer(s, task, started_print);
}
