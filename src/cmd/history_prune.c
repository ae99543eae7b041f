/* history prune: the results of old tasks go: logs, outputs, artifacts. What the tasks were and how they ended stays. */
#include <string.h>

#include "cmd/history.h"
#include "cmd/session.h"
#include "cmd/task_text.h"

static const struct option_spec prune_options[] = {
    { "dry-run", 0, NULL, "only count what would go", 0, NULL },
    { "apply", 0, NULL, "do it", 0, NULL },
    { "older-than", 0, "D", "of tasks that ended longer ago than this, such as 90d (default: retention.history of the configuration)",
        OPTION_NON_EMPTY, NULL },
    { "archive", 0, "A", "only of this archive", OPTION_NON_EMPTY, NULL },
    { "queue", 0, "Q", "only of this queue", OPTION_NON_EMPTY, NULL },
    { 0 },
};
static const char *const prune_examples[] = {
    "what would go",
    "weir history prune --dry-run --older-than 90d",
    NULL,
};
const struct command_spec history_prune_spec = {
    .name = "history prune",
    .operands = "",
    .summary = "let logs, outputs and artifacts of old tasks go; the tasks themselves stay",
    .description =
        "Nothing goes by itself unless the configuration says so (retention: {history: 90d}). States, times, attempts, revisions, "
        "definitions and events are kept for ever, so PREV and the history still find every task. Results that a task which hasn't "
        "ended may still ask for stay.",
    .options = prune_options,
    .flags = COMMAND_CLIENT,
    .examples = prune_examples,
};

static json_t *prune_body(struct session *s)
{
    static const struct {
        const char *option, *field;
    } texts[] = { { "older-than", "older_than" }, { "archive", "archive" }, { "queue", "queue" } };
    json_t *body = json_object();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (option_given(&s->options, texts[i].option))
            json_object_set_new(body, texts[i].field, json_string(option_get(&s->options, texts[i].option)));
    json_object_set_new(body, "dry_run", json_boolean(option_given(&s->options, "dry-run")));
    return body;
}

static int prune_post(struct session *s)
{
    int64_t older;
    if (option_given(&s->options, "dry-run") == option_given(&s->options, "apply"))
        return usage_error(&history_prune_spec, "say --dry-run or --apply");
    if (!option_duration(&s->options, "older-than", &older))
        return EXIT_USAGE;
    if (!session_utf8(s, "archive") || !session_utf8(s, "queue"))
        return s->status;
    json_t *answer = session_post(s, "/v1/prune", prune_body(s));
    int64_t before = 0;
    if (!answer)
        return s->status;
    field_time(answer, "before", &before);
    if (s->json)
        session_print(s, answer);
    else
        printf("%s of %lld tasks that ended before %s: %s of logs\n",
            option_given(&s->options, "apply") ? "removed the results" : "results", (long long)field_i64(answer, "tasks", 0),
            local_text(before).z, bytes_text(field_i64(answer, "log_bytes", 0)).z);
    json_decref(answer);
    return 0;
}

int history_prune(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &history_prune_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    return session_close(&s, prune_post(&s));
}
