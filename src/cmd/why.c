/* why: every reason why a task doesn't run, since when, and what would lift it. */
#include <string.h>

#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"
#include "io/clock.h"

const struct command_spec why_spec = {
    .name = "why",
    .operands = "KEY",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "every reason why a task doesn't run",
    .description = "Names each unmet condition: who or what holds the task, since when, and what would lift it; and says so when it can "
                   "never run as things are.",
    .flags = COMMAND_CLIENT,
};

static const struct {
    const char *verdict, *sentence;
} verdicts[] = {
    { "running", "runs now" },
    { "ended", "has ended" },
    { "waiting", "waits" },
    { "never", "can never run as things are" },
};

static void condition_print(struct session *s, const json_t *condition, int64_t now)
{
    int64_t since, until;
    const char *holder = field_z(condition, "holder"), *remedy = field_z(condition, "remedy");
    printf("  %s%s%s: %s", paint_on(&s->term, PAINT_YELLOW), term_safe_z(&s->arena, field_z(condition, "kind")),
        paint_off(&s->term, PAINT_YELLOW), term_safe_z(&s->arena, field_z(condition, "detail")));
    fputc('\n', stdout);
    if (*holder)
        printf("    held by  %s\n", term_safe_z(&s->arena, holder));
    if (field_time(condition, "since", &since))
        printf("    since    %s  (%s)\n", local_text(since).z, ago_text(since, now).z);
    if (field_time(condition, "until", &until))
        printf("    until    %s  (%s)\n", local_text(until).z, ago_text(until, now).z);
    if (*remedy)
        printf("    remedy   %s\n", term_safe_z(&s->arena, remedy));
}

static void why_print(struct session *s, const json_t *why)
{
    const char *verdict = field_z(why, "verdict"), *sentence = verdict;
    const json_t *conditions = json_object_get(why, "conditions"), *condition;
    char letter = task_letter(why);
    size_t i;
    for (size_t v = 0; v < sizeof verdicts / sizeof *verdicts; v++)
        if (strcmp(verdicts[v].verdict, verdict) == 0)
            sentence = verdicts[v].sentence;
    enum paint paint = paint_of_state(letter);
    printf("%s  %s%c %s%s  %s\n", term_safe_z(&s->arena, task_key(&s->arena, why)), paint_on(&s->term, paint), letter, letter_word(letter),
        paint_off(&s->term, paint), term_safe_z(&s->arena, sentence));
    if (*field_z(why, "reason"))
        printf("  reason: %s\n", term_safe_z(&s->arena, task_reason(&s->arena, why)));
    json_array_foreach (conditions, i, condition)
        condition_print(s, condition, clock_wall_ms());
}

int why_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &why_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    json_t *why = session_get(&s, session_task_path(&s, s.options.operands[0], "/why"));
    if (!why)
        return session_close(&s, s.status);
    if (s.json)
        session_print(&s, why);
    else
        why_print(&s, why);
    json_decref(why);
    return session_close(&s, 0);
}
