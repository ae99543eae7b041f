/* act: see act.h. */
#include "cmd/act.h"

#include "cmd/task_text.h"

static void act_print(struct session *s, const json_t *task)
{
    char letter = task_letter(task);
    const char *reason = field_z(task, "reason");
    enum paint paint = paint_of_state(letter);
    printf("%s  %s%c %s%s", term_safe_z(&s->arena, task_key(&s->arena, task)), paint_on(&s->term, paint), letter, letter_word(letter),
        paint_off(&s->term, paint));
    if (*field_z(task, "ending"))
        printf(" (ending as %s)", term_safe_z(&s->arena, field_z(task, "ending")));
    if (*reason)
        printf("  %s", term_safe_z(&s->arena, reason));
    fputc('\n', stdout);
}

int act_on_tasks(struct session *s, const char *verb, const json_t *body)
{
    int status = 0;
    json_t *answers = json_array();
    for (size_t i = 0; i < s->options.n_operands; i++) {
        json_t *task = session_post(s, session_task_path(s, s->options.operands[i], verb), json_deep_copy(body));
        if (!task) {
            status = status ? status : s->status;
            continue;
        }
        if (!s->json)
            act_print(s, task);
        json_array_append_new(answers, task);
    }
    if (s->json && json_array_size(answers) > 0)
        session_print(s, s->options.n_operands == 1 ? json_array_get(answers, 0) : answers);
    json_decref(answers);
    return status;
}
