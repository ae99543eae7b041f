/* history prune: the results of old tasks go: logs, outputs, artifacts. What the tasks were and how they ended stays.
 */
#include <string.h>

#include "cli/command.h"
#include "cli/session.h"
#include "cli/task_text.h"

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

int history_prune_command(struct session *s)
{
    int64_t older;
    if (option_given(&s->options, "dry-run") == option_given(&s->options, "apply"))
        return usage_error(s->options.spec, "say --dry-run or --apply");
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
            option_given(&s->options, "apply") ? "removed the results" : "results",
            (long long)field_i64(answer, "tasks", 0), local_text(before).z,
            bytes_text(field_i64(answer, "log_bytes", 0)).z);
    json_decref(answer);
    return 0;
}
