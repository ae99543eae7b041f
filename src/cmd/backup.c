/* backup: a consistent copy of the store, made by the server while it works. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/session.h"
#include "cmd/task_text.h"

const struct command_spec backup_spec = {
    .name = "backup",
    .operands = "FILE",
    .operands_min = 1,
    .operands_max = 1,
    .summary = "a consistent copy of the store, beside running work",
    .description =
        "The server writes FILE, on its own machine; a relative name is taken from the current directory. Everything is in it: tasks, "
        "history, logs, and the key of the history, so keep it as you keep the data directory. `weir restore` brings it back.",
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
    if (!body)
        return session_close(&s, session_err(&s, ERR_invalid, "the file's name isn't UTF-8"));
    json_t *answer = session_post(&s, "/v1/backup", body);
    if (!answer)
        return session_close(&s, s.status);
    if (s.json)
        session_print(&s, answer);
    else
        printf("%s\n", term_safe_z(&s.arena, *field_z(answer, "file") ? field_z(answer, "file") : file));
    json_decref(answer);
    return session_close(&s, 0);
}
