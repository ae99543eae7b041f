/* verb: rows of the command table that only post, and those that only print what they get. */
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

static void task_line(struct session *s, const json_t *task)
{
    char letter = task_letter(task);
    const char *reason = field_z(task, "reason");
    enum paint paint = paint_of_state(letter);
    printf("%s  %s%c %s%s", term_safe_z(&s->arena, task_key(&s->arena, task)), paint_on(&s->term, paint), letter,
        letter_word(letter), paint_off(&s->term, paint));
    if (*field_z(task, "ending"))
        printf(" (ending as %s)", term_safe_z(&s->arena, field_z(task, "ending")));
    if (*reason)
        printf("  %s", term_safe_z(&s->arena, reason));
    fputc('\n', stdout);
}

/* body_of: the command's own options, as they were given, under the names that the API has for them. NULL: reported. */
static json_t *body_of(struct session *s)
{
    json_t *body = json_object();
    for (const struct option_spec *o = s->options.spec->options; o && o->name; o++) {
        const char *value = option_get(&s->options, o->name);
        if (value && json_object_set_new(body, o->name, o->argument ? json_string(value) : json_true()) != 0) {
            session_err(s, ERR_invalid, "the %s isn't UTF-8", o->name);
            json_decref(body);
            return NULL;
        }
    }
    return body;
}

/* verb_run: goes on after a refusal; the exit code is that of the first one. */
int verb_run(struct session *s)
{
    const struct command_spec *spec = s->options.spec;
    int status = 0;
    if (option_given(&s->options, "force") && !option_given(&s->options, "reason"))
        return usage_error(spec, "--force needs a reason: --reason T");
    json_t *answers = json_array(), *body = body_of(s);
    if (!body)
        status = s->status;
    for (size_t i = 0; body && i < s->options.n_operands; i++) {
        const char *operand = s->options.operands[i];
        json_t *answer = session_post(s, session_path(s, spec->post, operand), json_deep_copy(body));
        if (!answer) {
            status = status ? status : s->status;
            continue;
        }
        if (!s->json && spec->says)
            printf("%s is %s\n", term_safe_z(&s->arena, operand), spec->says);
        else if (!s->json)
            task_line(s, answer);
        json_array_append_new(answers, answer);
    }
    if (s->json && json_array_size(answers) > 0)
        session_print(s, s->options.n_operands == 1 ? json_array_get(answers, 0) : answers);
    json_decref(body);
    json_decref(answers);
    return status;
}

int view_run(struct session *s)
{
    const struct command_spec *spec = s->options.spec;
    const char *path = session_path(s, spec->get, s->options.n_operands ? s->options.operands[0] : "");
    bool more;
    return session_answer(
        s, spec->list ? session_pages(s, path, spec->list, 0, &more) : session_get(s, path), spec->print);
}
