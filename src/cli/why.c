/* why: every reason why a task doesn't run, since when, and what would lift it. */
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"
#include "io/clock.h"

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

/* end_print: what can be done about a task that isn't done. Where another task is the cause, that task is retried. */
static void end_print(struct session *s, const json_t *why)
{
    const char *key = task_key(&s->arena, why), *cause = field_z(why, "cause"), *reason = field_z(why, "reason");
    if (strstr(key, ":WORKFLOW"))
        printf("  remedy: weir log %s shows every fault; commit a correction\n", term_safe_z(&s->arena, key));
    else if (task_letter(why) == 'F' && *cause)
        printf("  remedy: weir why %s; weir retry %s runs that one again, and this one behind it\n",
            term_safe_z(&s->arena, cause), term_safe_z(&s->arena, cause));
    else if (strstr(reason, "over its memory limit"))
        printf("  remedy: raise limits.memory of the task, or let it need less; weir retry %s alone runs into the same "
               "limit\n",
            term_safe_z(&s->arena, key));
    else if (strstr(reason, "permanent: can't be checked out"))
        printf("  remedy: commit a revision that can be checked out; weir retry %s alone fails again\n",
            term_safe_z(&s->arena, key));
    else
        printf("  remedy: weir retry %s runs it again\n", term_safe_z(&s->arena, key));
}

/* run_print: where it runs and since when, from the task itself; silent when that can't be had. */
static void run_print(struct session *s, const json_t *why)
{
    const char *path = session_task_path(s, task_key(&s->arena, why), "");
    json_t *task = session_look(s, path);
    const json_t *attempts = json_object_get(task, "attempts");
    size_t n = json_array_size(attempts);
    int64_t since;
    if (n > 0 && field_time(json_array_get(attempts, n - 1), "started", &since))
        printf("  attempt %lld on %s\n    since    %s  (%s)\n",
            (long long)field_i64(json_array_get(attempts, n - 1), "number", 0),
            term_safe_z(&s->arena, field_z(json_array_get(attempts, n - 1), "executor")), local_text(since).z,
            ago_text(since, clock_wall_ms()).z);
    if (*field_z(task, "ending"))
        printf("  it is told to end, and will be %s\n", letter_word(*field_z(task, "ending")));
    json_decref(task);
    s->status = 0;
}

void why_print(struct session *s, const json_t *why)
{
    const char *verdict = field_z(why, "verdict"), *sentence = verdict;
    const json_t *conditions = json_object_get(why, "conditions"), *condition;
    char letter = task_letter(why);
    size_t i;
    for (size_t v = 0; v < sizeof verdicts / sizeof *verdicts; v++)
        if (strcmp(verdicts[v].verdict, verdict) == 0)
            sentence = verdicts[v].sentence;
    enum paint paint = paint_of_state(letter);
    printf("%s  %s%c %s%s  %s\n", term_safe_z(&s->arena, task_key(&s->arena, why)), paint_on(&s->term, paint), letter,
        letter_word(letter), paint_off(&s->term, paint), term_safe_z(&s->arena, sentence));
    if (*field_z(why, "reason"))
        printf("  reason: %s\n", term_safe_z(&s->arena, task_reason(&s->arena, why)));
    json_array_foreach (conditions, i, condition)
        condition_print(s, condition, clock_wall_ms());
    if (strcmp(verdict, "ended") == 0 && letter != 'D')
        end_print(s, why);
    if (strcmp(verdict, "running") == 0)
        run_print(s, why);
}
