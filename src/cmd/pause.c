/* pause and resume: whether anything new starts in a queue, in an archive, or anywhere. */
#include "cmd/command.h"
#include "cmd/session.h"

static const struct option_spec pause_options[] = {
    { "reason", 0, "T", "why; `weir why` shows it for every task that waits", OPTION_REQUIRED | OPTION_NON_EMPTY, NULL },
    { 0 },
};
const struct command_spec pause_spec = {
    .name = "pause",
    .operands = "QUEUE|ARCHIVE|all",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "let nothing new start there",
    .description = "What runs goes on. A queue may be paused before its first task. "
                   "Pauses of `all` and of a single queue or archive are independent of each other.",
    .options = pause_options,
    .flags = COMMAND_CLIENT,
};
const struct command_spec resume_spec = {
    .name = "resume",
    .operands = "QUEUE|ARCHIVE|all",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "let things start there again",
    .flags = COMMAND_CLIENT,
};

static int lane_set(struct session *s, const char *verb, const char *word, json_t *body)
{
    const char *lane = s->options.operands[0];
    struct str encoded = client_encode(&s->arena, str_of(lane));
    struct str path = str_fmt(&s->arena, "/v1/lanes/%.*s/%s", STR_ARG(encoded), verb);
    json_t *answer = session_post(s, str_dupz(&s->arena, path), body);
    if (!answer)
        return s->status;
    if (s->json)
        session_print(s, answer);
    else
        printf("%s is %s\n", term_safe_z(&s->arena, lane), word);
    json_decref(answer);
    return 0;
}

int pause_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &pause_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    json_t *body = json_pack("{s:s}", "reason", option_get(&s.options, "reason"));
    if (!body)
        return session_close(&s, session_err(&s, ERR_invalid, "the reason isn't UTF-8"));
    return session_close(&s, lane_set(&s, "pause", "paused", body));
}

int resume_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &resume_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    return session_close(&s, lane_set(&s, "resume", "open", NULL));
}
