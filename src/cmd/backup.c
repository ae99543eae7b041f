/* backup: a consistent copy of the store, made by the server while it works. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"

static const struct option_spec backup_options[] = {
    { "without-artifacts", 0, NULL, "leave out the files that jobs have kept; the backup and its restore say so", 0, NULL },
    { 0 },
};
const struct command_spec backup_spec = {
    .name = "backup",
    .operands = "FILE",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "a consistent copy of the store, beside running work",
    .description =
        "The server writes FILE, on its own machine; a relative name is taken from the current directory. Everything is in it: tasks, "
        "history, logs, artifacts, and the key of the history, so keep it as you keep the data directory; no token can be made from it. "
        "`weir restore` brings it back.",
    .options = backup_options,
    .flags = COMMAND_CLIENT,
};

int backup_main(int argc, char **argv)
{
    struct session s;
    int status = session_open(&s, &backup_spec, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    const char *file = s.options.operands[0];
    if (file[0] != '/') {
        char *here = getcwd(NULL, 0);
        if (!here)
            return session_close(&s, session_err(&s, ERR_io, "the current directory has no name: %s", strerror(errno)));
        file = str_dupz(&s.arena, str_fmt(&s.arena, "%s/%s", here, file));
        free(here);
    }
    json_t *body = json_pack("{s:s}", "file", file);
    if (body && option_get(&s.options, "without-artifacts"))
        json_object_set_new(body, "without_artifacts", json_true());
    if (!body)
        return session_close(&s, session_err(&s, ERR_invalid, "the file's name isn't UTF-8"));
    json_t *answer = session_post(&s, "/v1/backup", body);
    if (!answer)
        return session_close(&s, s.status);
    if (s.json)
        session_print(&s, answer);
    else
        printf("%s\n", term_safe_z(&s.arena, *field_z(answer, "file") ? field_z(answer, "file") : file));
    json_int_t missing = json_integer_value(json_object_get(answer, "artifacts_missing"));
    if (missing > 0 && json_is_true(json_object_get(answer, "without_artifacts")))
        session_note(
            &s, "%lld artifacts were left out: a store that is restored from it lists them and hasn't got them", (long long)missing);
    else if (missing > 0)
        session_note(&s, "%lld artifacts that tasks list aren't in it: their files are gone, or damaged (weir verify names them)",
            (long long)missing);
    json_decref(answer);
    return session_close(&s, 0);
}
